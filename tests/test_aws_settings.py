"""Target aws from its stack file on: wrong intent and every broken rule stop a preview before anything is registered."""

from __future__ import annotations

import base64
import contextlib
import json
import re
from typing import Any

import pulumi
import pytest
from a_line import document
from aws_preview import DECLARED, OTHER, READY, ZONE, run, values
from conftest import ROOT
from test_aws_program import GROUP, ODCR, Cloud, controlled

import settings
from benchmarks.judge.verdict import judge
from benchmarks.plan.asked import Asked
from catalogue.aws import ERROR, RULES, WARNING, Lustre, OpenZfs, Repository
from catalogue.detection import Facts, Hca, recognise
from catalogue.instances import INSTANCES

# The SDK warns of its own older classes when it is imported.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
RSA = "ssh-rsa " + base64.b64encode((7).to_bytes(4, "big") + b"ssh-rsa").decode()
HERE = ODCR | {"AvailabilityZone": ZONE}
IN_MINE = HERE | {"PlacementGroupArn": "arn:aws:ec2:r:1:placement-group/mine"}
POOL = {
    "Configuration": [{"Type": "AWS::EC2::CapacityReservationPool"}],
    "Resources": ["arn:aws:ec2:r:1:capacity-reservation/cr-1"],
}
TARGETED = {"capacity": "targeted-odcr", "reservation": "cr-1", "placement": "none"}


def parsed(**changes: Any) -> settings.AwsSettings:
    wanted = settings.parse(values(**changes))
    assert isinstance(wanted, settings.AwsSettings)
    return wanted


def test_a_key_that_other_targets_have_too_takes_this_targets_default():
    bare = parsed(shape="", imageFamily="", publicCidr="", privateCidr="")
    assert (bare.shape, bare.image_family) == ("p5.48xlarge", "ubuntu2204")
    assert (bare.public_cidr, bare.private_cidr) == ("10.0.0.0/16", "10.1.0.0/16")


def test_the_defaults_of_each_target_are_said_where_the_key_is_declared():
    for model in (settings.OciSettings, settings.AwsSettings, settings.HostsSettings):
        for name, default in model.defaults.items():
            key = settings.to_camel(name)
            assert DECLARED[key]["default"] == ""
            assert default in DECLARED[key]["description"]


def test_what_is_asked_becomes_the_intent_that_rules_judge():
    found = parsed(
        mirrors=["/data", "/sets=s3://mine/deep/er"], tags=["team=training"], secondZone=OTHER, rootGib=600, queue="train"
    ).intent
    (compute,) = found.compute
    assert (compute.key, compute.instance_type, compute.static, compute.zones) == ("train-p5", "p5.48xlarge", 2, (ZONE,))
    assert found.lustre == Lustre(
        repositories=(Repository(path="/data"), Repository(path="/sets", bucket="mine", prefix="deep/er"))
    )
    assert found.home == OpenZfs()
    assert (found.root.gib, found.head_root.gib, found.tags, found.second_zone) == (600, 512, {"team": "training"}, OTHER)
    assert found.private_prefix == 17


