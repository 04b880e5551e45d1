"""Rules of AWS as the engine shows them: broken ones refuse a preview all at once, doubtful ones are said and it goes on."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest
from test_aws_settings import OUT_OF_REACH

from catalogue.aws.rules import RULES
from tools.stage import Stage

pytestmark = [pytest.mark.rehearsal, pytest.mark.xdist_group("aws-rules")]

PLAN = {"sizesTo": "16M", "iterations": 1}


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> Iterator[Stage]:
    """The AWS stack in a world in which nothing is created."""
    made = Stage(tmp_path_factory.mktemp("aws-rules"), "aws-efa")
    yield made
    assert made.resources() == []
    made.close()


RSA = "ssh-rsa " + base64.b64encode((7).to_bytes(4, "big") + b"ssh-rsa").decode()
GROUP = "arn:aws:resource-groups:us-east-1:111122223333:group"
_INTENT_ALONE = """lustre-capacity lustre-throughput repositories backups-of-mirror mount-points destroy-undecided openzfs-type
openzfs-size allocation names tag-count root-ratios placement-contradiction zones-repeated architectures-differ
block-without-reservation addresses"""
#: What is set, and the rules that it breaks: those of the intent alone, then those that only the account can judge.
BROKEN = [
    (
        {
            "lustreGib": 3600,
            "lustreThroughput": 200,
            "mirrors": ["/a", "/a/b"],
            "lustreBackupDays": 7,
            "lustreMount": "/opt/slurm",
            "lustreOnDestroy": "keep",
            "homeDeployment": "SINGLE_AZ_HA_1",
            "homeGib": 32,
            "allocation": "capacity-optimized",
            "queue": "GPU",
            "tags": [f"t{number}=x" for number in range(41)],
            "rootMibps": 1000,
            "placementGroup": "mine",
            "secondZone": "us-east-1a",
            "headType": "m7g.8xlarge",
            "reservation": "cr-1",
            "privateCidr": "10.1.0.0/26",
            "legacyEfa": True,
        },
        _INTENT_ALONE,
    ),
    ({"shape": "p6e-gb200.36xlarge", "homeDeployment": "MULTI_AZ_1"}, "usage-class placement-strategy storage-zones"),
    ({"shape": "m5.8xlarge", "lustreEfa": True, "placement": ""}, "efa-unsupported lustre-efa"),
    ({"shape": "p3dn.24xlarge", "placement": ""}, "open-modules placement-undecided"),
    ({"shape": "p5.48xlrage"}, "type-unknown"),
    ({"capacity": "capacity-block", "dynamicNodes": 1, "capacityBlockOffering": "cb-1"}, "block-counts purchase-unconfirmed"),
    ({"nodes": 40, "imageFamily": "al2023", "rootGib": 50}, "quota image-system root-size"),
    ({"image": "ami-0123456789abcdef4"}, "image-architecture"),
    (
        {"capacity": "targeted-odcr", "reservation": "cr-0aaaaaaaaaaaaaaa3", "placement": "none"},
        "reservation-type reservation-in-group",
    ),
    ({"capacity": "targeted-odcr", "reservation": "cr-0aaaaaaaaaaaaaaa2", "nodes": 3, "placement": "none"}, "reservation-size"),
    ({"capacity": "targeted-odcr", "reservation": "cr-0bbbbbbbbbbbbbbb1", "placement": "none"}, "block-reservation"),
    ({"capacity": "targeted-odcr", "reservation": "cr-0aaaaaaaaaaaaaaa1", "zone": "us-east-1b"}, "reservation-zone"),
    (
        {
            "capacity": "targeted-odcr",
            "reservation": "cr-0aaaaaaaaaaaaaaa1",
            "placement": "existing",
            "placementGroup": "rehearsed-cluster",
        },
        "group-without-reservation",
    ),
    ({"capacity": "odcr-group", "reservation": f"{GROUP}/nobody", "placement": "none"}, "reservation-pool"),
    ({"placement": "existing", "placementGroup": "gone"}, "placement-missing"),
    ({"zone": "us-east-1e"}, "type-offered"),
    ({"container": "docker://r.io#tests:ofi1.18.0", "sshPublicKey": RSA}, "container-versions key-type"),
]
#: What is shown and lets a preview go on.
DOUBTED = [
    ({"efa": False, "lustreMount": "/scratch/fast", "lustreOnDestroy": "delete"}, "efa-off mount-scratch destroy-takes-data"),
    ({"placement": "none", "container": "/opt/tests.sqsh"}, "placement-off container-file"),
    ({"capacity": "targeted-odcr", "reservation": "cr-0aaaaaaaaaaaaaaa1", "placement": "managed"}, "group-beside-reservation"),
    ({"capacity": "capacity-block", "reservation": "cr-0bbbbbbbbbbbbbbb1", "placement": "managed"}, "placement-block"),
    ({"shape": "trn1.32xlarge"}, "not-nvidia"),
]
#: What no preview here can show: the stand-in account answers from the catalogue, so they never differ.
_NEVER_HERE = {"catalogue-current"}


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        (
            {"image": "ami-0000000000000000a"},
            "image ami-0000000000000000a is not in us-east-1, or this account may not see it.",
        ),
        (
            {"capacity": "targeted-odcr", "reservation": "cr-0dead", "placement": "none"},
            "reservation cr-0dead is not in us-east-1",
        ),
        (
            {"capacity": "capacity-block", "reservation": "cr-0dead", "placement": "none"},
            "reservation cr-0dead is not in us-east-1",
        ),
        ({"region": "us-east-2", "zone": "us-east-2a"}, "region is us-east-2, and aws:region of this stack is us-east-1"),
        ({"nodes": 1}, "nodes is 1; machines with EFA are measured together from 2 on"),
    ],
)
def test_what_the_account_has_not_is_refused_at_preview_in_a_sentence(world, changed, sentence):
    found = world.preview(**PLAN, **changed)
    assert found.status != 0
    assert sentence in found.text, found
    assert "Traceback" not in found.text


def test_every_rule_that_settings_can_break_is_seen_in_a_preview_of_the_engine():
    seen = {rule for _, rules in (*BROKEN, *DOUBTED) for rule in rules.split()}
    assert seen == set(RULES) - set(OUT_OF_REACH) - _NEVER_HERE


@pytest.mark.parametrize(("changed", "rules"), BROKEN, ids=[rules.split()[0] for _, rules in BROKEN])
def test_broken_rules_are_refused_at_preview_by_the_engine_all_at_once(world, changed, rules):
    found = world.preview(**PLAN, **changed)
    assert found.status != 0
    said = [line.strip().removeprefix("error: ").partition(": ")[0] for line in found.text.splitlines()]
    assert set(rules.split()) <= set(said), found
    assert "Traceback" not in found.text


@pytest.mark.parametrize(("changed", "rules"), DOUBTED, ids=[rules.split()[0] for _, rules in DOUBTED])
def test_what_is_doubtful_is_said_and_the_preview_goes_on(world, changed, rules):
    found = world.preview(**PLAN, **changed)
    assert found.status == 0, found
    said = [line.strip().removeprefix("warning: ").partition(": ")[0] for line in found.text.splitlines()]
    assert set(rules.split()) <= set(said), found
