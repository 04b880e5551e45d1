"""The whole program with target aws: what stops a preview, what a preview shows, and how measurements are judged."""

from __future__ import annotations

import json
import re
from typing import Any

import pulumi
import pytest
from aws_line import asked, measured
from aws_preview import READY, run
from aws_program import Cloud
from conftest import ROOT

from benchmarks.judge.verdict import judge
from catalogue.aws.instances import INSTANCES
from catalogue.detection import Facts, Hca, recognise
from config.aws.rules import RULES

#: A machine with the right GPUs, launched without EFA.
PLAIN = {
    "gpu": "NVIDIA H100 80GB HBM3",
    "gpus": 8,
    "hca": [],
    "tag": "Amazon EC2",
    "mpi": "/opt/amazon/openmpi",
    "front": "ens1",
    "network": "10.1.0.0/17",
}


@pytest.fixture
def made(monkeypatch) -> list[str]:
    """Types of the resources that the program registers, even if it fails."""
    found: list[str] = []
    register = Cloud.new_resource
    monkeypatch.setattr(Cloud, "new_resource", lambda self, args: found.append(args.typ) or register(self, args))
    return found


def machine(name: str) -> dict[str, Any]:
    row = INSTANCES[name]
    return {
        "supportedUsagesClasses": sorted(row.usage),
        "supportedPlacementStrategies": ["cluster"],
        "efaSupported": True,
        "efaMaximumInterfaces": row.efa,
        "networkCards": [{"index": n, "maximumInterfaces": most} for n, most in enumerate(row.cards)],
    }


def nodes(**changes: Any) -> dict[str, Any]:
    return {"queues": [{"machines": [changes]}]}


def test_all_broken_rules_are_reported_at_once_and_nothing_is_registered(monkeypatch, made):
    odd = nodes(dynamic=2, purchase={"option": "capacity-block", "reservation": "cr-1"}, placement="none") | {
        "storage": {"lustre": {"size": "3600 GiB"}, "home": {"throughput": "512 MB/s"}}
    }
    with pytest.raises(pulumi.RunError) as refused:
        run(monkeypatch, aws=odd)
    assert sorted(line.rpartition("[")[2] for line in str(refused.value).splitlines()) == [
        "block-dynamic]",
        "lustre-size]",
        "openzfs-size]",
    ]
    assert set(made) <= {"pulumi:pulumi:Stack"}


def test_facts_of_the_account_are_judged_before_anything_is_registered(monkeypatch, made):
    with pytest.raises(pulumi.RunError, match=r"^aws\.queues\[0\]\.machines\[0\]\.static is 2, which takes .* \[quota\]$"):
        run(monkeypatch, answers={"getServiceQuota": {"value": 192.0}})
    assert set(made) <= {"pulumi:pulumi:Stack"}


def test_a_warning_is_shown_in_the_preview_and_stops_nothing(monkeypatch, made):
    ready = READY | {"groups": [{"facts": PLAIN, "nodes": ["a", "b"]}]}
    seen = run(monkeypatch, {"acceptance-ready-contact": json.dumps(ready)}, aws=nodes(efa=False) | {"suppress": ["efa-cards"]})
    (warned,) = seen.warned
    assert warned.startswith("aws.queues[0].machines[0].efa is false, but p5.48xlarge has 32 EFA devices")
    assert warned.endswith("[efa-off]")
    assert made.count("aws:ec2/launchTemplate:LaunchTemplate") == 1


def test_a_suppressed_rule_neither_stops_the_preview_nor_shows_a_warning(monkeypatch):
    odd = {"storage": {"lustre": {"size": "3600 GiB"}}} | nodes(placement="none")
    seen = run(monkeypatch, aws=odd | {"suppress": ["lustre-size", "placement-off"]})
    assert seen.cloud.one("LustreFileSystem")["storageCapacity"] == 3600
    assert seen.warned == []


# The whole program


