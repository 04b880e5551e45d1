"""Commands in another checkout get nothing of this checkout from the environment."""

from __future__ import annotations

from pathlib import Path

from tools.plain_environment import plain

OURS = str(Path(__file__).parents[2] / ".busbar" / "bin")


def test_a_command_in_another_checkout_gets_nothing_of_this_checkout_from_the_environment():
    given = {"PATH": f"{OURS}:/usr/bin:/bin", "BUSBAR_ROOT": "x", "PULUMI_BACKEND_URL": "x", "MAKEFLAGS": "x", "HOME": "/root"}
    assert plain(given) == {"PATH": "/usr/bin:/bin", "HOME": "/root"}
    assert plain({"MFLAGS": "x", "HOME": "/root"}) == {"HOME": "/root"}
