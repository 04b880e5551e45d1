"""The AWS stack, whole: the real engine, the real program, a head, two machines with 32 rails each and their file systems."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator

import jsonschema
import pytest
from catalogue.aws.rules import RULES
from test_aws_settings import OUT_OF_REACH

from rehearsal.entry import cleanup
from rehearsal.world.world import World
from tools.stage import ROOT, Finished, Stage

pytestmark = [pytest.mark.rehearsal, pytest.mark.xdist_group("aws")]

SCHEMA = json.loads((ROOT / "docs" / "outputs.schema.json").read_text())
HOLDERS = ("LustreFileSystem", "OpenZfsFileSystem", "Bucket")
#: Large, as 64 rails share a few processors with another test.
PLAN = {"sizesTo": "16M", "iterations": 1}
#: Where the measurement is not the point: small, and no number is too low.
QUICK = {"sizesTo": "1M", "minimumBusbwGbS": "1", "history": ""}


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Iterator[tuple[Stage, Finished]]:
    """The stack with a short plan, up."""
    stage = Stage(tmp_path_factory.mktemp("aws"), "aws-efa")
    found = stage.up(**PLAN)
    assert found.status == 0, found
    yield stage, found
    stage.close()


def changes(found: Finished) -> list[str]:
    return [line for line in found.text.splitlines() if line.strip().startswith(("+ ", "~ ", "- ", "+-"))]


@pytest.mark.alone
def test_an_update_ends_in_a_pass_near_the_wire(built):
    outputs = built[0].outputs()
    assert (outputs["measured"]["verdict"], outputs["target"], outputs["expected"]["shape"]) == ("pass", "aws", "p5.48xlarge")
    assert outputs["measured"]["wire_efficiency"] >= 0.95
    assert outputs["measured"]["busbw_gb_s"] == pytest.approx(0.1, rel=0.15)
    rows = outputs["measured"]["results"]["all_reduce"]
    assert all(row[place]["wrong"] == 0 for row in rows for place in ("out_of_place", "in_place"))


def test_the_outputs_fit_their_schema(built):
    jsonschema.validate(built[0].outputs(), SCHEMA, cls=jsonschema.Draft202012Validator)


def test_all_32_rails_of_both_nodes_carried_the_bytes(built):
    sent = built[0].outputs()["measured"]["transport"]["tx_bytes"]
    assert len(sent) == 2
    for devices in sent.values():
        rails = [count for name, count in devices.items() if name.endswith("s0") and name.startswith("rdmap")]
        assert len(rails) == 32
        assert min(rails) > 500_000
        assert max(rails) < 1.1 * min(rails)


def test_the_transport_is_proven_by_counters_and_by_what_the_plugin_said(built):
    transport = built[0].outputs()["measured"]["transport"]
    assert transport["state"] == "pass"
    assert any("NCCL took provider efa" in text and "with 32 devices" in text for text in transport["proof"])
    assert any("rails rdmap79s0, rdmap80s0, rdmap81s0 and 29 more sent" in text for text in transport["proof"])


def test_both_file_systems_are_mounted_and_shared_and_the_login_users_own_home_is_not(built):
    stage = built[0]
    first, second = (node["address"] for node in stage.outputs()["nodes"])
    head = stage.outputs()["ssh"].split()[2]
    mark = "sudo sh -c 'echo from-a-node > /home/mark'; echo from-a-node > /fsx/mark; echo mine > ~/mark"
    stage.on_host(f"{mark}; mountpoint -q /fsx && mountpoint -q /home")
    read = "cat /home/mark /fsx/mark; test -e ~/mark && echo shared || echo apart"
    for words in (("-J", head, f"ubuntu@{second}"), (head,)):
        assert stage.on_host(read, *words).split() == ["from-a-node", "from-a-node", "apart"], words
    assert first != second


def test_an_unchanged_update_changes_nothing(built):
    found = built[0].up(**PLAN)
    assert found.status == 0, found
    assert not changes(found), found
    assert "unchanged" in found.text


def test_no_private_key_and_no_environment_is_in_state_or_outputs(built):
    stage = built[0]
    text = json.dumps(stage.resources()) + built[1].text
    for secret in ("PRIVATE KEY", "SSH_AUTH_SOCK", '-agent"'):
        assert secret not in text


def test_a_preview_predicts_the_bandwidth_and_says_the_rules_warnings(built):
    found = built[0].preview(**PLAN, placement="none")
    assert found.status == 0, found
    assert "a healthy fabric gives about these GB/s of all_reduce busbw (the wire allows 400)" in found.text
    assert "placement-off: gpu-p5 has EFA and placement none" in found.text


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
def test_what_the_account_has_not_is_refused_at_preview_in_a_sentence(built, changed, sentence):
    found = built[0].preview(**PLAN, **changed)
    assert found.status != 0
    assert sentence in found.text, found
    assert "Traceback" not in found.text


def test_every_rule_that_settings_can_break_is_seen_in_a_preview_of_the_engine():
    seen = {rule for _, rules in (*BROKEN, *DOUBTED) for rule in rules.split()}
    assert seen == set(RULES) - set(OUT_OF_REACH) - _NEVER_HERE


@pytest.mark.parametrize(("changed", "rules"), BROKEN, ids=[rules.split()[0] for _, rules in BROKEN])
def test_broken_rules_are_refused_at_preview_by_the_engine_all_at_once(built, changed, rules):
    found = built[0].preview(**PLAN, **changed)
    assert found.status != 0
    said = [line.strip().removeprefix("error: ").partition(": ")[0] for line in found.text.splitlines()]
    assert set(rules.split()) <= set(said), found
    assert "Traceback" not in found.text


@pytest.mark.parametrize(("changed", "rules"), DOUBTED, ids=[rules.split()[0] for _, rules in DOUBTED])
def test_what_is_doubtful_is_said_and_the_preview_goes_on(built, changed, rules):
    found = built[0].preview(**PLAN, **changed)
    assert found.status == 0, found
    said = [line.strip().removeprefix("warning: ").partition(": ")[0] for line in found.text.splitlines()]
    assert set(rules.split()) <= set(said), found


def test_a_destroy_refuses_what_holds_data_without_the_choice_and_leaves_nothing_with_it(tmp_path):
    stage = Stage(tmp_path, "aws-efa")
    try:
        found = stage.up(**QUICK, lustreOnDestroy="refuse", homeOnDestroy="refuse")
        assert "acceptance-measure created" in found.text, found  # a busy machine's verdict is not the point here
        found = stage.destroy()
        assert found.status != 0
        refused = set(re.findall(r":(\w+)::[\w-]+\" cannot be deleted\s+because it is protected", found.text))
        assert refused == set(HOLDERS), found
        left = {each["type"].rpartition(":")[2] for each in stage.resources()}
        assert left >= set(HOLDERS)
        assert not left & {"Fleet", "Instance"}, "machines, which cost most, end all the same"
        found = stage.up(**QUICK)
        assert "acceptance-measure created" in found.text, found
        found = stage.destroy()
        assert found.status == 0, found
        assert stage.resources() == []
        tag = f"bb{World.at(stage.world).tag}-"
        assert tag not in stage.command("ip", "netns", "list").text
        assert not stage.world.exists()
    finally:
        if stage.resources():  # so that what is protected can go
            stage.up(**QUICK)
        stage.close()


def test_file_systems_that_are_retained_stay_with_the_network_that_they_stand_in(tmp_path):
    stage = Stage(tmp_path, "aws-efa")
    world = World.at(stage.world)
    try:
        found = stage.up(**QUICK, lustreOnDestroy="retain", homeOnDestroy="retain")
        assert "acceptance-measure created" in found.text, found
        stage.on_host("echo kept > /fsx/mark")
        found = stage.destroy()
        assert found.status == 0, found
        assert stage.resources() == []
        records = json.loads((stage.world / "aws.json").read_text())["records"].values()
        left = {each["token"].rpartition(":")[2] for each in records if each["urn"]}
        assert left >= {"LustreFileSystem", "OpenZfsFileSystem", "Vpc", "Subnet", "SecurityGroup"}
        assert not left & {"Fleet", "Instance", "NatGateway", "Eip", "PlacementGroup", "LaunchTemplate"}
        (mark,) = stage.world.glob("storage/*/data/mark")
        assert mark.read_text() == "kept\n"
    finally:
        stage.close()
        cleanup.demolish(world)


@pytest.mark.alone
def test_one_slow_efa_device_of_three_machines_is_named_by_the_gpu_that_it_is_near(tmp_path):
    stage = Stage(tmp_path, "aws-efa")
    try:
        stage.faults({"kind": "rail_rate", "host": 1, "rail": 13, "factor": 0.4})
        assert stage.up(**PLAN, nodes=3).status != 0
        outputs = stage.outputs()
        assert outputs["measured"]["verdict"] == "short"
        (culprit,) = outputs["measured"]["search"]["culprits"]
        assert (culprit["kind"], culprit["nodes"]) == ("rail", [outputs["nodes"][1]["name"]])
        assert culprit["rails"] == ["rdmap130s0", "rdmap131s0", "rdmap132s0", "rdmap133s0"]
        assert any("the rails of GPU 3 on all nodes together" in reason for reason in outputs["measured"]["reasons"])
    finally:
        stage.close()


def test_nccl_that_finds_no_efa_device_is_short_and_says_that_its_plugin_was_not_used(tmp_path):
    stage = Stage(tmp_path, "aws-efa")
    try:
        stage.faults({"kind": "tcp_fallback", "host": 0}, {"kind": "tcp_fallback", "host": 1})
        assert stage.up(**QUICK | {"searchMinutes": 0}).status != 0
        outputs = stage.outputs()
        assert outputs["measured"]["verdict"] == "short"
        reasons = " ".join(outputs["measured"]["reasons"])
        assert "NCCL fell back to NET/Socket: its efa plugin was not used" in reasons
    finally:
        stage.close()
