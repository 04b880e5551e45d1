"""Serve the vendors' web sites until killed; rehearsal.host.sites starts this program."""

from __future__ import annotations

from functools import partial

from rehearsal.host.sites import NAME
from rehearsal.image import internet
from rehearsal.image.apt_repositories import SIGNERS
from rehearsal.plugin import openpgp
from rehearsal.plugin.https_service import Answer, Request, serve
from rehearsal.world.world import World

_SIGNED = "/Release.gpg"


def answer(scheme: str, request: Request) -> Answer:
    """Return a file of the requested site, or status 404 if there is no such file or the method is not GET.

    A path that ends in `/Release.gpg` returns the signature of the file `Release`.
    """
    if request.method != "GET":
        return Answer(404, "")
    host = request.headers.get("host", "")
    path = request.target.removesuffix(".gpg") if request.target.endswith(_SIGNED) else request.target
    found = internet.served(f"{scheme}://{host}{path}")
    if found is not None and path != request.target:
        found = openpgp.detached(SIGNERS[host], found).encode()
    return Answer(404, "") if found is None else Answer(200, found)


if __name__ == "__main__":
    serve(World.current(), NAME, partial(answer, "https"), plain=partial(answer, "http"))
