"""A stack file of target aws: every rule is broken by a case, and each refusal is a sentence with its path."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import pulumi
import pytest
from aws_facts import (
    BLOCK,
    EXISTING,
    FACTS,
    GIVEN,
    GROUP,
    GROUPS,
    IMAGE,
    LOGIN,
    NODES,
    ODCR,
    OTHER,
    PRIVATE,
    PUBLIC,
    STORED,
    VPC,
    ZONE,
    machine,
    own_group,
    parsed,
    rules_of,
)
from conftest import texts
from early_refusal import begins_with_a_path
from parsed_stack import refused

from catalogue.aws import MACHINE_IMAGES, STACK, Stack
from catalogue.aws.instances import INSTANCES
from catalogue.aws.regions import OPENZFS_MB_S, OPENZFS_MISSING, default_openzfs
from config import read
from config.aws import model
from config.aws.facts import ElasticIps, Facts, GroupRule, Reservation, Vpc
from config.aws.model import Aws, Home, Lustre, Mirror
from config.aws.rules import HELD_ELSEWHERE, RULES
from config.rule import ERROR, NOTE, WARNING, check, suppressed
from tools.stack_changes import merged

RSA = "ssh-rsa " + base64.b64encode((7).to_bytes(4, "big") + b"ssh-rsa").decode()
P5 = "aws.queues[0].machines[0]"
P_QUOTA = "Running On-Demand P instances"


def nodes(**changes: Any) -> dict[str, Any]:
    """Return changes to the first entry of `machines` in the first queue."""
    return {"queues": [{"machines": [changes]}]}


def on_demand(**changes: Any) -> dict[str, Any]:
    """Return the changes that make a cluster whose machines Slurm starts."""
    families = {"imageFamily": "ubuntu2404", "login": {"imageFamily": "ubuntu2404"}}
    return {"slurm": {}, **families} | nodes(**{"static": 0, "dynamic": 4, **changes})


def bought(option: str, **more: Any) -> dict[str, Any]:
    """Return the keys of `aws` that say how the machines are bought."""
    placement = {"placement": more.pop("placement")} if "placement" in more else {"placement": "none"}
    return nodes(purchase={"option": option, **more}, **placement)


CONFIRMED = {"option": "capacity-block", "offering": "cb-1", "confirm": "cb-1"}
TARGETED = bought("targeted-odcr", reservation="cr-1")
POOLED = bought("odcr-group", reservation=GROUP)
IN_MINE = replace(ODCR, placement_group="mine")


def reserved(held: Reservation | None) -> Facts:
    return replace(FACTS, reservations={"cr-1": held})


def lustre(**changes: Any) -> dict[str, Any]:
    return {"storage": {"lustre": changes}}


def home(**changes: Any) -> dict[str, Any]:
    return {"storage": {"home": changes}}


def mirrors(*paths: str) -> dict[str, Any]:
    return lustre(mirrors=[{"path": path} for path in paths])


#: A fingerprint as gpg prints it.
PRINT = "0123 4567 89ab cdef 0123  4567 89ab cdef 0123 4567"
TAGS = {f"t{n}": "x" for n in range(41)}
OWN = "aws.network.existing"
SLURMS = "6820-6829 (slurmctld), 60001-63000 (srun)"
BESIDE = "login nodes and controller reach each other on these ports: open them, or set"

#: Rules of the login nodes' group that let nodes reach the controller, but not on one of srun's ports, 61000.
HOLED = [
    *(rule for rule in GROUPS[LOGIN].rules if rule.peer != NODES or rule.out),
    *(GroupRule(False, "tcp", ports, NODES) for ports in ((0, 60999), (61001, 65535))),
]


def subnet(name: str, **changes: Any) -> Facts:
    return replace(FACTS, subnets=FACTS.subnets | {name: replace(FACTS.subnets[name], **changes)})


def without(group: str, *peers: str, out: bool | None = None) -> Facts:
    """Return facts in which `group` has no rule for these peers.

    If `out` is True, only the outgoing rules are missing; if `out` is False, only the incoming rules are missing.
    """
    kept = [rule for rule in GROUPS[group].rules if rule.peer not in peers or out not in {None, rule.out}]
    return replace(FACTS, security_groups=GROUPS | {group: own_group(*kept)})


def also(group: str, *rules: GroupRule, **less: Any) -> Facts:
    found = without(group, *less.pop("less", ()), **less)
    return replace(found, security_groups=GROUPS | {group: own_group(*found.security_groups[group].rules, *rules)})


#: Rule -> its cases: changes to the stack, the account's facts, and the beginning of the sentence.
CASES: dict[str, list[tuple[dict[str, Any], Facts, str]]] = {
    "ssh-sources": [
        ({"access": {"sshFrom": []}}, FACTS, "aws.access.sshFrom is empty; name at least one network that may reach the login"),
        ({"access": {"sshFrom": ["0.0.0.0/0"]}}, FACTS, "aws.access.sshFrom contains 0.0.0.0/0, the whole Internet"),
    ],
    "existing-instead": [
        (
            merged(EXISTING, {"network": {"private": "10.9.0.0/16"}}),
            FACTS,
            f"aws.network.private is 10.9.0.0/16, and {OWN} names subnets; set only one of them",
        ),
        (
            merged(EXISTING, {"secondZone": OTHER} | home(deployment="MULTI_AZ_1")),
            FACTS,
            "aws.storage.home.deployment is MULTI_AZ_1, which writes routes into the subnets' route tables",
        ),
        (
            merged(EXISTING, {"network": {"existing": {"groups": {"storage": None}}}}),
            FACTS,
            f"{OWN}.groups.storage is not set, but machines mount file systems",
        ),
    ],
    "existing-system": [
        (
            merged(EXISTING, lustre(existing="fs-1", size="2400 GiB")),
            FACTS,
            "aws.storage.lustre.size is set, but aws.storage.lustre.existing is fs-1, which has its own value; set only one",
        ),
        (
            merged(EXISTING, home(existing="fs-1", onDestroy="delete")),
            FACTS,
            "aws.storage.home.onDestroy is set, but aws.storage.home.existing is fs-1",
        ),
        (home(existing="fs-1"), FACTS, "aws.storage.home.existing is fs-1, which only machines in existing groups can reach"),
    ],
    "elastic-ips": [
        (
            {"login": {"elasticIp": True}},
            replace(FACTS, elastic_ips={"ap-northeast-1": ElasticIps(5, 4, 0)}),
            "aws.login.elasticIp is true, so the cluster needs 2 of the account's Elastic IP addresses, one of them for",
        ),
    ],
    "profile-instead": [
        (
            {"name": "train", "nodeRights": ["s3-read"], "profiles": {"existing": {"nodes": "gpu-nodes"}}},
            FACTS,
            "aws.nodeRights is s3-read, and aws.profiles.existing.nodes is gpu-nodes, which is never changed; set only one",
        ),
        ({"profiles": {"existing": {"login": "gpu-login"}}}, FACTS, "aws.name is not set, and aws.profiles.existing names a"),
    ],
    "profile-there": [
        (
            {"name": "train", "profiles": {"existing": {"nodes": "gone"}}},
            FACTS,
            "aws.profiles.existing.nodes is gone, and the account has no such profile",
        ),
        (
            {"name": "train", "profiles": {"existing": {"login": "empty"}}},
            FACTS,
            "aws.profiles.existing.login is empty, which has no role",
        ),
    ],
    "existing-there": [
        (
            EXISTING,
            replace(FACTS, subnets=FACTS.subnets | {PUBLIC: None}),
            f"{OWN}.publicSubnet is subnet-1, which is not in ap-northeast-1",
        ),
        (
            EXISTING,
            subnet(PUBLIC, vpc="vpc-9"),
            f"{OWN}.publicSubnet is subnet-1, which is in vpc-9, and {OWN}.privateSubnet, subnet-2, is in vpc-1; all must",
        ),
        (
            EXISTING,
            replace(FACTS, security_groups=GROUPS | {NODES: None}),
            f"{OWN}.groups.nodes is sg-1, which is not in ap-northeast-1",
        ),
    ],
    "existing-zone": [
        (EXISTING, subnet(PRIVATE, zone=OTHER), f"{OWN}.privateSubnet is subnet-2, which is in {OTHER}, and aws.zone is {ZONE}")
    ],
    "existing-dns": [
        (
            EXISTING,
            replace(FACTS, vpcs={VPC: Vpc(dns=True, host_names=False)}),
            f"{OWN}.privateSubnet is subnet-2, whose VPC, vpc-1, has no DNS host names; names of file systems",
        ),
        (
            EXISTING,
            replace(FACTS, vpcs={VPC: Vpc(dns=False, host_names=False)}),
            f"{OWN}.privateSubnet is subnet-2, whose VPC, vpc-1, has no DNS support and no DNS host names",
        ),
    ],
    "existing-routes": [
        (
            EXISTING,
            subnet(PUBLIC, way_out="nat-1"),
            f"{OWN}.publicSubnet is subnet-1, which sends 0.0.0.0/0 to nat-1; the login",
        ),
        (
            EXISTING,
            subnet(PRIVATE, way_out=""),
            f"{OWN}.privateSubnet is subnet-2, which sends 0.0.0.0/0 to nothing; nodes have",
        ),
        (EXISTING, subnet(PRIVATE, way_out="igw-1"), f"{OWN}.privateSubnet is subnet-2, which sends 0.0.0.0/0 to igw-1; nodes"),
    ],
    "existing-efa": [
        (
            EXISTING,
            also(NODES, *rules_of("0.0.0.0/0"), less=[NODES], out=True),
            f"{OWN}.groups.nodes is sg-1, which does not allow all traffic out to itself by rules that name its id",
        ),
        (
            EXISTING,
            also(NODES, *rules_of("172.16.0.0/16"), less=[NODES]),
            f"{OWN}.groups.nodes is sg-1, which does not allow all traffic in from itself and out to itself by rules that",
        ),
    ],
    "existing-reach": [
        (EXISTING, without(LOGIN, "198.51.100.0/24"), "aws.access.sshFrom[0] is 198.51.100.0/24, and sg-2 blocks SSH from"),
        (EXISTING, without(LOGIN, "0.0.0.0/0"), f"{OWN}.groups.login is sg-2, which blocks outgoing SSH to sg-1"),
        (EXISTING, without(NODES, LOGIN), f"{OWN}.groups.nodes is sg-1, which blocks SSH from sg-2"),
        (
            merged(EXISTING, nodes(efa=False)),
            without(NODES, NODES),
            f"{OWN}.groups.nodes is sg-1, which does not allow all traffic between nodes",
        ),
        (
            EXISTING,
            without(NODES, "0.0.0.0/0"),
            f"{OWN}.groups.nodes is sg-1, which blocks outgoing HTTP and HTTPS to 0.0.0.0/0",
        ),
    ],
    "existing-slurm": [
        (
            merged(EXISTING, on_demand()),
            without(LOGIN, NODES),
            f"{OWN}.groups.login is sg-2, which blocks TCP {SLURMS} from sg-1; controller and nodes reach each other on",
        ),
        (
            merged(EXISTING, on_demand()),
            replace(FACTS, security_groups=GROUPS | {LOGIN: own_group(*HOLED)}),
            f"{OWN}.groups.login is sg-2, which blocks TCP 60001-63000 (srun) from sg-1; controller and nodes reach each other",
        ),
        (
            merged(EXISTING, on_demand()),
            without(NODES, LOGIN),
            f"{OWN}.groups.nodes is sg-1, which blocks TCP 6818 (slurmd) from",
        ),
        (
            merged(EXISTING, on_demand() | {"slurm": {"loginNodes": 2}}),
            FACTS,
            f"{OWN}.groups.login is sg-2, which blocks TCP 22 (SSH), {SLURMS} from sg-2; {BESIDE} aws.slurm.loginNodes to 0",
        ),
        (
            merged(EXISTING, on_demand() | {"slurm": {"loginNodes": 2}}),
            also(LOGIN, GroupRule(False, "tcp", (0, 65535), LOGIN), less=("0.0.0.0/0",), out=True),
            f"{OWN}.groups.login is sg-2, which blocks TCP 22 (SSH), {SLURMS} to sg-2; {BESIDE} aws.slurm.loginNodes to 0",
        ),
    ],
    "existing-open": [
        (
            EXISTING,
            also(LOGIN, GroupRule(False, "tcp", (0, 1024), "0.0.0.0/0")),
            f"{OWN}.groups.login is sg-2, which allows SSH from 0.0.0.0/0, the whole Internet",
        ),
        (
            EXISTING,
            also(LOGIN, *(GroupRule(False, "tcp", (22, 22), half) for half in ("::/1", "8000::/1"))),
            f"{OWN}.groups.login is sg-2, which allows SSH from ::/0, the whole Internet",
        ),
    ],
    "existing-storage": [
        (
            merged(EXISTING, {"storage": {"home": None}}),
            without(STORED, LOGIN),
            f"{OWN}.groups.storage is sg-3, which blocks tcp 988 from sg-2, tcp 988 to sg-2, tcp 1018 from sg-2",
        ),
        (
            merged(EXISTING, {"storage": {"lustre": None}}),
            also(STORED, GroupRule(False, "tcp", (0, 65535), NODES), less=[NODES]),
            f"{OWN}.groups.storage is sg-3, which blocks udp 111 from sg-1, udp 2049 from sg-1, udp 20001 from",
        ),
        (
            merged(EXISTING, lustre(efa=True, efaSetupSha256="e" * 64, size="19200 GiB") | {}),
            also(NODES, *rules_of(STORED, "tcp", (0, 65535)), less=[STORED]),
            f"{OWN}.groups.nodes is sg-1, which blocks everything from sg-3, everything to sg-3",
        ),
    ],
    "networks": [
        ({"network": {"public": "10.0.0.0/28"}}, FACTS, "aws.network.public is 10.0.0.0/28; it must be /16 to /27"),
        (
            {"network": {"private": "10.0.128.0/17"}},
            FACTS,
            "aws.network.private is 10.0.128.0/17, which overlaps aws.network.public",
        ),
        ({"network": {"private": "172.16.0.0/15"}}, FACTS, "aws.network.private is 172.16.0.0/15; it must be /16 to /27"),
    ],
    "second-zone": [
        ({"secondZone": ZONE}, FACTS, f"aws.secondZone is {ZONE}, like aws.zone; it must be another zone of ap-northeast-1"),
        ({"secondZone": "eu-west-1a"}, FACTS, "aws.secondZone is eu-west-1a, which is not a zone of ap-northeast-1"),
    ],
    "zone-missing": [
        ({"zone": None, "secondZone": OTHER}, FACTS, f"aws.zone is not set, and aws.secondZone is {OTHER}; set both"),
        (
            {"zone": None} | bought("open-odcr"),
            FACTS,
            f"aws.zone is not set, and {P5}.purchase.option is open-odcr; set the zone in which that capacity is",
        ),
    ],
    "provider-region": [
        ({}, replace(FACTS, region="us-east-1"), f"aws.zone is {ZONE}, and aws:region of this stack is us-east-1")
    ],
    "efa-unsupported": [(nodes(type="m5.xlarge"), FACTS, f"{P5}.efa is true, but m5.xlarge has no EFA; types with EFA are p3")],
    "efa-cards": [
        (
            nodes(efa=False),
            FACTS,
            f"{P5}.efa is false, but p5.48xlarge has 32 network cards, and NCCL over TCP sends only through the first card",
        ),
        (nodes(type="hpc6id.32xlarge", efa=False), FACTS, f"{P5}.efa is false, but hpc6id.32xlarge has 2 network cards"),
    ],
    "efa-off": [(nodes(efa=False), FACTS, f"{P5}.efa is false, but p5.48xlarge has 32 EFA devices; NCCL will use TCP")],
    "placement-off": [(nodes(placement="none"), FACTS, f"{P5}.placement is none, although EFA is on; a cluster")],
    "placement-strategy": [
        (
            nodes(type="p6e-gb200.36xlarge"),
            FACTS,
            f"{P5}.placement is managed, and p6e-gb200.36xlarge supports no placement group",
        ),
        (
            nodes(placement="existing", placementGroup="s"),
            replace(FACTS, placement_groups={"s": "spread"}),
            f"{P5}.placementGroup is s, whose strategy is spread; it must be cluster",
        ),
    ],
    "placement-block": [
        (
            bought("capacity-block", reservation="cr-1", placement="managed"),
            reserved(BLOCK),
            f"{P5}.placement is managed with a Cap",
        )
    ],
    "placement-contradiction": [
        (nodes(placementGroup="mine"), FACTS, f"{P5}.placementGroup is mine, but placement is managed; set placement"),
        (nodes(placement="existing"), FACTS, f"{P5}.placementGroup is not set, but placement is existing"),
    ],
    "placement-missing": [
        (
            nodes(placement="existing", placementGroup="gone"),
            replace(FACTS, placement_groups={"gone": None}),
            f"{P5}.placementGroup is gone, and ap-northeast-1 has no group of that name",
        )
    ],
    "container-versions": [
        (
            {"container": {"image": "docker://r.io#tests:efa1.28.0-ofi1.7.4-nccl2.18.5-1-tests2.13.8"}},
            FACTS,
            "aws.container.image is docker://r.io#tests:efa1.28.0-ofi1.7.4-nccl2.18.5-1-tests2.13.8, and according to its",
        )
    ],
    "container-file": [
        (
            {"container": {"image": "/opt/images/tests.sqsh"}},
            FACTS,
            "aws.container.image is /opt/images/tests.sqsh, which is on no file system that the nodes share (/fsx, /home)",
        )
    ],
    "container-sum": [
        (
            {"container": {"image": "docker://r.io#a/b:1", "sha256": "1" * 64}},
            FACTS,
            "aws.container.sha256 is the checksum of a file on the nodes, but image is docker://r.io#a/b:1",
        )
    ],
    "group-without-reservation": [
        (
            bought("targeted-odcr", reservation="cr-1", placement="existing") | {},
            FACTS,
            f"{P5}.placementGroup is mine, and cr-1 was created in no group",
        )
    ],
    "group-beside-reservation": [
        (
            bought("targeted-odcr", reservation="cr-1", placement="managed"),
            FACTS,
            f"{P5}.placement is managed, and cr-1 was created in no placement group",
        ),
        (bought("open-odcr", placement="managed"), FACTS, f"{P5}.placement is managed, and purchase.option is open-odcr"),
        (
            merged(bought("open-odcr", placement="existing"), nodes(placementGroup="mine")),
            FACTS,
            f"{P5}.placement is existing, and purchase.option is open-odcr",
        ),
    ],
    "reservation-in-group": [
        (TARGETED, reserved(IN_MINE), f"{P5}.placement is none, and cr-1 was created in placement group mine; set placement")
    ],
    "reservation-unknown": [(TARGETED, reserved(None), f"{P5}.purchase.reservation is cr-1, which is not in ap-northeast-1")],
    "reservation-type": [
        (
            TARGETED,
            reserved(replace(ODCR, instance_type="p5en.48xlarge")),
            f"{P5}.type is p5.48xlarge, and cr-1 reserves p5en.48",
        )
    ],
    "reservation-zone": [
        (TARGETED, reserved(replace(ODCR, zone=OTHER)), f"{P5}.purchase.reservation is cr-1, which is in {OTHER}, and aws.zone")
    ],
    "reservation-missing": [
        (
            bought("open-odcr", reservation="cr-1"),
            FACTS,
            f"{P5}.purchase.reservation is cr-1, which option open-odcr does not use; set option to",
        ),
        (
            bought("capacity-block"),
            FACTS,
            f"{P5}.purchase.reservation is not set with option capacity-block; name a reservation",
        ),
        (bought("targeted-odcr"), FACTS, f"{P5}.purchase.reservation is not set with option targeted-odcr; give an id"),
        (bought("odcr-group"), FACTS, f"{P5}.purchase.reservation is not set with option odcr-group; give the ARN of a res"),
        (
            bought("on-demand", reservation="cr-1"),
            FACTS,
            f"{P5}.purchase.reservation is cr-1, which option on-demand does not use",
        ),
        (
            bought("spot", offering="cb-1", confirm="cb-1"),
            FACTS,
            f"{P5}.purchase.offering is cb-1, which option spot does not use",
        ),
    ],
    "reservation-kind": [
        (
            bought("capacity-block", reservation="cr-1"),
            FACTS,
            f"{P5}.purchase.option is capacity-block, but cr-1 is an on-demand",
        ),
        (TARGETED, reserved(BLOCK), f"{P5}.purchase.option is targeted-odcr, but cr-1 is a Capacity Block"),
        (TARGETED, reserved(replace(ODCR, state="scheduled")), f"{P5}.purchase.reservation is cr-1, which is scheduled"),
    ],
    "purchase-unconfirmed": [
        (
            bought("capacity-block", offering="cb-1"),
            FACTS,
            f"{P5}.purchase.confirm is None, but Capacity Block cb-1 would be bought",
        ),
        (
            bought("capacity-block", offering="cb-1", confirm="cb-1", reservation="cr-1"),
            reserved(BLOCK),
            f"{P5}.purchase.offering is cb-1, which would be bought, and reservation is cr-1; name only one",
        ),
        (
            {
                "queues": [
                    {
                        "machines": [
                            {"purchase": CONFIRMED, "placement": "none"},
                            {"name": "more", "type": "p5.48xlarge", "purchase": CONFIRMED, "placement": "none"},
                        ]
                    }
                ]
            },
            FACTS,
            "aws.queues[0].machines[1].purchase.offering is cb-1, which aws.queues[0].machines[0] buys, too; an offering can",
        ),
    ],
    "reservation-size": [
        (
            merged(TARGETED, nodes(static=6, dynamic=3)),
            FACTS,
            f"{P5}.purchase.reservation is cr-1, which contains 8 machines, but gpu-p5 may have 9",
        ),
        (
            merged(POOLED, nodes(static=9)),
            replace(FACTS, groups={GROUP: (ODCR, replace(ODCR, id="cr-2", zone=OTHER))}),
            f"{P5}.purchase.reservation is {GROUP}, which contains 8 machines, but gpu-p5 may have 9",
        ),
    ],
    "reservation-pool": [
        (
            POOLED,
            replace(FACTS, groups={GROUP: None}),
            f"{P5}.purchase.reservation is {GROUP}, which is no group of type AWS::EC2",
        ),
        (
            POOLED,
            replace(FACTS, groups={GROUP: (replace(ODCR, zone=OTHER),)}),
            f"{P5}.purchase.reservation is {GROUP}, which contains no reservation of p5.48xlarge in {ZONE}",
        ),
    ],
    "price-unused": [
        (bought("on-demand", maxPrice="20 USD"), FACTS, f"{P5}.purchase.maxPrice is 20 USD with option on-demand; only spot"),
    ],
    "tag-length": [({"tags": {"k" * 129: "v"}}, FACTS, "aws.tags has the key 'kkkkkkkkkkkkkkkkkkkk'... of 129 characters")],
    "mirror-bucket": [
        (
            {"storage": {"lustre": {"mirrors": [{"path": "/data", "bucket": "My_Bucket"}]}}},
            FACTS,
            "aws.storage.lustre.mirrors[0].bucket is 'My_Bucket'; a bucket's name has 3 to 63",
        )
    ],
    "block-scheduled": [
        (
            bought("capacity-block", reservation="cr-1"),
            reserved(replace(BLOCK, state="scheduled", start="2026-12-01T11:30:00Z")),
            f"{P5}.purchase.reservation is cr-1, which begins at 2026-12-01T11:30:00Z; the update waits for",
        ),
        (
            merged(bought("capacity-block", reservation="cr-1"), on_demand(alwaysOn=4)),
            reserved(replace(BLOCK, state="scheduled", start="2026-12-01T11:30:00Z")),
            f"{P5}.purchase.reservation is cr-1, which begins at 2026-12-01T11:30:00Z; until then its nodes are down",
        ),
    ],
    "dynamic-unstarted": [
        (nodes(dynamic=4), FACTS, f"{P5}.dynamic is 4, and aws.slurm is not set: only a scheduler of your own can"),
    ],
    "slurm-idle": [({"slurm": {}}, FACTS, "aws.slurm is set, but no entry has dynamic nodes")],
    "slurm-static": [
        (on_demand(static=2), FACTS, f"{P5}.static is 2, and dynamic is 4; nodes of one entry are either all static or all"),
    ],
    "slurm-home": [
        (on_demand() | {"storage": {"home": None}}, FACTS, "aws.storage.home is not set, but aws.slurm is; jobs write to home"),
        (
            {"storage": {"home": {"shareLoginUser": True}}},
            FACTS,
            "aws.storage.home.shareLoginUser is true, but aws.slurm is not",
        ),
    ],
    "slurm-software": [
        (
            on_demand() | {"login": {"imageFamily": "al2023"}},
            FACTS,
            "aws.login.imageFamily is al2023, for which there is no package of Slurm 22.05 or later; take ubuntu2404",
        ),
        (on_demand() | {"imageFamily": "ubuntu2204"}, FACTS, "aws.imageFamily is ubuntu2204, for which there is no package"),
    ],
    "slurm-queue": [
        (
            merged(on_demand(), {"queues": [{"name": "all"}]}),
            FACTS,
            "aws.queues[0].name is 'all'; default and all have a meaning",
        ),
    ],
    "slurm-test": [
        (on_demand() | {"slurm": {"testNodes": 1}}, FACTS, "aws.slurm.testNodes is 1; one node has no fabric to measure"),
        (on_demand() | {"slurm": {"testNodes": 9}}, FACTS, "aws.slurm.testNodes is 9, but no entry has more than 4"),
    ],
    "slurm-always-on": [
        (
            on_demand(alwaysOn=5),
            FACTS,
            f"{P5}.alwaysOn is 5, but dynamic is 4; alwaysOn counts those dynamic nodes that are never",
        ),
        (nodes(alwaysOn=2), FACTS, f"{P5}.alwaysOn is 2, but aws.slurm is not set, so nothing would start these nodes"),
    ],
    "slurm-entry": [
        (
            on_demand(dynamic=1) | {"slurm": {"entryTest": True}},
            FACTS,
            f"aws.slurm.entryTest is true, but {P5}.dynamic is 1; a test takes two machines",
        ),
        (
            on_demand(efa=False) | {"slurm": {"entryTest": True}},
            FACTS,
            f"aws.slurm.entryTest is true, but the rails of {P5} are not known before its machines start",
        ),
    ],
    "slurm-container": [
        (
            on_demand() | {"container": {"image": "docker://a#b:c"}},
            FACTS,
            "aws.container is set, but aws.slurm.containers is not; the test job",
        ),
    ],
    "slurm-profile": [
        (
            on_demand() | {"profiles": {"existing": {"login": "gpu-login"}}},
            FACTS,
            "aws.profiles.existing.login is gpu-login, but aws.slurm needs the right to start machines",
        ),
    ],
    "block-dynamic": [
        (
            merged(bought("capacity-block", reservation="cr-1"), nodes(dynamic=1)),
            reserved(BLOCK),
            f"{P5}.dynamic is 1 with a Capacity Block, which is paid for whether it is used or not; set static: 1 instead",
        ),
        (
            merged(bought("capacity-block", reservation="cr-1"), on_demand(alwaysOn=2)),
            reserved(BLOCK),
            f"{P5}.dynamic is 4 with a Capacity Block, which is paid for whether it is used or not; set static: 4 instead",
        ),
    ],
    "usage-class": [
        (
            nodes(type="p6e-gb200.36xlarge"),
            FACTS,
            f"{P5}.purchase.option buys p6e-gb200.36xlarge as on-demand; it is sold as cap",
        ),
        (
            bought("spot"),
            replace(FACTS, machines={"p5.48xlarge": machine("p5.48xlarge", usage=frozenset({"on-demand"}))}),
            f"{P5}.purchase.option buys p5.48xlarge as spot, but this account can buy it only as on-demand",
        ),
    ],
    "type-unknown": [
        (
            nodes(type="p5.48xlrage"),
            FACTS,
            f"{P5}.type is p5.48xlrage, which is not in the catalogue; the nearest are p5.48xlarge",
        )
    ],
    "type-offered": [
        (
            {},
            replace(FACTS, zones={"m5.8xlarge": (ZONE,), "p5.48xlarge": (OTHER,)}),
            f"{P5}.type is p5.48xlarge, and {ZONE} does not offer this type; {OTHER} offer it",
        ),
        (
            {},
            replace(FACTS, zones={"m5.8xlarge": (), "p5.48xlarge": (ZONE,)}),
            f"aws.login.type is m5.8xlarge, and {ZONE} does not offer this type; no zone of ap-northeast-1 offers it",
        ),
    ],
    "catalogue-current": [
        (
            {},
            replace(FACTS, machines={"p5.48xlarge": machine("p5.48xlarge", efa=16)}),
            f"{P5}.type is p5.48xlarge, which has 16 EFA devices on 32 cards according to the account, and 32 on 32 according",
        ),
        (
            {},
            replace(FACTS, machines={"p5.48xlarge": machine("p5.48xlarge", cards=INSTANCES["p5.48xlarge"].cards[1:])}),
            f"{P5}.type is p5.48xlarge, which has 32 EFA devices on 31 cards according to the account, and 32 on 32 according",
        ),
        (
            {},
            replace(FACTS, machines={"p5.48xlarge": machine("p5.48xlarge", strategies=frozenset({"spread"}))}),
            f"{P5}.placement is managed, but according to the account p5.48xlarge takes no cluster placement group",
        ),
    ],
    "quota": [
        (
            {},
            replace(FACTS, quota_vcpus={P_QUOTA: 192.0}),
            f"{P5}.static is 2, which takes 2 x 192 = 384 vCPUs, and the account's on-demand quota is 192",
        ),
        (
            nodes(static=3),
            replace(FACTS, quota_vcpus={P_QUOTA: 576.0}, quota_used={P_QUOTA: 384}, running={"gpu-p5": 1}),
            f"{P5}.static is 3, of which 2 do not run yet and take 2 x 192 = 384 vCPUs, and the account's on-demand quota is",
        ),
        (
            {"queues": [{"machines": [{}, {"name": "second", "type": "p5en.48xlarge", "static": 2}]}]},
            replace(FACTS, quota_vcpus={P_QUOTA: 576.0}),
            "aws.queues[0].machines[1].static is 2, which takes 2 x 192 = 384 vCPUs besides the 384 for earlier entries, and",
        ),
    ],
    "quota-unknown": [
        (
            {},
            replace(FACTS, quota_vcpus={P_QUOTA: None}),
            f"{P5}.static is 2, and the service does not report how many p5.48xlarge the account may run; only the launch",
        )
    ],
    "addresses": [
        (
            nodes(static=20, legacyEfa=True) | {"network": {"private": "10.1.0.0/23"}},
            FACTS,
            "aws.network.private is 10.1.0.0/23, whose first half, a /24, has 219 addresses for machines that need 640",
        ),
        (
            EXISTING,
            subnet(PRIVATE, free=1),
            f"{OWN}.privateSubnet is subnet-2, which has 1 free addresses, and the machines to be launched need 2",
        ),
    ],
    "architectures-differ": [
        (
            {"login": {"type": "m7g.8xlarge"}},
            FACTS,
            f"{P5}.type is p5.48xlarge (x86_64), and aws.login.type is m7g.8xlarge (arm64)",
        )
    ],
    "image-missing": [
        (
            {"image": "ami-2"},
            replace(FACTS, images={"ami-1": IMAGE, "ami-2": None}),
            "aws.image is ami-2, which is not in ap-north",
        ),
        (
            {"login": {"image": "ami-2"}},
            replace(FACTS, images={"ami-1": IMAGE, "ami-2": None}),
            "aws.login.image is ami-2, which is not in ap-northeast-1, or this account may not see it",
        ),
    ],
    "image-architecture": [
        (
            {},
            replace(FACTS, images={"ami-1": replace(IMAGE, architecture="arm64")}),
            "aws.image is ami-1, which is for arm64; the machines are x86_64",
        )
    ],
    "image-system": [
        ({"imageFamily": "al2023"}, FACTS, "aws.imageFamily is al2023, and ami-1 is 'Deep Learning Base OSS"),
        ({"login": {"imageFamily": "al2023"}}, FACTS, "aws.login.imageFamily is al2023, and ami-1 is 'Deep Learning Base OSS"),
    ],
    "root-ratios": [
        (
            {"root": {"throughput": "1000 MiB/s"}},
            FACTS,
            "aws.root.throughput is 1000 MiB/s with 3000 IOPS; gp3 takes 125 to 2000",
        ),
        (
            {"login": {"root": {"size": "8 GiB", "iops": 16000}}},
            FACTS,
            "aws.login.root.iops is 16000 on 8 GiB; gp3 takes 3000 to",
        ),
    ],
    "root-size": [
        ({"root": {"size": "50 GiB"}}, FACTS, "aws.root.size is 50 GiB, and image ami-1 needs 75 GiB"),
        ({"login": {"root": {"size": "50 GiB"}}}, FACTS, "aws.login.root.size is 50 GiB, and image ami-1 needs 75 GiB"),
    ],
    "open-modules": [
        (
            nodes(type="p3dn.24xlarge"),
            FACTS,
            f"{P5}.type is p3dn.24xlarge, whose GPUs NVIDIA's open kernel modules do not support",
        )
    ],
    "not-nvidia": [
        (nodes(type="trn1.32xlarge"), FACTS, f"{P5}.type is trn1.32xlarge, which has Neuron devices; NCCL needs NVIDIA GPUs")
    ],
    "names": [
        ({"name": "Busbar"}, FACTS, "aws.name is 'Busbar'; it must be at most 40 lower-case letters, digits and hyphens"),
        ({"queues": [{"name": "GPU"}]}, FACTS, "aws.queues[0].name is 'GPU'; it must be at most 25 lower-case letters"),
        ({"queues": [{"name": "default"}]}, FACTS, "aws.queues[0].name is 'default'; it must be"),
        (nodes(name="gpu-st-x"), FACTS, f"{P5}.name is 'gpu-st-x'; -st- and -dy- mark static and dynamic machines"),
        (
            {"queues": [{"machines": [{}, {"name": "p5", "static": 0}]}]},
            FACTS,
            "aws.queues[0].machines[1].name gives a second entry the name gpu-p5",
        ),
    ],
    "static-one": [
        (nodes(static=1), FACTS, f"{P5}.static is 1; machines are measured in groups of 2 or more"),
        (nodes(static=3, leaveOut=[0, 2]), FACTS, f"{P5}.static is 3, of which leaveOut names 2; machines are measured in"),
    ],
    "left-out": [
        (
            nodes(static=3, leaveOut=[1, 4, 3]),
            FACTS,
            f"{P5}.leaveOut names 3, 4, but the machines have only the indexes 0 to 2; remove indexes outside this range",
        ),
        (nodes(static=2, leaveOut=[1, 0]), FACTS, f"{P5}.leaveOut names every machine, so nothing would be measured"),
    ],
    "key-type": [({"access": {"publicKey": RSA}}, FACTS, "aws.access.publicKey is ssh-rsa, which ubuntu2204 refuses; create")],
    "tag-count": [({"tags": TAGS}, FACTS, "aws.tags has 42 tags; a resource takes at most 40")],
    "lustre-size": [
        (lustre(size="3600 GiB"), FACTS, "aws.storage.lustre.size is 3600 GiB; it must be 1200 GiB or a multiple of 2400")
    ],
    "lustre-throughput": [
        (
            lustre(throughput="200 MB/s"),
            FACTS,
            "aws.storage.lustre.throughput is 200 MB/s per TiB; PERSISTENT_2 offers 125, 250",
        )
    ],
    "lustre-efa": [
        (
            lustre(efa=True, efaSetupSha256="e" * 64, size="4800 GiB", throughput="500 MB/s"),
            FACTS,
            "aws.storage.lustre.size is 4800 GiB with EFA and 500 MB/s per TiB; with EFA it must be a multiple of 9600",
        ),
        (
            lustre(efa=True, efaSetupSha256="e" * 64, size="4800 GiB", throughput="1000 MB/s") | nodes(efa=False),
            FACTS,
            "aws.storage.lustre.efa is true, but no machine has EFA, so no machine could use it",
        ),
    ],
    "lustre-efa-setup": [
        (
            lustre(efa=True, size="4800 GiB", throughput="1000 MB/s"),
            FACTS,
            "aws.storage.lustre.efaSetupSha256 is not set, but efa is true: machines run https://docs.aws.amazon.com/fsx/",
        )
    ],
    "lustre-key-unchecked": [
        (
            {},
            FACTS,
            "aws.storage.lustre.clientKey is not set: machines on ubuntu2204 trust whichever key AWS's bucket serves",
        )
    ],
    "enroot-unchecked": [
        (
            {"container": {"image": STACK.container}},
            FACTS,
            "aws.container.enrootSha256 is not set: where an image has no enroot, machines install GitHub's packages as root",
        ),
        (
            {"slurm": {"containers": {}}},
            FACTS,
            "aws.slurm.containers.enrootSha256 is not set: where an image has no enroot, machines install GitHub's",
        ),
    ],
    "mirrors": [
        (
            mirrors("/a", "/a/b"),
            FACTS,
            "aws.storage.lustre.mirrors[1].path is /a/b, which overlaps /a; mirrored folders must not overlap",
        ),
        (
            mirrors(*(f"/{n}" for n in range(9))),
            FACTS,
            "aws.storage.lustre.mirrors names 9 folders; a file system can have at most 8",
        ),
        (mirrors("data"), FACTS, "aws.storage.lustre.mirrors[0].path is 'data'; it must begin with a slash"),
        (
            lustre(mirrors=[{"path": "/a", "prefix": "x"}]),
            FACTS,
            "aws.storage.lustre.mirrors[0].prefix is 'x' without a bucket; name the bucket that has this folder",
        ),
    ],
    "backups": [
        (merged(mirrors("/a"), lustre(backups="7 days")), FACTS, "aws.storage.lustre.backups is 7 days, but mirrors is set"),
        (home(backups="91 days"), FACTS, "aws.storage.home.backups is 91 days; it must be 0 to 90"),
    ],
    "storage-zones": [
        (
            home(deployment="MULTI_AZ_1"),
            FACTS,
            "aws.storage.home.deployment is MULTI_AZ_1, which is in two zones; set aws.second",
        )
    ],
    "mount-points": [
        (
            lustre(mount="/opt/slurm"),
            FACTS,
            "aws.storage.lustre.mount is /opt/slurm; it must be an absolute path of letters, digits",
        ),
        (lustre(mount="fsx"), FACTS, "aws.storage.lustre.mount is fsx; it must be an absolute path"),
        (
            lustre(mount="/home/fsx"),
            FACTS,
            "aws.storage.home.mount is /home, and aws.storage.lustre.mount is /home/fsx; neither",
        ),
        (
            {"storage": {"lustre": {"mount": "/home/ubuntu/data"}, "home": None}},
            FACTS,
            "aws.storage.lustre.mount is /home/ubuntu/data, which overlaps /home/ubuntu, the folder with the keys",
        ),
    ],
    "mount-scratch": [
        (lustre(mount="/scratch/fast"), FACTS, "aws.storage.lustre.mount is /scratch/fast, where the machines' local disks are")
    ],
    "destroy-deletes-data": [
        (
            lustre(onDestroy="delete"),
            FACTS,
            (
                "aws.storage.lustre.onDestroy is delete: a destroy, or an update that removes the file system, deletes "
                "what is on /fsx"
            ),
        )
    ],
    "openzfs-type": [
        (
            home(deployment="SINGLE_AZ_HA_1"),
            FACTS,
            (
                "aws.storage.home.deployment is SINGLE_AZ_HA_1, which ap-northeast-1 does not offer; the highly available "
                "types in ap-northeast-1 are SINGLE_AZ_HA_2, MULTI"
            ),
        ),
        (home(deployment="TWO_AZ"), FACTS, "aws.storage.home.deployment is 'TWO_AZ'; deployment types are SINGLE_AZ_1"),
    ],
    "openzfs-size": [
        (home(throughput="512 MB/s"), FACTS, "aws.storage.home.throughput is 512 MB/s; SINGLE_AZ_HA_2 offers 160, 320, 640"),
        (home(size="32 GiB"), FACTS, "aws.storage.home.size is 32 GiB; it must be 64 to 524288 GiB"),
    ],
}
CASES["group-without-reservation"] = [
    (merged(case[0], nodes(placementGroup="mine")), *case[1:]) for case in CASES["group-without-reservation"]
]
ALL = [(name, *case) for name, cases in CASES.items() for case in cases]
IDS = [f"{name}-{n}" for name, cases in CASES.items() for n, _ in enumerate(cases)]


def built(changes: dict[str, Any]) -> Aws:
    """Return the model without applying the rules."""
    found = merged(GIVEN["aws"], changes)
    model, wrong = read.group("aws", Aws, texts({"aws": found})["aws"])
    assert isinstance(model, Aws), wrong
    return model


@pytest.mark.parametrize(("name", "changes", "facts", "sentence"), ALL, ids=IDS)
def test_each_rule_reports_its_breach_in_one_sentence_that_begins_with_the_path(name, changes, facts, sentence):
    found = [one for one in check(RULES, built(changes), facts) if one.rule == name]
    assert any(one.sentence.startswith(sentence) for one in found), [one.sentence for one in found]
    for one in found:
        assert one.severity == RULES[name].severity in {ERROR, WARNING}
        assert one.sentence.endswith((f". [{name}]", f"? [{name}]"))
        assert "\n" not in one.sentence
        assert begins_with_a_path(one.sentence)


@pytest.mark.parametrize(
    ("family", "ports", "blocked"),
    [
        ("al2023", [443], ""),
        ("al2023", [442, 444], "HTTPS"),
        ("ubuntu2204", [80, 443], ""),
        ("ubuntu2404", [443], "HTTP"),
        ("ubuntu2404", [79, 81], "HTTP and HTTPS"),
    ],
)
def test_a_security_group_may_block_outgoing_traffic_except_on_the_ports_of_package_downloads(family, ports, blocked):
    """Images of Ubuntu need HTTP for their package archive, and HTTPS; images of Amazon Linux need only HTTPS."""
    kept = tuple(rule for rule in GROUPS[NODES].rules if rule.peer != "0.0.0.0/0")
    group = own_group(*kept, *(GroupRule(True, "tcp", (port, port), "0.0.0.0/0") for port in ports))
    wanted = built(EXISTING | {"imageFamily": family})
    found = check(RULES, wanted, replace(FACTS, security_groups=GROUPS | {NODES: group}))
    said = [one.text for one in found if one.rule == "existing-reach"]
    assert said == (
        [f"is {NODES}, which blocks outgoing {blocked} to 0.0.0.0/0; first boot fetches packages"] if blocked else []
    )


@pytest.mark.parametrize("name", [name for name in CASES if not RULES[name].guard])
def test_a_suppressed_rule_reports_nothing(name):
    changes, facts, _ = CASES[name][0]
    assert name not in {found.rule for found in check(RULES, built(changes), facts, suppress=(name,))}


@pytest.mark.parametrize("name", [name for name in CASES if RULES[name].guard])
def test_a_rule_that_is_a_guard_cannot_be_suppressed(name):
    changes, facts, _ = CASES[name][0]
    assert name in {found.rule for found in check(RULES, built(changes), facts, suppress=(name,))}
    (said,) = suppressed((name,), "aws.suppress", RULES)
    assert said.sentence.startswith(f"aws.suppress[0] is {name!r}, which cannot be suppressed")


def test_every_rule_has_its_cases():
    assert set(CASES) == set(RULES)


#: Stacks that almost break a rule.
SOUND = [
    ({}, FACTS),
    (nodes(type="m5.xlarge", efa=False, placement="none") | lustre(efa=False), FACTS),
    (nodes(placement="existing", placementGroup="mine"), FACTS),
    (merged(EXISTING, on_demand() | {"slurm": {"loginNodes": 2}}), also(LOGIN, *rules_of(LOGIN))),
    (merged(EXISTING, on_demand() | {"slurm": {"loginNodes": 2}}), also(LOGIN, *rules_of("172.16.0.0/16"))),
    ({"secondZone": OTHER} | home(deployment="MULTI_AZ_1"), FACTS),
    (merged(on_demand(dynamic=4), {"slurm": {"testNodes": 4}}), FACTS),
    (TARGETED, FACTS),
    (merged(TARGETED, nodes(static=6, dynamic=2)), FACTS),
    (POOLED, FACTS),
    (
        merged(bought("targeted-odcr", reservation="cr-1", placement="existing"), nodes(placementGroup="mine")),
        reserved(IN_MINE),
    ),
    (bought("capacity-block", reservation="cr-1"), reserved(BLOCK)),
    (merged(bought("capacity-block", reservation="cr-1"), nodes(static=0)), reserved(replace(BLOCK, state="scheduled"))),
    (bought("capacity-block", offering="cb-1", confirm="cb-1"), FACTS),
    (bought("spot", allocation="capacity-optimized", placement="managed"), FACTS),
    (nodes(static=200) | {"network": {"private": "10.1.0.0/23"}}, replace(FACTS, quota_vcpus={P_QUOTA: 38400.0})),
    (nodes(static=0, dynamic=4), FACTS),
    (nodes(static=0), FACTS),
    ({"container": {"image": STACK.container}}, FACTS),
    ({"container": {"image": "/fsx/images/tests.sqsh", "sha256": "1" * 64}}, FACTS),
    ({"root": {"iops": 16000, "throughput": "1000 MiB/s"}}, FACTS),
    (nodes(type="p3dn.24xlarge") | {"openModules": False}, FACTS),
    ({"access": {"publicKey": RSA}, "login": {"imageFamily": "al2023"}}, FACTS),
    ({"tags": dict(list(TAGS.items())[:39])}, FACTS),
    (lustre(size="4800 GiB"), FACTS),
    (lustre(throughput="1000 MB/s"), FACTS),
    (lustre(efa=True, efaSetupSha256="e" * 64, size="9600 GiB", throughput="500 MB/s"), FACTS),
    (mirrors("/a", "/b"), FACTS),
    (lustre(mount="/data"), FACTS),
    (home(onDestroy="retain"), FACTS),
    (home(throughput="320 MB/s"), FACTS),
    ({"storage": {"lustre": None, "home": None}}, FACTS),
]
_EXPECTED = {"not-nvidia", "placement-off", "image-system", "dynamic-unstarted", "lustre-key-unchecked", "enroot-unchecked"}


@pytest.mark.parametrize(("changes", "facts"), SOUND)
def test_a_stack_that_almost_breaks_a_rule_gets_no_unexpected_finding(changes, facts):
    assert {found.rule for found in check(RULES, built(changes), facts)} <= _EXPECTED


def test_a_sound_stack_gets_no_finding_except_for_an_unset_client_key_on_ubuntu():
    assert check(RULES, built(lustre(clientKey=PRINT)), FACTS) == ()
    inside = {"container": {"image": STACK.container, "enrootSha256": ["1" * 64, "2" * 64]}}
    assert {one.rule for one in check(RULES, built(inside), FACTS)} == {"lustre-key-unchecked"}
    assert check(RULES, built({"imageFamily": "al2023", "image": None, "login": {"image": None}}), FACTS) == ()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"zone": "virginia"}, "aws.zone is 'virginia'; it must be an availability zone, such as us-east-1a."),
        ({"image": "ocid1.image.oc1..x"}, "aws.image is 'ocid1.image.oc1..x'; it must be the id of an AMI, ami-..."),
        ({"imageFamily": "ol8"}, "aws.imageFamily is 'ol8'; it must be one of 'ubuntu2204', 'ubuntu2404', 'al2023'."),
        (nodes(placement="close"), f"{P5}.placement is 'close'; it must be one of 'managed', 'existing', 'none'."),
        (nodes(static=-1), f"{P5}.static is -1; it must be at least 0."),
        (nodes(purchase={"option": "rented"}), f"{P5}.purchase.option is 'rented'; it must be one of 'on-demand', 'spot'"),
        (
            nodes(purchase={"maxPrice": "cheap"}),
            f"{P5}.purchase.maxPrice is 'cheap'; write a number and its unit (USD), such as",
        ),
        (nodes(purchase={"showOfferings": "-1 h"}), f"{P5}.purchase.showOfferings is '-1 h'; write a number and its unit"),
        ({"tags": {"busbar:a": "b"}}, "aws.tags has 'busbar:a'; use keys of your own, not Name, busbar:... or aws:..."),
        ({"tags": {"Name": "mine"}}, "aws.tags has 'Name'; use keys of your own, not Name, busbar:... or aws:..."),
        ({"tags": ["team=x"]}, "aws.tags is ['team=x']; it must be a map."),
        (
            lustre(clientKey="0xF796ECB0"),
            "aws.storage.lustre.clientKey is '0xF796ECB0'; an OpenPGP fingerprint has 40 hexadecimal digits, as",
        ),
        (
            {"container": {"image": STACK.container, "enrootSha256": ["abc"]}},
            "aws.container.enrootSha256[0] is 'abc'; it must be 64 hexadecimal digits",
        ),
        (lustre(gib=1200), "aws.storage.lustre.gib is not a key of the configuration; known are size,"),
        (home(onDestroy="keep"), "aws.storage.home.onDestroy is 'keep'; it must be one of 'refuse', 'retain', 'delete'."),
        (lustre(efa="yes"), "aws.storage.lustre.efa is 'yes'; it must be true or false."),
        ({"queues": []}, "aws.queues is empty; it needs at least one entry."),
        ({"queues": [{"machines": []}]}, "aws.queues[0].machines is empty; it needs at least one entry."),
        ({"container": {"sha256": "1" * 64}}, "aws.container.image is not set, and it has no default: Image in enroot's form"),
    ],
)
def test_a_wrong_value_is_refused_with_its_path(changes, sentence):
    with pytest.raises(pulumi.RunError) as found:
        read.parse(texts(merged(GIVEN, {"aws": changes})))
    said = [one for one in str(found.value).splitlines() if one.startswith(sentence)]
    assert len(said) == 1, str(found.value)
    assert all(begins_with_a_path(one) for one in str(found.value).splitlines())


def test_the_region_follows_from_the_zone_and_must_equal_the_providers_region():
    assert parsed().wanted.region == "ap-northeast-1"
    assert built({"zone": "us-west-2-lax-1a"}).region == "us-west-2"
    with pytest.raises(
        pulumi.RunError, match=rf"^aws\.zone is {ZONE}, and aws:region of this stack is us-east-1; the zone must"
    ):
        read.parse(texts(GIVEN), region="us-east-1")
    assert read.parse(texts(GIVEN), region="ap-northeast-1")


def test_absent_file_systems_get_the_defaults_but_null_means_no_file_system():
    assert parsed().wanted.storage.systems == {"lustre": Lustre(), "home": Home()}
    assert parsed(aws={"storage": {"lustre": None}}).wanted.storage.systems == {"home": Home()}
    found = parsed(aws=lustre(mirrors=[{"path": "/data"}, {"path": "/sets", "bucket": "mine", "prefix": "deep/er"}])).wanted
    assert found.storage.lustre.mirrors == (Mirror(path="/data"), Mirror(path="/sets", bucket="mine", prefix="deep/er"))


def test_measure_pool_must_be_set_if_pools_of_several_queues_have_nodes():
    more = {"name": "test", "machines": [{"name": "p4", "type": "p4d.24xlarge", "static": 2}, {"name": "cheap", "static": 0}]}
    queues = [*GIVEN["aws"]["queues"], more]
    why = r"^measure\.pool is not set, but several of aws\.queues have nodes: gpu-p5, test-p4;"
    with pytest.raises(pulumi.RunError, match=why):
        parsed(aws={"queues": queues})
    stack = parsed(aws={"queues": queues}, measure={"pool": "test-p4"})
    assert stack.pool == "test-p4"


@pytest.mark.parametrize(
    ("gib", "iops", "mib_s"), [(8, 4000, 125), (160, 80_000, 125), (1, 3000, 125), (75, 3000, 750), (75, 8000, 2000)]
)
def test_a_volume_may_have_as_many_iops_and_as_much_throughput_as_gp3_allows(gib, iops, mib_s):
    volume = {"size": f"{gib} GiB", "iops": iops, "throughput": f"{mib_s} MiB/s"}
    found = check(RULES, built({"root": volume, "login": {"root": volume}}), Facts())
    assert "root-ratios" not in {one.rule for one in found}


def test_each_of_the_43_checks_in_the_vendors_tool_has_a_rule_or_a_reason_why_it_needs_no_rule():
    ruled = {found.number for found in RULES.values()}
    assert not ruled & set(HELD_ELSEWHERE)
    assert (ruled | set(HELD_ELSEWHERE)) - {0} == set(range(1, 44))
    assert {row.architecture for row in INSTANCES.values()} <= set.intersection(
        *(set(image.architectures) for image in MACHINE_IMAGES.values())
    ), "check 7: every image family has EFA on every architecture"


def test_without_an_account_the_rules_that_need_an_account_give_only_notes():
    found = check(RULES, built(lustre(clientKey=PRINT)), Facts())
    assert {each.severity for each in found} == {NOTE}
    assert {each.rule for each in found} == {
        "usage-class",
        "type-offered",
        "catalogue-current",
        "quota",
        "image-missing",
        "image-architecture",
        "image-system",
        "root-size",
    }
    assert all("was not checked, because this is not known" in each.text for each in found)


def test_a_reservation_that_was_not_looked_up_is_noted_and_does_not_pass():
    found = check(RULES, built(bought("targeted-odcr", reservation="cr-9")), Facts())
    assert {"reservation-type", "reservation-zone", "reservation-size", "reservation-kind"} <= {
        each.rule for each in found if each.severity == NOTE
    }


@pytest.mark.parametrize(
    ("name", "fits", "exceeds"),
    [
        (
            "elastic-ips",
            ({"login": {"elasticIp": True}}, {"elastic_ips": {"ap-northeast-1": ElasticIps(6, 5, 1)}}),
            ({"login": {"elasticIp": True}}, {"elastic_ips": {"ap-northeast-1": ElasticIps(6, 5, 0)}}),
        ),
        (
            "elastic-ips",
            (EXISTING | {"login": {"elasticIp": True}}, {"elastic_ips": {"ap-northeast-1": ElasticIps(5, 4, 0)}}),
            (EXISTING | {"login": {"elasticIp": True}}, {"elastic_ips": {"ap-northeast-1": ElasticIps(5, 5, 0)}}),
        ),
        (
            "addresses",
            (nodes(static=219) | {"network": {"private": "10.1.0.0/23"}}, {}),
            (nodes(static=219, dynamic=1) | {"network": {"private": "10.1.0.0/23"}}, {}),
        ),
        (
            "addresses",
            (EXISTING, {"subnets": subnet(PRIVATE, free=2).subnets}),
            (EXISTING, {"subnets": subnet(PRIVATE, free=1).subnets}),
        ),
    ],
)
def test_a_stack_that_needs_exactly_the_free_addresses_is_accepted_and_one_that_needs_one_more_is_refused(name, fits, exceeds):
    counts = [len(list(RULES[name].findings(built(changes), replace(FACTS, **facts)))) for changes, facts in (fits, exceeds)]
    assert counts == [0, 1]


def test_a_type_without_cluster_placement_groups_does_not_contradict_the_catalogue_if_the_account_says_the_same():
    gb200 = machine("p6e-gb200.36xlarge", strategies=frozenset({"spread", "partition"}))
    wanted = built(nodes(type="p6e-gb200.36xlarge"))
    found = check(RULES, wanted, replace(FACTS, machines={"p6e-gb200.36xlarge": gb200}))
    assert "placement-strategy" in {one.rule for one in found}
    assert "catalogue-current" not in {one.rule for one in found}


def test_a_slurm_cluster_without_dynamic_machines_breaks_only_the_rule_about_idle_controllers():
    found = check(RULES, built(on_demand(dynamic=0)), FACTS)
    assert {one.rule for one in found} - _EXPECTED == {"slurm-idle"}


@pytest.mark.parametrize("held", [None, ()])
def test_a_group_without_any_reservation_breaks_only_the_rule_about_pools_of_reservations(held):
    wanted = built(merged(POOLED, nodes(placement="existing", placementGroup="mine")))
    found = check(RULES, wanted, replace(FACTS, groups={GROUP: held}))
    assert {one.rule for one in found} - _EXPECTED == {"reservation-pool"}


@pytest.mark.parametrize(("newer", "refused"), [(2, []), (3, ["aws.queues[0].machines[1].purchase.reservation"])])
def test_in_a_group_with_reservations_of_two_types_the_reserved_machines_are_counted_for_each_type(newer, refused):
    same = {"placement": "none", "purchase": {"option": "odcr-group", "reservation": GROUP}}
    entries = [{"name": kind.partition(".")[0], "type": kind, **same} for kind in ("p5.48xlarge", "p5en.48xlarge")]
    wanted = built({"queues": [{"name": "gpu", "machines": [entries[0] | {"static": 8}, entries[1] | {"static": newer}]}]})
    facts = replace(FACTS, groups={GROUP: (ODCR, replace(ODCR, id="cr-2", instance_type="p5en.48xlarge", instances=2))})
    assert [one.path for one in RULES["reservation-size"].findings(wanted, facts)] == refused


def test_a_deployment_type_that_the_region_does_not_offer_breaks_only_the_rule_openzfs_type():
    seed = built(merged(lustre(clientKey=PRINT), home(deployment="SINGLE_AZ_HA_1", throughput="512 MB/s")))
    assert {found.rule for found in check(RULES, seed, FACTS)} == {"openzfs-type"}


@pytest.mark.parametrize("region", ["us-east-1", "ap-northeast-1", "eu-west-2", "ap-northeast-3", "sa-east-1", "xx-new-1"])
def test_the_default_file_system_for_home_exists_in_every_region(region):
    deployment = default_openzfs(region)
    assert region not in OPENZFS_MISSING.get(deployment, frozenset())
    assert Home().throughput_mb_s in OPENZFS_MB_S[deployment]


def test_the_pinned_software_suits_every_instance_type_and_is_in_the_container_image():
    assert {STACK.refusal(name) for name in INSTANCES} == {""}
    assert all(part in STACK.container for part in (f"efa{STACK.efa}", f"ofiv{STACK.plugin}", f"ncclv{STACK.nccl}"))


@pytest.mark.parametrize(
    ("stack", "kind", "part"),
    [
        (Stack("1.28.0", "1.7.4", "2.18.5", ""), "p5.48xlarge", "the EFA installer is 1.28.0"),
        (Stack("1.29.0", "1.7.2", "2.18.5", ""), "p5.48xlarge", "the plugin is 1.7.2"),
        (Stack("1.29.0", "1.7.4", "2.18.3", ""), "p5.48xlarge", "the NCCL is 2.18.3"),
        (Stack("1.28.0", "1.7.4", "2.19.4", ""), "p4d.24xlarge", "fails to register memory"),
        (Stack("1.47.0", "1.18.0", "2.27.7-1", ""), "p4d.24xlarge", "hangs in broadcasts"),
    ],
)
def test_software_that_is_too_old_for_the_instance_type_or_has_a_known_fault_is_refused_with_the_reason(stack, kind, part):
    assert part in stack.refusal(kind)


def test_every_image_has_amazons_mpi_and_only_images_with_apt_name_their_distributions_release():
    for image in MACHINE_IMAGES.values():
        assert image.homes.mpi[0] == "/opt/amazon/openmpi"
        assert image.packages in {"apt", "dnf"}
        assert bool(image.release) == (image.packages == "apt")


def test_sharing_the_login_users_home_changes_the_hash_that_decides_whether_machines_are_replaced():
    each = [on_demand(), *(on_demand() | {"storage": {"home": {"shareLoginUser": shared}}} for shared in (False, True))]
    usual, own, shared = (one.made_of(one.queues[0].machines[0]) for one in (parsed(aws=changes).wanted for changes in each))
    assert usual == own != shared


def test_the_keys_mount_and_share_login_user_may_be_set_for_an_existing_file_system_on_aws():
    own = {
        "home": {"existing": "fs-1", "mount": "/home", "shareLoginUser": True},
        "lustre": {"existing": "fs-2", "mount": "/x"},
    }
    said = refused(aws=on_demand() | {"storage": own})
    assert said, "a new network contains no file system"
    assert not [one for one in said if "shareLoginUser" in one or "mount is set" in one], said


def test_a_tag_whose_key_begins_with_name_but_is_longer_is_accepted():
    assert model._tags({"NameOfTeam": "research"}) == {"NameOfTeam": "research"}  # noqa: SLF001