def test_file_systems_can_be_left_out():
    found = parsed(lustre=False, home=False, mirrors=[]).intent
    assert (found.lustre, found.home) == (None, None)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"nodes": 1}, "nodes is 1; machines with EFA are measured together from 2 on"),
        ({"region": ""}, "region is not set, and it has no default"),
        ({"image": ""}, "image is not set, and it has no default"),
        ({"image": "ocid1.image.oc1..x"}, "image is 'ocid1.image.oc1..x'; it must match ^ami-"),
        ({"region": "virginia"}, "region is 'virginia'; it must match"),
        ({"zone": "us-west-2a"}, "zone is us-west-2a, which is no zone of region us-east-1; it must be one like us-east-1a"),
        ({"secondZone": "eu-west-1a"}, "secondZone is eu-west-1a, which is no zone of region us-east-1"),
        ({"imageFamily": "ol8"}, "imageFamily is 'ol8'; it must be one of ubuntu2204, al2023"),
        ({"headImageFamily": ""}, "headImageFamily is ''; it must be one of ubuntu2204, al2023"),
        ({"placement": "close"}, "placement is 'close'; it must be one of managed, existing, none"),
        ({"spotMaxPriceUsd": "cheap"}, "spotMaxPriceUsd is 'cheap'; it must be a positive number of USD, or empty"),
        ({"publicCidr": "10.0.0.0/28"}, "publicCidr is 10.0.0.0/28; it must be /16 to /27"),
        ({"privateCidr": "10.0.128.0/17"}, "publicCidr 10.0.0.0/16 and privateCidr 10.0.128.0/17 overlap"),
        ({"sshFrom": []}, "sshFrom is empty; name at least one network that may reach the head"),
        ({"sshFrom": ["0.0.0.0/0"]}, "the whole Internet; name your networks, or set allowWorld: true"),
        ({"tags": ["team"]}, "tags has 'team'; write key=value"),
        ({"tags": ["Name=mine"]}, "tags has 'Name=mine'; write key=value with a key of your own"),
        ({"mirrors": ["/data=mine"]}, "mirrors has '/data=mine'; write a folder, or folder=s3://bucket/prefix"),
        ({"lustre": False}, "mirrors names folders that mirror S3, and lustre is false"),
        ({"capacityBlockHours": -1}, "capacityBlockHours is -1"),
        ({"lustreGb": 1200}, "lustreGb is not a configuration key of busbar; did you mean lustreGib?"),
        ({"bastionShpae": "x"}, "bastionShpae is not a configuration key of busbar; did you mean bastionShape?"),
    ],
)
def test_what_nobody_could_build_is_refused_at_the_front_door_in_one_sentence(changes, sentence):
    with pytest.raises(pulumi.RunError) as found:
        settings.parse(values(**changes))
    assert sentence in str(found.value)
    assert len(str(found.value).splitlines()) == 1