def test_the_preview_of_the_aws_stack_shows_the_expected_busbw(monkeypatch):
    seen = run(monkeypatch)
    assert seen.warned == []
    # NVLink is the limit: 0.78 of a GPU's NVLink rate (450 GB/s) is less than 0.95 of the rails' rate (400 GB/s).
    assert seen.outputs["expected"]["busbw_gb_s"] == pytest.approx(351)
    assert (seen.outputs["target"], seen.outputs["expected"]["shape"]) == ("aws", "p5.48xlarge")
    (told,) = [
        text for text in seen.told if text.startswith("2 x p5.48xlarge, to be rented and measured, rehearsed at 1/4000:")
    ]
    assert "  wire:     0.1 GB/s of all_reduce busbw\n" in told


def test_the_preview_shows_the_price_or_the_key_that_sets_an_unknown_price(monkeypatch):
    def told(**changes: Any) -> str:
        (found,) = [text for text in run(monkeypatch, **changes).told if text.startswith("2 x p")]
        return found.splitlines()[1].removeprefix("  price:    ")

    kind = {"supportedUsagesClasses": ["on-demand"], "supportedPlacementStrategies": ["cluster"], "efaSupported": True}
    row = INSTANCES["p5en.48xlarge"]
    cards = [{"index": n, "maximumInterfaces": most} for n, most in enumerate(row.cards)]
    other = {"getInstanceType": kind | {"efaMaximumInterfaces": row.efa, "networkCards": cards}}
    p5en = {"aws": {"queues": [{"machines": [{"type": "p5en.48xlarge"}]}]}, "answers": other}
    assert told().startswith("110.08 USD an hour for real machines, ")
    assert told(**p5en) == "unknown; set records.pricePerNodeHour to include it"
    assert told(**p5en, records={"pricePerNodeHour": "60 USD"}).startswith("120 USD an hour for real machines, ")


def test_a_healthy_efa_run_passes_with_a_proof_that_names_the_provider_and_the_devices(monkeypatch):
    seen = run(monkeypatch, {"acceptance-measure": measured()}, preview=False)
    assert (seen.outputs["measured"]["verdict"], seen.outputs["measured"]["reasons"]) == ("pass", [])
    assert seen.outputs["measured"]["wire_efficiency"] == pytest.approx(0.98)
    proof = " ".join(seen.outputs["measured"]["transport"]["proof"])
    assert "rdmap79s0" in proof
    assert "NCCL used provider efa (fabric efa-direct) with 32 devices" in proof
    assert [node["name"] for node in seen.outputs["nodes"]] == ["ip-10-1-0-19", "ip-10-1-0-20"]
    assert seen.outputs["ssh"] == "ssh -J ubuntu@203.0.113.5 ubuntu@10.1.0.19"


def test_commands_reach_the_nodes_through_the_login_node_and_set_no_hca_for_nccl(monkeypatch):
    seen = run(monkeypatch)
    contact = seen.cloud.named("acceptance-ready-contact")
    assert '"address": "203.0.113.5"' in contact["stdin"].replace("\\", "")
    assert '"first_boot": true' in contact["stdin"].replace("\\", "")
    request = json.loads(seen.cloud.named("acceptance-measure")["stdin"])
    assert len(request["hcas"]) == 32
    ranks = request["steps"][-1]["ranks"]["environment"]
    assert ranks["NCCL_SOCKET_IFNAME"] == "^docker,lo,veth"
    assert "NCCL_IB_HCA" not in ranks


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (
            {"networks": {"Socket": 16}, "devices": {"NET/Socket : Using [0]eth0": 16}, "channels": {"NET/Socket/0": 9}},
            "NCCL fell back to NET/Socket: its efa plugin was not used",
        ),
        (
            {"devices": {"Selected provider is tcp, fabric is 10.1.0.0/17 (found 1 nics)": 16}},
            "selected provider tcp instead of efa",
        ),
        (
            {
                "devices": {
                    "Selected provider is efa, fabric is efa-direct (found 32 nics)": 8,
                    "Selected provider is efa, fabric is efa-direct (found 31 nics)": 8,
                }
            },
            "found 31 efa devices on some node, but the shape has 32",
        ),
        ({"devices": {}}, "NCCL did not log which provider carried its bytes"),
        ({"devices": {"Selected Provider is efa": 16}}, "NCCL's plugin did not log how many efa devices it found"),
        ({"gpudirect": {}}, "NCCL did not log whether it used GPUDirect RDMA"),
    ],
)
def test_a_run_passes_only_if_nccls_log_shows_gpudirect_and_efa_on_all_devices_however_fast_the_run_is(said, reason):
    judged = judge(measured(**said), asked())
    assert judged.verdict in {"short", "unknown"}
    assert any(reason in text for text in judged.reasons), judged.reasons


