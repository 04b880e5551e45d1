"""What a package of a rehearsed repository is."""

from __future__ import annotations

from typing import TypedDict


class Package(TypedDict, total=False):
    """One package: its version, its files, the packages that it needs, and the script that runs after it is installed.

    A file is (`copy`, `program`, `link`, `text` or `tree`, path, source, target or content). A `tree` is an archive of the
    Lustre client's source, whose rules are the stand-in's. What a package needs comes with it only where no dpkg installs it.
    """

    version: str
    files: list[tuple[str, str, str]]
    needs: list[str]
    postinst: str
