"""The type of a package in a rehearsed repository."""

from __future__ import annotations

from typing import TypedDict


class Package(TypedDict, total=False):
    """One package: its version, its files, the packages that it depends on, and the script that runs after its installation.

    Each file is a tuple: its kind (`copy`, `program`, `link`, `text` or `tree`), its path, and its source, link target or
    content. A `tree` is an archive of the Lustre client's source, whose build rules are the stand-in's. Dependencies (`needs`)
    are installed only by the stand-in for yum and dnf, not by dpkg.
    """

    version: str
    files: list[tuple[str, str, str]]
    needs: list[str]
    postinst: str