#: Rule -> what breaks it, what the account says, and a part of the sentence.
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "efa-unsupported": ({"shape": "m5.8xlarge"}, {}, "asks for EFA on m5.8xlarge, which has none"),
    "efa-off": ({"efa": False}, {}, "turns EFA off on p5.48xlarge, which has 32 EFA devices"),
    "placement-undecided": ({"placement": ""}, {}, "has EFA and no placement"),
    "placement-off": ({"placement": "none"}, {}, "has EFA and placement none"),
    "placement-strategy": ({"shape": "p6e-gb200.36xlarge"}, {}, "the type supports no group of strategy cluster"),
    "placement-block": ({"capacity": "capacity-block", "reservation": "cr-1"}, {}, "managed with a Capacity Block"),
    "placement-contradiction": ({"placementGroup": "mine"}, {}, "only placement existing takes a name"),
    "placement-missing": ({"placement": "existing", "placementGroup": "gone"}, controlled(), "us-east-1 has none of that name"),
    "zones-repeated": ({"secondZone": ZONE}, {}, "the second zone is us-east-1a, like the first"),
    "group-without-reservation": (
        TARGETED | {"placement": "existing", "placementGroup": "mine"},
        controlled(CapacityReservation=HERE, PlacementGroup={"Strategy": "cluster"}),
        "cr-1 was created in none",
    ),
    "group-beside-reservation": (
        TARGETED | {"placement": "managed"},
        controlled(CapacityReservation=HERE),
        "a placement group of its own beside cr-1",
    ),
    "reservation-in-group": (TARGETED, controlled(CapacityReservation=IN_MINE), "was created in placement group mine"),
    "reservation-type": (
        TARGETED,
        controlled(CapacityReservation=HERE | {"InstanceType": "p5en.48xlarge"}),
        "cr-1 reserves p5en.48xlarge",
    ),
    "reservation-zone": (TARGETED, controlled(CapacityReservation=HERE | {"AvailabilityZone": OTHER}), f"cr-1 lies in {OTHER}"),
    "block-without-reservation": ({"capacity": "capacity-block"}, {}, "blocks are never bought unasked"),
    "block-reservation": (TARGETED, controlled(CapacityReservation=HERE | {"State": "expired"}), "which is expired"),
    "purchase-unconfirmed": (
        {"capacity": "capacity-block", "capacityBlockOffering": "cb-1"},
        {},
        "would buy Capacity Block cb-1, and confirmPurchase is ''",
    ),
    "reservation-size": (
        TARGETED,
        controlled(CapacityReservation=HERE | {"TotalInstanceCount": 1}),
        "may have 2 machines in cr-1, which holds 1",
    ),
    "reservation-pool": (
        {"capacity": "odcr-group", "reservation": GROUP, "placement": "none"},
        controlled(CapacityReservation=HERE, Group={"Configuration": []}),
        "no group of type AWS::EC2::CapacityReservationPool",
    ),
    "block-counts": (
        {"capacity": "capacity-block", "reservation": "cr-1", "dynamicNodes": 1},
        {},
        "has 2 static and 1 dynamic machines of a Capacity Block",
    ),
    "usage-class": ({"shape": "hpc7a.96xlarge", "capacity": "spot"}, {}, "buys hpc7a.96xlarge as spot"),
    "allocation": ({"allocation": "capacity-optimized"}, {}, "for on-demand machines, which take lowest-price"),
    "type-unknown": ({"shape": "p5.48xlrage"}, {}, "not in the catalogue; the nearest are p5.48xlarge"),
    "type-offered": ({}, {"getInstanceTypeOfferings": {"locations": [OTHER]}}, f"does not offer it; it is in {OTHER}"),
    "catalogue-current": (
        {},
        {
            "getInstanceType": {
                "supportedUsagesClasses": ["on-demand"],
                "supportedPlacementStrategies": ["cluster"],
                "efaSupported": True,
                "efaMaximumInterfaces": 16,
                "networkCards": [{"index": 0, "maximumInterfaces": 2}],
            }
        },
        "the account says that p5.48xlarge has 16 EFA devices on 1 cards",
    ),
    "quota": ({}, {"getServiceQuota": {"value": 192.0}}, "takes 2 x 192 = 384 vCPUs, and the account's on-demand quota is 192"),
    "addresses": ({"privateCidr": "10.1.0.0/26", "legacyEfa": True}, {}, "the machines take 64 addresses"),
    "container-versions": ({"container": "docker://r.io#tests:ofi1.18.0"}, {}, "by its tag plugin 1.18.0 hangs in broadcasts"),
    "container-file": (
        {"container": "/opt/images/tests.sqsh"},
        {},
        "lies on no file system that the nodes share (/fsx, /home)",
    ),
    "architectures-differ": ({"headType": "m7g.8xlarge"}, {}, "they must have one architecture"),
    "image-architecture": (
        {},
        {
            "getAmi": {
                "architecture": "arm64",
                "name": "(Ubuntu 22.04)",
                "description": "",
                "rootDeviceName": "",
                "blockDeviceMappings": [],
            }
        },
        "is for arm64",
    ),
    "image-system": ({"imageFamily": "al2023"}, {}, "has image kind al2023, and"),
    "root-ratios": ({"rootMibps": 1000}, {}, "has 1000 MiB/s with 3000 IOPS"),
    "root-size": ({"headRootGib": 50}, {}, "the head node has a root volume of 50 GiB"),
    "open-modules": ({"shape": "p3dn.24xlarge"}, {}, "whose GPUs NVIDIA's open kernel modules do not drive"),
    "not-nvidia": ({"shape": "trn1.32xlarge", "answers": "trn1.32xlarge"}, {}, "which has Neuron devices"),
    "names": ({"clusterName": "My Cluster"}, {}, "the cluster's name is 'My Cluster'"),
    "key-type": ({"sshPublicKey": RSA}, {}, "make one of type ed25519"),
    "tag-count": ({"tags": [f"t{n}=x" for n in range(41)]}, {}, "has 41 tags; a resource takes 40"),
    "lustre-capacity": ({"lustreGib": 3600}, {}, "has 3600 GiB; it must be 1200 or a multiple of 2400"),
    "lustre-throughput": ({"lustreThroughput": 200}, {}, "PERSISTENT_2 has 125, 250, 500, 1000"),
    "lustre-efa": ({"lustreEfa": True}, {}, "with EFA it must be a multiple of 19200 GiB"),
    "repositories": ({"mirrors": ["/a", "/a/b"]}, {}, "the folders /a and /a/b both mirror S3 and overlap"),
    "backups-of-mirror": ({"lustreBackupDays": 7}, {}, "one that mirrors S3 has none"),
    "storage-zones": ({"homeDeployment": "MULTI_AZ_1"}, {}, "is MULTI_AZ_1, which stands in two zones"),
    "mount-points": ({"lustreMount": "/opt/slurm"}, {}, "mounted at /opt/slurm"),
    "mount-scratch": ({"lustreMount": "/scratch/fast"}, {}, "where the machines' own disks are"),
    "destroy-undecided": ({"homeOnDestroy": "keep"}, {}, "it must be one of refuse, retain, delete"),
    "destroy-takes-data": ({"lustreOnDestroy": "delete"}, {}, "Lustre file system at /fsx has onDestroy delete"),
    "openzfs-type": ({"homeDeployment": "SINGLE_AZ_HA_1"}, {}, "which us-east-1 does not offer"),
    "openzfs-size": ({"homeMbps": 512}, {}, "has 512 MB/s; SINGLE_AZ_HA_2 has 160"),
}
#: Rules that settings give nobody a way to break; tests/test_aws_rules.py breaks them.
OUT_OF_REACH = {
    "efa-zones": "all nodes stand in the one zone that is set",
    "placement-zones": "the same",
    "storage-far": "file systems stand in that zone too",
    "public-address": "no key asks for public addresses",
    "efa-system": "every image kind that the front door takes has EFA on every architecture of the catalogue",
    "key-missing": "the front door asks for a key, for measuring goes over SSH",
    "tag-overrides": "tags are set for everything at once",
}


