"""Rules of AWS in the engine's output: a preview shows all errors at once and fails; after warnings, a preview continues."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from config.aws.rules import RULES
from tools.stack_changes import DEFAULT
from tools.stage import Stage

pytestmark = [pytest.mark.rehearsal, pytest.mark.xdist_group("aws-rules")]

PLAN: dict[str, Any] = {"measure": {"sizes": {"to": "16M"}, "iterations": 1}}


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> Iterator[Stage]:
    """The AWS stack in a world in which nothing is created."""
    made = Stage(tmp_path_factory.mktemp("aws-rules"), "aws-efa")
    yield made
    assert made.resources() == []
    made.close()


def nodes(**changes: Any) -> dict[str, Any]:
    """Return keys of `aws` that change the keys of the first queue's machines to `changes`."""
    return {"queues": [{"machines": [changes]}]}


GROUP = "arn:aws:resource-groups:us-east-1:111122223333:group"


def bought(option: str, reservation: str | None = None, **machines: Any) -> dict[str, Any]:
    """Return keys of `aws` that set how the first queue's machines are bought, and other keys of these machines."""
    return nodes(**{"purchase": {"option": option, "reservation": reservation}, "placement": "none"} | machines)


def targeted(reservation: str, **machines: Any) -> dict[str, Any]:
    return bought("targeted-odcr", reservation, **machines)


def queues(*machines: dict[str, Any]) -> dict[str, Any]:
    """Return the key `queues` with one queue for each argument; each argument changes the machines of its queue.

    The first queue is the stack's own.
    """
    own = {"name": "p5", "type": "p5.48xlarge", "static": 2, "placement": "managed"}
    first, *others = (one["queues"][0]["machines"][0] for one in machines)
    more = [{"name": f"queue-{at}", "machines": [own | one]} for at, one in enumerate(others)]
    return {"queues": [{"machines": [first]}, *more]}


UBUNTU = "ami-0123456789abcdef0"
HELD, TAKEN, BLOCK = "cr-0aaaaaaaaaaaaaaa1", "cr-0aaaaaaaaaaaaaaa2", "cr-0bbbbbbbbbbbbbbb1"
RESERVED = (
    "reservation-unknown reservation-type reservation-in-group reservation-size reservation-kind reservation-pool "
    "group-without-reservation placement-missing"
)
#: Changed keys, and the rules that one preview reports for them. The rules of the first case are checked without an account.
BROKEN = [
    (
        {
            "login": {"type": "m7g.8xlarge"},
            "root": {"throughput": "1000 MiB/s"},
            "secondZone": "us-east-1a",
            "storage": {"lustre": {"size": "3600 GiB", "mount": "/opt/slurm"}, "home": {"size": "32 GiB"}},
        }
        | nodes(name="P5"),
        "architectures-differ root-ratios second-zone lustre-size mount-points openzfs-size names",
    ),
    (
        queues(
            targeted("cr-0dead"),
            bought("capacity-block", "cr-0dead"),
            targeted("cr-0aaaaaaaaaaaaaaa3"),
            targeted(TAKEN, static=3),
            targeted(BLOCK),
            targeted(HELD, placement="existing", placementGroup="rehearsed-cluster"),
            bought("odcr-group", f"{GROUP}/nobody"),
            nodes(placement="existing", placementGroup="gone"),
        ),
        RESERVED,
    ),
    (nodes(type="p6e-gb200.36xlarge", efa=False), "usage-class placement-strategy efa-cards"),
    (nodes(static=40) | {"image": UBUNTU, "imageFamily": "al2023", "root": {"size": "50 GiB"}}, "quota image-system root-size"),
    ({"image": "ami-0123456789abcdef4"}, "image-architecture"),
    (targeted(HELD) | {"zone": "us-east-1b", "image": "ami-0000000000000000a"}, "reservation-zone image-missing"),
    ({"zone": "us-east-1e"}, "type-offered"),
]
#: Changed keys, and the warnings that let a preview continue.
DOUBTED = (
    queues(
        nodes(efa=False),
        targeted(HELD, placement="managed"),
        bought("capacity-block", BLOCK, placement="managed"),
        nodes(type="trn1.32xlarge"),
    )
    | {"storage": {"lustre": {"mount": "/scratch/fast"}}, "suppress": ["efa-cards"]},
    "efa-off mount-scratch destroy-deletes-data group-beside-reservation placement-block not-nvidia",
)
#: The plan for stacks with several pools; this plan names the pool to be measured.
NAMED = {"measure": PLAN["measure"] | {"pool": "gpu-p5"}}


def rules_in(text: str) -> set[str]:
    """Return the names of rules, which are in brackets at the ends of lines of `text`."""
    return {found for line in text.splitlines() for found in re.findall(r" \[([a-z-]+)\]$", line.strip())}


def test_the_stack_file_for_an_account_needs_only_the_networks_that_may_log_in(tmp_path):
    """Region and credentials come from the environment. The public key comes from the operator's home folder."""
    stage = Stage(tmp_path, "aws")
    try:
        (tmp_path / ".ssh").mkdir()
        (tmp_path / ".ssh" / "id_ed25519.pub").symlink_to(stage.world / "operator" / "id_ed25519.pub")
        cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")  # it contains Pulumi's engine
        stage.environment |= {"HOME": str(tmp_path), "XDG_CACHE_HOME": cache, "AWS_REGION": "ap-northeast-1"}
        own = {"access": {"publicKey": DEFAULT, "sshFrom": ["203.0.113.7/32"]}}
        for wanted in (own, own | {"storage": DEFAULT}):
            found = stage.preview(aws=wanted, **dict.fromkeys(("measure", "accept", "records"), DEFAULT))
            assert found.status == 0, found
            said = "aws.zone is not set: the stack uses ap-northeast-1a, the first zone that offers m5.8xlarge and p5.48xlarge."
            assert said in found.text
            assert "(2 x p5.48xlarge)" in found.text, "the preview shows the gate of two nodes of the default type"
    finally:
        stage.close()


def test_a_zone_outside_the_region_of_the_stack_is_refused_with_the_path_of_the_key(world):
    found = world.preview(**PLAN, aws={"zone": "us-east-2a"})
    assert found.status != 0
    assert "aws.zone is us-east-2a, and aws:region of this stack is us-east-1; the zone must be in that region." in found.text


@pytest.mark.parametrize(("changed", "rules"), BROKEN, ids=[rules.split()[0] for _, rules in BROKEN])
def test_a_preview_reports_all_broken_rules_at_once_and_fails(world, changed, rules):
    found = world.preview(**(NAMED if "queues" in changed and len(changed["queues"]) > 1 else PLAN), aws=changed)
    assert found.status != 0
    assert set(rules.split()) <= rules_in(found.text), found
    assert set(rules.split()) <= set(RULES)
    assert "Traceback" not in found.text


def test_doubtful_settings_are_reported_and_the_preview_continues(world):
    changed, rules = DOUBTED
    found = world.preview(**NAMED, aws=changed)
    assert found.status == 0, found
    assert set(rules.split()) <= rules_in(found.text), found