def test_the_log_of_older_ofi_plugins_is_understood():
    older = {"networks": {"Libfabric": 16}, "devices": {"Selected Provider is efa (found 32 nics)": 16}}
    assert judge(measured(**older), asked()).verdict == "pass"


def test_if_the_bandwidth_is_short_the_search_tests_one_gpu_after_another_with_the_devices_near_it(monkeypatch):
    line = json.loads(measured())
    for step in line["steps"]:
        if step["name"] == "all_reduce":
            for row in step["rows"]:
                for timing in row[1:]:
                    timing[0], timing[1], timing[2] = timing[0] * 2, timing[1] / 2, timing[2] / 2
    seen = run(monkeypatch, {"acceptance-measure": json.dumps(line)}, preview=False)
    trials = json.loads(seen.cloud.named("acceptance-search")["stdin"])["trials"]
    assert (trials["by_gpu"], len(trials["rails"])) == (True, 8)
    assert trials["rails"][1] == ["rdmap96s0", "rdmap97s0", "rdmap98s0", "rdmap99s0"]
    assert "NCCL_IB_HCA" not in trials["ranks"]["environment"]
    assert seen.outputs["measured"]["verdict"] == "short"


def test_the_names_of_rails_that_no_source_lists_come_from_the_machines_at_first_contact(monkeypatch):
    facts = {
        "gpu": "NVIDIA B200",
        "gpus": 8,
        "hca": [
            *([name, 400, None, True, "mlx5_core"] for name in ("ibp3s0", "ibp4s0")),  # NVLink controllers
            *([name, 100, None, True, "efa"] for name in sorted(f"rdmap{n}s0" for n in range(96, 104))),
        ],  # older drivers report 100, whatever the rate is
        "tag": "Amazon EC2",
        "mpi": "/opt/amazon/openmpi",
        "front": "ens1",
        "network": "10.1.0.0/17",
    }
    ready = READY | {"groups": [{"facts": facts, "nodes": ["a", "b"]}], "fronts": ["ens1"], "networks": ["10.1.0.0/17"]}
    seen = run(
        monkeypatch,
        {"acceptance-ready-contact": json.dumps(ready)},
        preview=False,
        aws=nodes(type="p6-b200.48xlarge"),
        answers={"getInstanceType": machine("p6-b200.48xlarge")},
    )
    assert seen.outputs["expected"]["busbw_gb_s"] == pytest.approx(380)
    request = json.loads(seen.cloud.named("acceptance-measure")["stdin"])
    assert request["hcas"] == [f"rdmap{n}s0" for n in range(96, 104)]
    assert request["steps"][-1]["ranks"]["environment"]["NCCL_SOCKET_IFNAME"] == "=ens1"


def test_recognition_refuses_a_machine_that_shows_fewer_rails_than_the_instance_type_has():
    seven = tuple(Hca(f"rdmap{n}s0", 400, None, active=True) for n in range(7))
    facts = Facts("NVIDIA B200", 8, seven, "ens1", "10.1.0.0/17")
    with pytest.raises(ValueError, match=r"p6-b200\.48xlarge, which has 8 rails, but the machines show 7 active RDMA devices"):
        recognise(facts, 2, INSTANCES["p6-b200.48xlarge"].shape())


# The page docs/aws.md


def test_every_rule_that_the_aws_page_suppresses_in_an_example_exists():
    page = (ROOT / "docs" / "aws.md").read_text()
    assert set(re.findall(r"suppress: \[([a-z-]+)\]", page)) <= set(RULES)