#: A machine of the right GPUs, launched without EFA.
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
    """Types of what the program registers, also where it fails."""
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


def broken(name: str) -> tuple[dict[str, Any], str]:
    changes, answers, part = CASES[name]
    changes = dict(changes)
    said = {"getInstanceType": machine(changes.pop("answers"))} if "answers" in changes else {}
    return changes | {"answers": said | answers}, part


def test_every_rule_is_broken_through_settings_or_out_of_their_reach():
    assert set(CASES) | set(OUT_OF_REACH) == set(RULES)
    assert not set(CASES) & set(OUT_OF_REACH)


@pytest.mark.parametrize("name", [name for name in CASES if RULES[name].severity == ERROR])
def test_a_broken_rule_stops_the_preview_before_anything_is_registered(monkeypatch, made, name):
    changes, part = broken(name)
    with pytest.raises(pulumi.RunError) as refused:
        run(monkeypatch, **changes)
    said = [line for line in str(refused.value).splitlines() if line.startswith(f"{name}: ")]
    assert any(part in line for line in said), str(refused.value)
    assert set(made) <= {"pulumi:pulumi:Stack"}


@pytest.mark.parametrize("name", [name for name in CASES if RULES[name].severity == WARNING])
def test_a_warning_is_said_in_the_preview_and_stops_nothing(monkeypatch, made, name):
    changes, part = broken(name)
    warned: list[str] = []
    monkeypatch.setattr("aws_preview.Seen.warn", lambda _, text: warned.append(text))
    ready = READY | {"groups": [{"facts": PLAIN, "nodes": ["a", "b"]}]}
    with contextlib.suppress(pulumi.RunError):  # first contact finds no GPU on machines that have none
        run(monkeypatch, {"acceptance-ready-contact": json.dumps(ready)}, **changes)
    assert [text for text in warned if text.startswith(f"{name}: ") and part in text], warned
    assert made.count("aws:ec2/launchTemplate:LaunchTemplate") == 1


def test_all_broken_rules_are_said_at_once(monkeypatch):
    with pytest.raises(pulumi.RunError) as refused:
        run(monkeypatch, lustreGib=3600, homeMbps=512, allocation="capacity-optimized")
    assert sorted(line.partition(":")[0] for line in str(refused.value).splitlines()) == [
        "allocation",
        "lustre-capacity",
        "openzfs-size",
    ]


def test_a_suppressed_rule_neither_stops_nor_warns(monkeypatch):
    seen = run(monkeypatch, lustreGib=3600, efa=True, placement="none", suppress=["lustre-capacity", "placement-off"])
    assert seen.cloud.one("LustreFileSystem")["storageCapacity"] == 3600
    assert seen.warned == []
    with pytest.raises(
        pulumi.RunError, match="suppress names 'lustre-capacty', which is no rule; did you mean lustre-capacity"
    ):
        run(monkeypatch, suppress=["lustre-capacty"])


# The whole program


def asked() -> Asked:
    wanted = parsed()
    return wanted.asked(INSTANCES[wanted.shape].shape(), wanted.nodes)


def measured(**said: dict[str, int]) -> str:
    """Return the line of a healthy run on EFA in which NCCL `said` what the plugin writes."""
    line = document(asked())
    line["transport"]["said"] = {
        "networks": {"AWS Libfabric": 16},
        "devices": {"Selected provider is efa, fabric is efa-direct (found 32 nics)": 16},
        "channels": {"NET/AWS Libfabric/3": 16},
    } | said
    return json.dumps(line)


