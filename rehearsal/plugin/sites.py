"""Answer at the vendors' sites until killed; rehearsal.host.sites starts this."""

from __future__ import annotations

from functools import partial

from rehearsal.host.sites import NAME
from rehearsal.image import internet
from rehearsal.plugin.https_service import Answer, Request, serve
from rehearsal.world.world import World


def answer(scheme: str, request: Request) -> Answer:
    """Return a file of the site that was asked, or that it has none of that name."""
    address = f"{scheme}://{request.headers.get('host', '')}{request.target}"
    found = internet.served(address) if request.method == "GET" else None
    return Answer(404, "") if found is None else Answer(200, found)


if __name__ == "__main__":
    serve(World.current(), NAME, partial(answer, "https"), plain=partial(answer, "http"))
