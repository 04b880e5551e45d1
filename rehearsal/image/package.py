"""The type of a package in a rehearsed repository."""

from __future__ import annotations

from typing import TypedDict


class Package(TypedDict, total=False):
    """One package: its version, its files, the packages that it depends on, and the script that runs after its installation.

    A file is (`copy`, `program`, `link`, `text` or `tree`, path, and source, target or content). A `tree` is an archive of the
    Lustre client's source, whose build rules are the stand-in's. The table's dependencies are installed only where dpkg is not
    used.
    """

    version: str
    files: list[tuple[str, str, str]]
    needs: list[str]
    postinst: str