def test_the_preview_of_the_stack_says_what_a_good_run_looks_like(monkeypatch):
    seen = run(monkeypatch)
    assert seen.warned == []
    assert seen.outputs["expected"]["busbw_gb_s"] == pytest.approx(380)
    assert (seen.outputs["target"], seen.outputs["expected"]["shape"]) == ("aws", "p5.48xlarge")
    assert any(text.startswith("2 x p5.48xlarge: a healthy fabric gives") and "allows 400" in text for text in seen.told)


def test_a_healthy_run_is_a_pass_whose_proof_names_provider_and_devices(monkeypatch):
    seen = run(monkeypatch, {"acceptance-measure": measured()}, preview=False)
    assert (seen.outputs["measured"]["verdict"], seen.outputs["measured"]["reasons"]) == ("pass", [])
    assert seen.outputs["measured"]["wire_efficiency"] == pytest.approx(0.98)
    proof = " ".join(seen.outputs["measured"]["transport"]["proof"])
    assert "rdmap79s0" in proof
    assert "NCCL took provider efa (fabric efa-direct) with 32 devices" in proof
    assert [node["name"] for node in seen.outputs["nodes"]] == ["ip-10-1-0-19", "ip-10-1-0-20"]
    assert seen.outputs["ssh"] == "ssh -J ubuntu@203.0.113.5 ubuntu@10.1.0.19"


def test_commands_reach_the_nodes_through_the_head_and_tell_nccl_of_no_hca(monkeypatch):
    seen = run(monkeypatch)
    contact = seen.cloud.named("acceptance-ready-contact")
    assert contact["connection"]["value"]["host"] == "203.0.113.5"
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
            "took provider tcp instead of efa",
        ),
        (
            {
                "devices": {
                    "Selected provider is efa, fabric is efa-direct (found 32 nics)": 8,
                    "Selected provider is efa, fabric is efa-direct (found 31 nics)": 8,
                }
            },
            "found 31 efa devices on some node, and the shape has 32",
        ),
        ({"devices": {}}, "NCCL did not log which provider carried its bytes"),
    ],
)
def test_another_way_than_efa_is_no_pass_however_fast_it_was(said, reason):
    judged = judge(measured(**said), asked())
    assert judged.verdict in {"short", "unknown"}
    assert any(reason in text for text in judged.reasons), judged.reasons


def test_older_plugins_write_the_same_with_other_letters():
    older = {"networks": {"Libfabric": 16}, "devices": {"Selected Provider is efa (found 32 nics)": 16}}
    assert judge(measured(**older), asked()).verdict == "pass"


def test_a_short_fabric_is_searched_gpu_by_gpu_with_the_devices_near_each(monkeypatch):
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


def test_a_type_whose_rails_no_source_names_is_asked_by_first_contact(monkeypatch):
    facts = {
        "gpu": "NVIDIA B200",
        "gpus": 8,
        "hca": [
            [name, 100, None, True] for name in sorted(f"rdmap{n}s0" for n in range(96, 104))
        ],  # whatever their rate is, older drivers say 100
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
        shape="p6-b200.48xlarge",
        answers={"getInstanceType": machine("p6-b200.48xlarge")},
    )
    assert seen.outputs["expected"]["busbw_gb_s"] == pytest.approx(380)
    request = json.loads(seen.cloud.named("acceptance-measure")["stdin"])
    assert request["hcas"] == [f"rdmap{n}s0" for n in range(96, 104)]
    assert request["steps"][-1]["ranks"]["environment"]["NCCL_SOCKET_IFNAME"] == "=ens1"


def test_a_machine_that_shows_fewer_rails_than_its_type_has_is_refused():
    seven = tuple(Hca(f"rdmap{n}s0", 400, None, active=True) for n in range(7))
    facts = Facts("NVIDIA B200", 8, seven, "ens1", "10.1.0.0/17")
    with pytest.raises(ValueError, match=r"p6-b200\.48xlarge, which has 8 rails, and the machines show 7 that are active"):
        recognise(facts, 2, INSTANCES["p6-b200.48xlarge"].shape())


# The page


def test_the_page_names_no_rule_that_does_not_exist():
    page = (ROOT / "docs" / "aws.md").read_text()
    assert set(re.findall(r"suppress: \[([a-z-]+)\]", page)) <= set(RULES)
