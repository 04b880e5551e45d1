"""Stack files of target oci: a case for each rule. A stack that cannot be built is refused before anything exists."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from conftest import KEY
from early_refusal import begins_with_a_path
from parsed_stack import IMAGE, parsed, refused

from catalogue import Homes
from config.oci.facts import Facts, Image, OfferedShape, SecurityRule, Subnet
from config.oci.model import Home, Lustre, Oci
from config.oci.rules import RULES
from config.rule import ERROR, NOTE, WARNING, check
from tools.stack_changes import DEFAULT

BOTH = {"home": {}, "lustre": {}}


def network(**cidrs: str) -> dict[str, Any]:
    return {"network": cidrs}


def pool(**changes: Any) -> dict[str, Any]:
    return {"pools": [changes]}


def storage(**systems: Any) -> dict[str, Any]:
    return {"storage": systems, "pools": [{"imageFamily": "ol8"}]}


TENSORFLOW = {"image": "docker://nvcr.io#nvidia/tensorflow:25.02-tf2-py3"}
SINGLE = {"nodes": 1, "clusterNetwork": False, "imageFamily": "ol9"}
ONE_MACHINE = {"preflight": True, "pools": [SINGLE]}


def container(**changes: Any) -> dict[str, Any]:
    return ONE_MACHINE | {"container": TENSORFLOW | changes}


SHAPE = "oci.pools[0].shape is 'BM.GPU4.9', which is not an RDMA shape in the catalogue; the nearest are BM.GPU4.8,"
VALUES = [
    (pool(shape="BM.GPU4.9"), SHAPE),
    (pool(shape="BM.HPC2.36"), "oci.pools[0].shape is 'BM.HPC2.36', which has no GPU"),
    (pool(shape="BM.GPU.L40S.4"), "oci.pools[0].shape is 'BM.GPU.L40S.4', which has no rail data"),
    (pool(nodes=-1), "oci.pools[0].nodes is -1; it must be at least 0."),
    (pool(nodes="two"), "oci.pools[0].nodes is 'two'; it must be a whole number."),
    (pool(image="ol8"), "oci.pools[0].image is 'ol8'; it must be one of ol8-nv570, ol8-nv550, ol8-nv580, "),
    (pool(imageFamily="ol6"), "oci.pools[0].imageFamily is 'ol6'; it must be one of 'ol7', 'ol8'"),
    (pool(root={"size": 256}), "oci.pools[0].root.size is 256; write a number and its unit (GB, TB), such as 256 GB."),
    ({"compartment": "x"}, "oci.compartment is 'x'; it must be an OCID that begins with ocid1.compartment. or ocid1.tenancy."),
    ({"name": "My Cluster"}, "oci.name is 'My Cluster'; it must be a DNS label: 1 to 15 lower-case letters"),
    ({"timezone": "America"}, "oci.timezone is 'America', which the tz database does not know; the nearest are "),
    (
        {"timezone": "../etc/passwd"},
        "oci.timezone is '../etc/passwd', which the tz database does not know; write a name such as UTC or ",
    ),
    (
        {"timezone": "Asia/Tokio"},
        "oci.timezone is 'Asia/Tokio', which the tz database does not know; the nearest are Asia/Tokyo",
    ),
    ({"preflight": "yes"}, "oci.preflight is 'yes'; it must be true or false."),
    ({"pools": []}, "oci.pools is empty; it needs at least one entry."),
    ({"login": {"ocpus": 0}}, "oci.login.ocpus is 0; it must be at least 1."),
    (network(vcn="10.0.0.1/16"), "oci.network.vcn is '10.0.0.1/16', which is no IPv4 network"),
    (
        network(vcn="ocid1.vcn.oc1..aaaa"),
        "oci.network.vcn is 'ocid1.vcn.oc1..aaaa', the id of an existing network: name it in network.existing",
    ),
    (network(ingress="none"), "oci.network.ingress is 'none'; it must be one of 'all', 'ssh'."),
    ({"access": {"sshFrom": ["office"]}}, "oci.access.sshFrom[0] is 'office', which is no IPv4 network"),
    (
        pool(customActions={"onNodeStart": [{"script": "s3://scripts/a.sh", "sha256": "5" * 64}]}),
        "oci.pools[0].customActions.onNodeStart[0].script is 's3://scripts/a.sh'; it must be an https or http address",
    ),
    (
        pool(customActions={"onNodeConfigured": [{"script": "http://scripts.example/a.sh"}]}),
        "oci.pools[0].customActions.onNodeConfigured[0].sha256 is not set, and it has no default",
    ),
    ({"access": {"publicKey": "hello"}}, "oci.access.publicKey is not an OpenSSH public key"),
    ({"access": {"publicKey": "ssh-ed25519 AAAAC3NzaC1yc2E"}}, "oci.access.publicKey is not an OpenSSH public key"),
    ({"access": {"publicKey": KEY.replace("ssh-ed25519", "ssh-rsa")}}, "oci.access.publicKey is not an OpenSSH public key"),
    ({"access": {"publicKey": "/no/key.pub"}}, "oci.access.publicKey is '/no/key.pub', a file that cannot be read"),
    (
        {"access": {"publicKey": "-----BEGIN OPENSSH PRIVATE KEY-----"}},
        "oci.access.publicKey is a private key, which must never leave its owner",
    ),
    (storage(home={"throughput": "10 GB/s"}), "oci.storage.home.throughput is '10 GB/s'; write a number and its unit (Gbit/s)"),
    (
        storage(home={"onDestroy": "keep"}),
        "oci.storage.home.onDestroy is 'keep'; it must be one of 'refuse', 'retain', 'delete'.",
    ),
    (storage(home=True), "oci.storage.home is True; it must be a map."),
    (container(runtime="docker"), "oci.container.runtime is 'docker'; it must be one of 'containerd'."),
    (container(image="/x.sqsh"), "oci.container.image is '/x.sqsh', a file for enroot; containerd takes images of a registry"),
    (container(image="nvcr.io/nvidia/tensorflow:1"), "oci.container.image is 'nvcr.io/nvidia/tensorflow:1'; write docker://"),
    (
        container(image="docker://me@nvcr.io#a:1"),
        "oci.container.image is 'docker://me@nvcr.io#a:1'; give users and passwords to containerd with `nerdctl login`",
    ),
    (container(toolkit="latest"), "oci.container.toolkit is 'latest'; it must be a version of three numbers, such as 2.2.0"),
    (container(containerd={"sums": "x"}), "oci.container.containerd.sums is 'x'"),
]


@pytest.mark.parametrize(("changes", "sentence"), VALUES, ids=[one[1].split(" ")[0] + f"-{n}" for n, one in enumerate(VALUES)])
def test_the_refusal_of_a_wrong_value_begins_with_the_path_of_its_key(changes, sentence):
    (said,) = refused(oci=changes)
    assert said.startswith(sentence)


def on_demand(**fields: Any) -> dict[str, Any]:
    """Return the changes that make a cluster whose nodes Slurm starts."""
    own = {"nodes": 0, "dynamic": 4, "image": "ocid1.image.oc1..rehearsed-ol9-gpu", "imageFamily": "ol9"}
    found = {"slurm": {}, "storage": {"home": {}}, "login": {"image": "ocid1.image.oc1..rehearsed-ol9", "imageFamily": "ol9"}}
    return found | pool(**{**own, **fields})


KEYS = "/home/opc, the folder with the keys for logging in to nodes"
#: Rule -> its cases: changes that break the rule, and the beginning of the sentence.
CASES: dict[str, list[tuple[dict[str, Any], str]]] = {
    "ssh-sources": [
        ({"access": {"sshFrom": []}}, "oci.access.sshFrom is empty; name at least one network that may reach the login node"),
        ({"access": {"sshFrom": ["0.0.0.0/0"]}}, "oci.access.sshFrom contains 0.0.0.0/0, the whole Internet"),
        ({"access": {"sshFrom": ["0.0.0.0/1", "128.0.0.0/1"]}}, "oci.access.sshFrom contains 0.0.0.0/0, the whole Internet"),
    ],
    "tag-count": [
        (
            {"tags": {f"key{at}": "x" for at in range(7)}},
            "oci.tags has 7 tags; a resource takes at most 6 beside busbar's own tags",
        ),
    ],
    "tag-form": [
        ({"tags": {"cost.centre": "x"}}, "oci.tags has the key 'cost.centre', of 11 characters; a key has 1 to 100 printable"),
        ({"tags": {"cost centre": "x"}}, "oci.tags has the key 'cost centre', of 11 characters; a key has 1 to 100 printable"),
        ({"tags": {"k" * 101: "x"}}, "oci.tags has the key 'kkkkkkkkkkkkkkkkkkkk', of 101 characters; a key has 1 to 100"),
        ({"tags": {"team": "v" * 257}}, "oci.tags has a value of 257 characters for 'team'; a value has at most 256"),
    ],
    "existing-instead": [
        (
            {
                "network": {
                    "existing": {"publicSubnet": "ocid1.subnet.oc1..a", "privateSubnet": "ocid1.subnet.oc1..b"},
                    "vcn": "10.0.0.0/16",
                }
            },
            "oci.network.vcn is set, but oci.network.existing names subnets; set only one of them",
        )
    ],
    "existing-system": [
        (
            storage(lustre={"existing": "ocid1.lustrefilesystem.oc1..a"}),
            "oci.storage.lustre.existing is set, but the stack creates a new VCN, which contains nothing yet",
        ),
        (
            storage(home={"existing": {"mountTarget": "ocid1.mounttarget.oc1..a"}, "throughput": "20 Gbit/s"}),
            "oci.storage.home.throughput is set, but oci.storage.home.existing names a file system that has",
        ),
    ],
    "vcn-rails": [
        (network(vcn="192.168.0.0/16", public="192.168.0.0/24", private="192.168.1.0/24"), "oci.network.vcn is 192.168.0.0/16"),
        (network(vcn="10.224.0.0/16", public="10.224.0.0/24", private="10.224.1.0/24"), "oci.network.vcn is 10.224.0.0/16"),
    ],
    "vcn-size": [
        (
            network(vcn="172.16.0.0/12", public="172.16.0.0/24", private="172.16.1.0/24"),
            "oci.network.vcn is 172.16.0.0/12; the cloud accepts /16 to /30",
        ),
        (network(public="10.0.0.0/31"), "oci.network.public is 10.0.0.0/31; the cloud accepts no subnet smaller than /30"),
    ],
    "subnets": [
        (network(private="10.1.0.0/24"), "oci.network.private is 10.1.0.0/24, which is outside oci.network.vcn 10.0.0.0/16"),
        (network(public="10.1.0.0/24"), "oci.network.public is 10.1.0.0/24, which is outside oci.network.vcn 10.0.0.0/16"),
        (network(private="10.0.0.0/25"), "oci.network.private is 10.0.0.0/25, which overlaps oci.network.public 10.0.0.0/24"),
    ],
    "subnet-room": [
        (network(private="10.0.1.0/30"), "oci.network.private is 10.0.1.0/30, which has room for 1 machines; 2 nodes"),
        (
            storage(lustre={}) | network(private="10.0.1.0/28"),
            "oci.network.private is 10.0.1.0/28, which has 13 addresses; 2 nodes and the servers of the file systems need 21",
        ),
        (
            {"storage": {"home": {}}, "pools": [{"nodes": 3}]} | network(private="10.0.1.0/29"),
            "oci.network.private is 10.0.1.0/29, which has 5 addresses; 3 nodes and the servers",
        ),
    ],
    "rails-subnet": [
        (
            pool(imageFamily="ol7") | network(private="10.0.2.0/23"),
            "oci.network.private is 10.0.2.0/23; it must be /24 or smaller, because on ol7 a rail's address ends",
        ),
    ],
    "slurm-missing": [
        (
            pool(nodes=0, dynamic=4),
            "oci.pools[0].dynamic is 4, but oci.slurm is not set, so nothing would start these nodes; set oci.slurm: {}",
        ),
        (
            {"slurm": {}, "storage": {"home": {}}},
            "oci.slurm is set, but no entry has dynamic nodes; set dynamic in an entry",
        ),
    ],
    "slurm-static": [
        (on_demand(nodes=2), "oci.pools[0].nodes is 2, and dynamic is 4; nodes of one entry are either all static or"),
        (on_demand(clusterNetwork=False), "oci.pools[0].clusterNetwork is false, but the pool has dynamic nodes"),
    ],
    "slurm-gpus": [
        (
            on_demand(shape="BM.GPU.MI300X.8"),
            "oci.pools[0].shape is BM.GPU.MI300X.8 with AMD Instinct MI300X GPUs, but dynamic is 4; Slurm's settings are for",
        ),
    ],
    "slurm-home": [
        (on_demand() | {"storage": {}}, "oci.storage.home is not set, but oci.slurm is; jobs write to home folders"),
        (
            {"storage": {"home": {"shareLoginUser": True}}},
            "oci.storage.home.shareLoginUser is true, but oci.slurm is not set; the key serves only jobs that the login user",
        ),
    ],
    "slurm-software": [
        (
            on_demand() | {"login": {"imageFamily": "ol7"}},
            "oci.login.imageFamily is ol7, for which there is no package of Slurm 22.05 or later; take ol9 or ubuntu2404",
        ),
        (
            on_demand() | {"login": {"imageFamily": "ol8"}},
            "oci.login.imageFamily is ol8, for which there is no package of Slurm 22.05 or later; take ol9 or ubuntu2404",
        ),
        (
            on_demand(image="ocid1.image.oc1..a", imageFamily="ol8"),
            "oci.pools[0].image is ocid1.image.oc1..a of family ol8, which has no package of Slurm 22.05 or later, and the",
        ),
        (
            on_demand(image="ocid1.image.oc1..a", imageFamily="ubuntu2404"),
            "oci.pools[0].image is ocid1.image.oc1..a of family ubuntu2404, which has Slurm 23.11.4, and the login",
        ),
        (
            on_demand(image="ocid1.image.oc1..a", imageFamily="ol7"),
            "oci.pools[0].image is ocid1.image.oc1..a of family ol7, which has no package of Slurm",
        ),
    ],
    "slurm-queue": [
        (on_demand(queue="default"), "oci.pools[0].queue is 'default'; default and all have a meaning"),
        (on_demand(queue="GPU"), "oci.pools[0].queue is 'GPU'; a queue's name has 1 to 40 lower-case letters"),
    ],
    "slurm-test": [
        (on_demand() | {"slurm": {"testNodes": 1}}, "oci.slurm.testNodes is 1; one node has no fabric to measure"),
        (on_demand() | {"slurm": {"testNodes": 5}}, "oci.slurm.testNodes is 5, but no entry has more than 4 dynamic nodes"),
    ],
    "slurm-fallback-domains": [
        (
            pool(fallbackDomains=["AD-2"]),
            "oci.pools[0].fallbackDomains is AD-2, but the pool has no dynamic nodes; static nodes start in one domain only",
        ),
        (
            on_demand(fallbackDomains=["AD-2", "AD-2"]),
            "oci.pools[0].fallbackDomains has AD-2 twice, or repeats the stack's availability domain, which is tried first",
        ),
        (
            on_demand(fallbackDomains=["AD-1"]) | {"availabilityDomain": "AD-1"},
            "oci.pools[0].fallbackDomains has AD-1 twice, or repeats the stack's availability domain, which is tried first",
        ),
    ],
    "slurm-always-on": [
        (
            on_demand(alwaysOn=5),
            "oci.pools[0].alwaysOn is 5, but dynamic is 4; alwaysOn counts those dynamic nodes that are never",
        ),
        (
            pool(alwaysOn=2),
            "oci.pools[0].alwaysOn is 2, but oci.slurm is not set, so nothing would start these nodes; set oci.slurm: {}",
        ),
    ],
    "slurm-entry": [
        (
            on_demand(dynamic=1) | {"slurm": {"entryTest": True}},
            "oci.slurm.entryTest is true, but oci.pools[0].dynamic is 1; a test takes two machines",
        ),
        (
            on_demand(nodes=2) | {"slurm": {"entryTest": True}},
            "oci.slurm.entryTest is true, but oci.pools[0].nodes is 2; the test of new machines is installed",
        ),
        (
            on_demand(clusterNetwork=False) | {"slurm": {"entryTest": True}},
            "oci.slurm.entryTest is true, but the rails of oci.pools[0] are not known before its machines start",
        ),
    ],
    "slurm-container": [
        (
            on_demand() | {"container": TENSORFLOW},
            "oci.container is set, but oci.slurm.containers is not; the test job's ranks",
        ),
        (
            on_demand() | {"slurm": {"containers": {"pyxis": "0.23.0"}}},
            "oci.slurm.containers.pyxisSha256 is the checksum of Pyxis 0.24.0, but pyxis is 0.23.0; give the sha256 of https",
        ),
    ],
    "slurm-tenancy": [(on_demand() | {"preflight": False}, "oci.tenancy is not set, and oci.preflight is false")],
    "pool-names": [
        (
            {"pools": [{}, {"name": "gpu", "nodes": 0, "image": IMAGE}]},
            "oci.pools[1].name is 'gpu', like another pool's name; every pool needs a name",
        )
    ],
    "pool-nodes": [
        (pool(nodes=1), "oci.pools[0].nodes is 1; a cluster network joins 2 or more"),
        (
            pool(nodes=2, clusterNetwork=False) | {"preflight": True},
            "oci.pools[0].nodes is 2, but clusterNetwork is false; without a cluster network there is no fabric",
        ),
    ],
    "container-single": [
        (
            {"container": TENSORFLOW},
            "oci.container is set, but oci.pools[0] has a cluster network; ranks in containerd start inside one node",
        )
    ],
    "container-image": [
        (
            ONE_MACHINE | {"container": TENSORFLOW, "pools": [SINGLE | {"imageFamily": "ubuntu2204"}]},
            "oci.pools[0].imageFamily is ubuntu2204, but oci.container is set; first boot can install the container runtime",
        ),
    ],
    "container-sums": [
        (
            ONE_MACHINE | {"container": TENSORFLOW | {"containerd": {"version": "2.2.1"}}},
            "oci.container.containerd.sums is the checksum for version 2.2.0, but version is 2.2.1; give the sha256 of",
        )
    ],
    "single-asked": [
        (
            pool(nodes=1, clusterNetwork=False) | {"preflight": False},
            "oci.pools[0].clusterNetwork is false, and so is oci.preflight; set oci.preflight to true",
        )
    ],
    "boot-volume": [(pool(root={"size": "100 GB"}), "oci.pools[0].root.size is 100 GB; GPU nodes need 200 GB or more")],
    "image-rails": [
        (
            pool(imageFamily="ol7", shape="BM.GPU.H100.8"),
            "oci.pools[0].imageFamily is ol7, whose images cannot drive the rails of BM.GPU.H100.8; use ol8 or later",
        )
    ],
    "shape-joined": [
        (
            pool(shape="BM.GPU.GB200.4"),
            "oci.pools[0].shape is BM.GPU.GB200.4, which the vendor joins by a compute cluster and a GPU memory fabric",
        )
    ],
    "domain": [({"preflight": False}, "oci.availabilityDomain is not set, and oci.preflight is false")],
    "home-throughput": [
        (storage(home={"throughput": "10 Gbit/s"}), "oci.storage.home.throughput is 10 Gbit/s; the vendor offers 1, 20, 40, 80")
    ],
    "lustre-size": [
        (storage(lustre={"size": "50 TB"}), "oci.storage.lustre.size is 50000 GB; it must be a multiple of 31200 GB"),
        (storage(lustre={"size": "0 GB"}), "oci.storage.lustre.size is 0 GB; it must be a multiple of 31200 GB"),
    ],
    "lustre-throughput": [
        (
            storage(lustre={"throughput": "300 MB/s"}),
            "oci.storage.lustre.throughput is 300 MB/s for each TB; tiers are 125, 250",
        )
    ],
    "lustre-client": [
        (
            {"storage": {"lustre": {}}, "pools": [{"imageFamily": "ol7"}]},
            "oci.pools[0].imageFamily is ol7, for which no Lustre client can be built, but oci.storage.lustre is set; use ol8",
        )
    ],
    "mount-points": [
        (storage(home={"mount": "fss"}), "oci.storage.home.mount is fss; it must be an absolute path of letters, digits"),
        (storage(home={"mount": "/"}), "oci.storage.home.mount is /; it must be an absolute path"),
        (storage(home={"mount": "/usr"}), "oci.storage.home.mount is /usr; it must be an absolute path"),
        *(
            (storage(home={"mount": f"/{taken}"}), f"oci.storage.home.mount is /{taken}; it must be an absolute path")
            for taken in ("etc/shared", "usr/bin", "usr/local", "usr/share/data", "var/lib", "root/.ssh")
        ),
        (storage(home={"mount": "/fss/../etc"}), "oci.storage.home.mount is /fss/../etc; it must be"),
        (storage(home={"mount": "/my files"}), "oci.storage.home.mount is /my files; it must be"),
        (storage(lustre={"mount": "/fss;reboot"}), "oci.storage.lustre.mount is /fss;reboot; it must be"),
        (
            storage(home={"mount": "/data"}, lustre={"mount": "/data/l"}),
            "oci.storage.lustre.mount is /data/l, and oci.storage.home.mount is /data; neither folder may hide the other",
        ),
        (storage(lustre={"mount": "/mnt"}), "oci.storage.lustre.mount is /mnt, but the nodes have their own folder /mnt/"),
        (
            storage(lustre={"mount": "/home"}),
            f"oci.storage.lustre.mount is /home, which overlaps {KEYS}; mount this file system elsewhere",
        ),
        (
            storage(home={"mount": "/home/opc"}),
            f"oci.storage.home.mount is /home/opc, which overlaps {KEYS}; mount this file system at /home, or elsewhere",
        ),
    ],
}


@pytest.mark.parametrize(
    ("name", "changes", "sentence"),
    [(name, *case) for name, cases in CASES.items() for case in cases],
    ids=[f"{name}-{n}" for name, cases in CASES.items() for n, _ in enumerate(cases)],
)
def test_a_broken_rule_is_reported_with_its_name_and_path(name, changes, sentence):
    said = refused(oci=changes)
    found = [one for one in said if one.endswith(f"[{name}]")]
    assert any(one.startswith(sentence) for one in found), said


PUBLIC, PRIVATE = "ocid1.subnet.oc1..public", "ocid1.subnet.oc1..private"
OWN = {"network": {"existing": {"publicSubnet": PUBLIC, "privateSubnet": PRIVATE}}}
AT = "oci.network.existing"
BLOCK, SLURMS = "whose security lists block TCP", "6820-6829 (slurmctld), 60001-63000 (srun)"
BESIDE = "login nodes and controller reach each other on these ports: open them, or set"


def rule_of(peer: str, protocol: str = "all", port: int | None = None, *, out: bool = False) -> SecurityRule:
    return SecurityRule(out, protocol, (port, port) if port else None, peer)


OUT, SSH = rule_of("0.0.0.0/0", out=True), rule_of("198.51.100.0/24", "6", 22)
PUBLIC_SUBNET = Subnet("vcn", "", "10.9.0.0/24", 250, "public.x", True, "ocid1.internetgateway.oc1..a", (SSH, OUT))
PRIVATE_SUBNET = Subnet(
    *("vcn", "", "10.9.1.0/24", 250, "private.x", False, "ocid1.natgateway.oc1..a"),
    (rule_of("10.9.0.0/16"), OUT),
)


def own(name: str, **changes: Any) -> Facts:
    """Return the account's facts, in which the existing subnet `name` is changed."""
    found = facts().subnets
    return facts(subnets=found | {name: replace(found[name], **changes)})


def facts(**changes: Any) -> Facts:
    shapes = {"BM.GPU4.8": OfferedShape(8, ("gpu4-count",)), "BM.GPU.H100.8": OfferedShape(8, ("h100-count",))}
    good: dict[str, Any] = {
        "domains": ("AD-1", "AD-2"),
        "shapes": {"AD-1": shapes, "AD-2": {}},
        "images": {IMAGE: Image("Oracle Linux", "8.10", frozenset({"BM.GPU4.8"}))},
        "available": {"gpu4-count": 16},
        "running": {"gpu": 0},
        "subnets": {PUBLIC: PUBLIC_SUBNET, PRIVATE: PRIVATE_SUBNET},
        "region": "us-phoenix-1",
        "home_region": "us-phoenix-1",
    }
    return Facts(**good | changes)


SHAPES = facts().shapes["AD-1"]
OLDEST = "oci.pools[0] asks for fewer nodes than run now; the vendor terminates the oldest nodes first"
UNPRICED = " (price unknown)"
OTHERS = (
    "oci.pools[0] needs new machines, because its shape, image, boot volume, file systems, subnet, container runtime or "
    "clusterNetwork changed"
)
#: Rule -> its cases: changes to the stack, the account's facts, and the beginning of the sentence.
ASKED: dict[str, list[tuple[dict[str, Any], Facts, str]]] = {
    "domain": [
        (
            {},
            facts(shapes={"AD-1": SHAPES, "AD-2": SHAPES}),
            "oci.availabilityDomain is not set, and BM.GPU4.8 is offered in AD-1, AD-2",
        ),
        ({}, facts(shapes={}), "oci.availabilityDomain is not set, and BM.GPU4.8 is offered in none of AD-1, AD-2"),
        ({"availabilityDomain": "AD-9"}, facts(), "oci.availabilityDomain is 'AD-9', but this tenancy's region has AD-1, AD-2"),
    ],
    "shape-offered": [
        (
            {"availabilityDomain": "AD-2"},
            facts(),
            "oci.pools[0].shape is BM.GPU4.8, and AD-2 does not offer BM.GPU4.8; it offers no bare",
        ),
        (
            {},
            facts(shapes={"AD-1": {"BM.GPU4.8": OfferedShape(4, ())}}),
            "oci.pools[0].shape is BM.GPU4.8, which has 4 GPUs according to the account and 8 according to the catalogue",
        ),
    ],
    "login-image": [
        (
            {"login": {"image": DEFAULT}},
            facts(),
            "oci.login.image is not set, and this region has no platform image of ol9 that fits VM.Standard.E5.Flex",
        )
    ],
    "image-missing": [({}, facts(images={IMAGE: None}), f"oci.pools[0].image is {IMAGE}, which is not in this region")],
    "image-fits": [
        (pool(shape="BM.GPU.H100.8"), facts(), f"oci.pools[0].image is {IMAGE}, which does not fit shape BM.GPU.H100.8"),
        (
            {},
            facts(images={IMAGE: Image("Oracle Linux", "8.10", frozenset())}),
            f"oci.pools[0].image is {IMAGE}, which does not fit shape BM.GPU4.8; it fits none",
        ),
    ],
    "image-system": [
        (pool(imageFamily="ol9"), facts(), f"oci.pools[0].imageFamily is ol9, and image {IMAGE} is Oracle Linux 8.10")
    ],
    "slurm-fallback-domains": [
        (
            on_demand(fallbackDomains=["AD-9"]),
            facts(),
            "oci.pools[0].fallbackDomains has 'AD-9', but this tenancy's region has AD-1, AD-2",
        ),
        (
            on_demand(fallbackDomains=["AD-2"]),
            facts(),
            "oci.pools[0].fallbackDomains has AD-2, which does not offer BM.GPU4.8; leave it out",
        ),
        (
            on_demand(fallbackDomains=["AD-1"]),
            facts(),
            "oci.pools[0].fallbackDomains has AD-1 twice, or repeats the stack's availability domain, which is tried first",
        ),
    ],
    "existing-place": [
        (
            on_demand(fallbackDomains=["AD-2"]) | OWN,
            own(PRIVATE, domain="AD-1"),
            f"{AT}.privateSubnet is {PRIVATE}, which is in AD-1, and oci.pools[0].fallbackDomains has other domains",
        ),
        (
            OWN,
            own(PUBLIC, vcn="other"),
            f"{AT}.privateSubnet is {PRIVATE}, which is in vcn, and publicSubnet is in other; name",
        ),
        (
            OWN,
            own(PRIVATE, domain="AD-2"),
            f"{AT}.privateSubnet is {PRIVATE}, which is in AD-2, and the machines are created in AD-1; name",
        ),
    ],
    "existing-dns": [(OWN, own(PRIVATE, dns=""), f"{AT}.privateSubnet is {PRIVATE}, which has no DNS label")],
    "existing-routes": [
        (OWN, own(PUBLIC, takes_public=False), f"{AT}.publicSubnet is {PUBLIC}, which prohibits public addresses; the login"),
        (
            OWN,
            own(PUBLIC, way_out="ocid1.natgateway.a"),
            f"{AT}.publicSubnet is {PUBLIC}, which sends 0.0.0.0/0 to ocid1.natgate",
        ),
        (OWN, own(PRIVATE, way_out=""), f"{AT}.privateSubnet is {PRIVATE}, which sends 0.0.0.0/0 to nothing; nodes have no"),
        (
            OWN,
            own(PRIVATE, way_out="ocid1.internetgateway.a"),
            f"{AT}.privateSubnet is {PRIVATE}, which sends 0.0.0.0/0 to ocid1",
        ),
        (
            OWN,
            own(PRIVATE, way_out=None),
            f"{AT}.privateSubnet is {PRIVATE}, which sends 0.0.0.0/0 to an unknown target, because",
        ),
    ],
    "existing-room": [
        (
            OWN,
            own(PRIVATE, free=1),
            f"{AT}.privateSubnet is {PRIVATE}, which has 1 free addresses, but the machines and file systems to",
        ),
        (
            OWN | storage(home={}),
            own(PRIVATE, free=4),
            f"{AT}.privateSubnet is {PRIVATE}, which has 4 free addresses, but the machines",
        ),
    ],
    "existing-reach": [
        (
            OWN,
            own(PUBLIC, rules=(OUT,)),
            f"oci.access.sshFrom[0] is 198.51.100.0/24, and the security lists of {PUBLIC} block SSH",
        ),
        (
            OWN,
            own(PUBLIC, rules=(SSH,)),
            f"{AT}.publicSubnet is {PUBLIC}, whose security lists block outgoing SSH to 10.9.1.0/24",
        ),
        (
            OWN,
            own(PRIVATE, rules=(rule_of("10.9.1.0/24"), OUT)),
            f"{AT}.privateSubnet is {PRIVATE}, whose security lists block SSH from 10.9.0.0/24",
        ),
        (
            OWN,
            own(PRIVATE, rules=(rule_of("10.9.0.0/16", "6"), OUT)),
            f"{AT}.privateSubnet is {PRIVATE}, whose security lists do not allow all traffic between its own machines",
        ),
        (
            OWN,
            own(PRIVATE, rules=(rule_of("10.9.0.0/16"), rule_of("10.9.0.0/16", out=True))),
            f"{AT}.privateSubnet is {PRIVATE}, whose security lists block outgoing HTTPS to 0.0.0.0/0",
        ),
        (
            OWN | pool(image="ubuntu2404-nv580", imageFamily=DEFAULT),
            own(
                PRIVATE,
                rules=(rule_of("10.9.0.0/16"), rule_of("10.9.0.0/16", out=True), rule_of("0.0.0.0/0", "6", 443, out=True)),
            ),
            f"{AT}.privateSubnet is {PRIVATE}, whose security lists block outgoing HTTP to 0.0.0.0/0; first boot fetches",
        ),
    ],
    "existing-slurm": [
        (
            OWN | on_demand() | {"slurm": {"users": True, "accounting": True}},
            facts(),
            f"{AT}.publicSubnet is {PUBLIC}, {BLOCK} {SLURMS}, 636 (directory of users), 6819 (slurmdbd) from 10.9.1.0/24",
        ),
        (
            OWN | on_demand(),
            own(PUBLIC, rules=(SSH, OUT, rule_of("10.9.1.0/24", "6", 6820))),
            f"{AT}.publicSubnet is {PUBLIC}, whose security lists block TCP 6820-6829 (slurmctld)",
        ),
        (
            OWN | on_demand(),
            own(PRIVATE, rules=(rule_of("10.9.1.0/24"), rule_of("10.9.0.0/24", "6", 22), OUT)),
            f"{AT}.privateSubnet is {PRIVATE}, whose security lists block TCP 6818 (slurmd) from 10.9.0.0/24;",
        ),
        (
            OWN | on_demand(),
            own(PRIVATE, rules=(rule_of("10.9.0.0/16"), rule_of("0.0.0.0/0", "6", 443, out=True))),
            f"{AT}.privateSubnet is {PRIVATE}, whose security lists block TCP 6820-6829 (slurmctld), 60001-63000 (srun) to",
        ),
        (
            OWN | on_demand() | {"slurm": {"loginNodes": 1}},
            own(PUBLIC, rules=(SSH, OUT, rule_of("10.9.1.0/24"))),
            f"{AT}.publicSubnet is {PUBLIC}, {BLOCK} 22 (SSH), {SLURMS} from 10.9.0.0/24; {BESIDE} oci.slurm.loginNodes to 0",
        ),
    ],
    "existing-home": [
        (
            OWN | on_demand(),
            own(PRIVATE, rules=(rule_of("10.9.1.0/24"), rule_of("10.9.0.0/24", "6", 6818), OUT)),
            f"{AT}.privateSubnet is {PRIVATE}, whose security lists block TCP 111, 2048-2050 from 10.9.0.0/24; login nodes",
        ),
        (
            OWN | on_demand(),
            own(PUBLIC, rules=(SSH, rule_of("10.9.1.0/24"), rule_of("0.0.0.0/0", "6", 443, out=True))),
            f"{AT}.publicSubnet is {PUBLIC}, whose security lists block TCP 111, 2048-2050 to 10.9.1.0/24; login nodes mount",
        ),
    ],
    "existing-open": [
        (
            OWN,
            own(PUBLIC, rules=(rule_of("0.0.0.0/0", "6", 22), OUT)),
            f"{AT}.publicSubnet is {PUBLIC}, whose security lists allow SSH from 0.0.0.0/0, the whole Internet",
        ),
        (
            OWN,
            own(PUBLIC, rules=(rule_of("0.0.0.0/0"), rule_of("::/0", "6", 22), OUT)),
            f"{AT}.publicSubnet is {PUBLIC}, whose security lists allow SSH from 0.0.0.0/0 and ::/0, the whole Internet",
        ),
    ],
    "limit": [
        (
            pool(nodes=4),
            facts(running={"gpu": 1}),
            "oci.pools[0].nodes is 4; 3 more nodes need 24 GPUs of the limit gpu4-count",
        ),
    ],
    "machines-end": [
        (
            {},
            facts(running={"gpu": 2}, made={"gpu": "other"}),
            f"{OTHERS}: 2 running nodes would be terminated{UNPRICED}; to allow this, set oci.allowReplace to 2 (it is 0)",
        ),
        (
            {"allowReplace": 1},
            facts(running={"gpu": 4}),
            f"{OLDEST}: 2 running nodes would be terminated{UNPRICED}; to",
        ),
        (
            {"availabilityDomain": "AD-2"},
            facts(shapes={"AD-1": SHAPES, "AD-2": SHAPES}, running={"gpu": 2}, placed={"gpu": "AD-1"}),
            "oci.pools[0] needs new machines in AD-2, because its machines run in AD-1: 2 running nodes would be terminated",
        ),
        (
            {},
            facts(shapes={"AD-1": {}, "AD-2": SHAPES}, running={"gpu": 2}, placed={"gpu": "AD-1"}),
            "oci.pools[0] needs new machines in AD-2, because its machines run in AD-1: 2 running nodes would be terminated",
        ),
        (
            {},
            facts(running={"gpu": 3}, oldest={"gpu": ("inst-a", "inst-b", "inst-c")}),
            f"{OLDEST}: 1 running nodes would be terminated{UNPRICED}: inst-a;",
        ),
        (
            {},
            facts(strays={"busbar-old": 3}),
            "oci.pools has no pool for busbar-old any more: 3 running nodes would be terminated; to allow this, set",
        ),
        (
            {},
            facts(running={"gpu": 2}, made={"gpu": "BM.GPU.H100.8:what runs, whose price it is"}),
            f"{OTHERS}: 2 running nodes would be terminated (160 USD an hour by list price)",
        ),
    ],
    "machines-ending": [
        (
            {"allowReplace": 2},
            facts(running={"gpu": 2}, made={"gpu": "other"}),
            f"{OTHERS}: 2 running nodes would be terminated{UNPRICED}.",
        )
    ],
    "image-import": [
        (
            {"pools": [{"image": "ubuntu2404-nv580", "imageFamily": DEFAULT}]},
            facts(running={"gpu": 0}),
            "oci.pools[0].image is ubuntu2404-nv580, which the first update imports into the compartment as Canonical",
        )
    ],
    "enroot-unchecked": [
        (
            on_demand() | {"slurm": {"containers": {}}},
            facts(),
            "oci.slurm.containers.enrootSha256 is not set: where an image has no enroot, machines install GitHub's",
        )
    ],
    "slurm-home-region": [
        (
            on_demand() | {"slurm": {}},
            facts(home_region="us-ashburn-1"),
            "oci.slurm is set, but the stack's region is us-phoenix-1 and the tenancy's home region is us-ashburn-1; OCI",
        )
    ],
    "limit-unknown": [
        ({}, facts(available={"gpu4-count": None}), "oci.pools[0].nodes is 2, and the service does not report what is left of")
    ],
}


def wanted(**changes: Any) -> Oci:
    found = parsed(oci=changes).wanted
    assert isinstance(found, Oci)
    return found


@pytest.mark.parametrize(
    ("name", "changes", "said", "sentence"),
    [(name, *case) for name, cases in ASKED.items() for case in cases],
    ids=[f"{name}-{n}" for name, cases in ASKED.items() for n, _ in enumerate(cases)],
)
def test_each_rule_that_is_judged_with_the_accounts_facts_reports_its_breach_with_the_path(name, changes, said, sentence):
    found = check(RULES, wanted(**changes), said)
    (mine, *_) = [one for one in found if one.rule == name and one.sentence.startswith(sentence)] or [
        one for one in found if one.rule == name
    ]
    assert mine.severity == (
        WARNING if name in {"image-import", "limit-unknown", "machines-ending", "enroot-unchecked"} else ERROR
    )
    assert mine.sentence.startswith(sentence)
    assert begins_with_a_path(mine.sentence)


def test_a_limit_applies_to_the_sum_of_new_nodes_of_several_pools():
    both = parsed(oci={"pools": [{}, {"name": "more", "nodes": 2}]}, measure={"pool": "gpu"}).wanted
    assert isinstance(both, Oci)
    assert [one for one in check(RULES, both, facts(running={"gpu": 0, "more": 2})) if one.rule == "limit"] == []
    (mine,) = [one.sentence for one in check(RULES, both, facts(running={"gpu": 0, "more": 0})) if one.rule == "limit"]
    assert mine.startswith(
        "oci.pools[1].nodes is 2; 2 more nodes need 16 GPUs, besides the 16 for earlier pools, of the limit gpu4-count in"
    )


def test_an_unknown_limit_is_reported_only_for_a_pool_that_needs_more_nodes():
    def said(running: int) -> list[str]:
        found = check(RULES, wanted(), facts(available={"gpu4-count": None}, running={"gpu": running}))
        return [one.path for one in found if one.rule == "limit-unknown"]

    assert (said(1), said(2), said(3)) == (["oci.pools[0].nodes"], [], [])


def test_an_import_of_an_image_is_announced_once_for_all_pools_and_not_for_pools_with_running_nodes():
    image = {"image": "ubuntu2404-nv580", "imageFamily": DEFAULT}
    both = parsed(oci={"pools": [image, {"name": "more", "nodes": 2, **image}]}, measure={"pool": "gpu"}).wanted
    assert isinstance(both, Oci)

    def said(**running: int) -> list[str]:
        return [one.path for one in check(RULES, both, facts(running=running)) if one.rule == "image-import"]

    assert said(gpu=0, more=0) == ["oci.pools[0].image"]
    assert said(gpu=2, more=0) == ["oci.pools[1].image"]
    assert said(gpu=2, more=2) == []


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"availabilityDomain": "AD-2"}, {"placed": {"gpu": "AD-1"}}),
        (pool(shape="BM.GPU.H100.8"), {"made": {"gpu": "BM.GPU4.8:0123"}, "available": {"h100-count": 8}}),
    ],
    ids=["another domain", "another shape"],
)
def test_if_a_pools_domain_or_shape_changes_its_nodes_count_against_the_limit_as_new_nodes_do(changes, found):
    asked = {"shapes": {"AD-1": SHAPES, "AD-2": SHAPES} if "placed" in found else {"AD-1": SHAPES}, "running": {"gpu": 2}}
    rules = check(RULES, wanted(**changes), facts(**asked | {"available": {"gpu4-count": 8}} | found))
    (said,) = [one.sentence for one in rules if one.rule == "limit"]
    assert said.startswith("oci.pools[0].nodes is 2; 2 more nodes need 16 GPUs of the limit ")
    staying = facts(running={"gpu": 2}, placed={"gpu": "AD-1"}, available={"gpu4-count": 0})
    assert "limit" not in {one.rule for one in check(RULES, wanted(), staying)}


def test_as_many_and_as_long_tags_as_the_vendor_takes_break_no_rule():
    tags = {"k" * 100: "v" * 256, "!~": ""} | {f"key-{at}": "x y." for at in range(4)}
    assert not [one for one in check(RULES, wanted(tags=tags), facts()) if one.rule.startswith("tag-")]


def test_every_rule_is_broken_by_a_case():
    assert set(CASES) | set(ASKED) == set(RULES)


def test_no_rule_is_broken_if_the_account_has_all_that_is_needed_and_only_notes_appear_without_a_query():
    assert check(RULES, wanted(), facts()) == check(RULES, wanted(**OWN), facts()) == ()
    notes = check(RULES, wanted(login={"image": DEFAULT}, **OWN), Facts())
    assert {one.severity for one in notes} == {NOTE}
    # The six rules listed below have no note: image-import needs no account, and the other five apply only to stacks with
    # Slurm. subnet-room has a note here, because it needs the account if a stack uses existing subnets, as this stack does.
    assert {one.rule for one in notes} - {"subnet-room"} == set(ASKED) - {
        "image-import",
        "enroot-unchecked",
        "slurm-fallback-domains",
        "slurm-home-region",
        "existing-slurm",
        "existing-home",
    }


def test_security_lists_that_admit_slurms_ports_break_no_rule_but_lists_that_were_not_queried_are_noted():
    beside = OWN | on_demand() | {"slurm": {"loginNodes": 2, "users": True}}
    ranges = [(22, 22), (636, 636), (6820, 6829), (60001, 63000)]
    calls = [SecurityRule(False, "6", ports, "10.9.0.0/16") for ports in ranges]
    found = check(RULES, wanted(**beside), own(PUBLIC, rules=(SSH, OUT, *calls)))
    assert "existing-slurm" not in {one.rule for one in found}
    halves = [SecurityRule(False, "6", ports, "10.9.0.0/16") for ports in ((60001, 61000), (61001, 63000))]
    found = check(RULES, wanted(**beside), own(PUBLIC, rules=(SSH, OUT, *calls[:-1], *halves)))
    assert "existing-slurm" not in {one.rule for one in found}
    notes = check(RULES, wanted(**beside), Facts())
    assert NOTE in {one.severity for one in notes if one.rule == "existing-slurm"}


@pytest.mark.parametrize("missing", [60001, 60002, 61001, 62999, 63000])
def test_security_lists_that_block_one_of_sruns_ports_are_refused(missing):
    beside = OWN | on_demand() | {"slurm": {"loginNodes": 2, "users": True}}
    ranges = [(22, 22), (636, 636), (6820, 6829), (50000, missing - 1), (missing + 1, 65000)]
    calls = [SecurityRule(False, "6", ports, "10.9.0.0/16") for ports in ranges]
    found = check(RULES, wanted(**beside), own(PUBLIC, rules=(SSH, OUT, *calls)))
    assert {one.sentence.partition("block ")[2].partition(" from")[0] for one in found if one.rule == "existing-slurm"} == {
        "TCP 60001-63000 (srun)"
    }


def test_fallback_domains_that_offer_the_shape_break_no_rule_and_cause_a_note_if_the_accounts_facts_are_unknown():
    several = on_demand(fallbackDomains=["AD-2"]) | {"availabilityDomain": "AD-1"}
    offered = facts(shapes={"AD-1": SHAPES, "AD-2": SHAPES})
    assert "slurm-fallback-domains" not in {one.rule for one in check(RULES, wanted(**several), offered)}
    notes = check(RULES, wanted(**several), Facts())
    assert NOTE in {one.severity for one in notes if one.rule == "slurm-fallback-domains"}


def test_a_pool_may_set_only_absolute_paths_of_its_software():
    (usual,) = wanted().pools
    (own,) = wanted(**pool(software={"mpi": ["/opt/openmpi-5.0.8"], "nccl": ["/opt/nccl"]})).pools
    assert own.homes == Homes(("/opt/openmpi-5.0.8",), usual.homes.cuda, ("/opt/nccl",))
    (said,) = refused(oci=pool(software={"mpi": ["openmpi"]}))
    assert said.startswith("oci.pools[0].software.mpi is openmpi; it must be a list of absolute paths or globs")


def test_a_subnets_range_decides_whether_it_has_room_and_without_a_query_there_is_only_a_note():
    many, judged = wanted(**OWN, **pool(nodes=300)), RULES["subnet-room"].findings
    assert [one.severity for one in judged(many, Facts())] == [NOTE]
    assert not list(judged(many, own(PRIVATE, cidr="10.9.0.0/20")))
    (found,) = judged(many, own(PRIVATE, cidr="10.9.0.0/24"))
    assert found.sentence.startswith(f"{AT}.privateSubnet is 10.9.0.0/24, which has room for 253 machines")


def test_a_growing_pool_and_an_unchanged_pool_terminate_no_node():
    same = facts(running={"gpu": 2}, made={"gpu": wanted().machines(wanted().pools[0])})
    assert check(RULES, wanted(), same) == ()
    assert not [one for one in check(RULES, wanted(**pool(nodes=3)), same) if one.rule.startswith("machines")]
    for keeps in ({"timezone": "Asia/Tokyo"}, {"tags": {"a": "b"}}, {"login": {"ocpus": 4}}):
        assert check(RULES, wanted(**keeps), same) == ()


def test_a_change_of_share_login_user_replaces_the_machines_of_a_pool():
    own, shared = (wanted(**on_demand() | {"storage": {"home": {"shareLoginUser": shared}}}) for shared in (False, True))
    assert own.machines(own.pools[0]) == wanted(**on_demand()).machines(own.pools[0])
    assert shared.machines(shared.pools[0]) != own.machines(own.pools[0])


def test_an_image_may_spell_its_operating_system_freely_but_must_name_the_operating_system():
    mine = facts(images={IMAGE: Image("oracle linux server", "8.10", frozenset({"BM.GPU4.8"}))})
    assert check(RULES, wanted(), mine) == ()
    unsaid = facts(images={IMAGE: Image("", "", frozenset({"BM.GPU4.8"}))})
    assert [one.rule for one in check(RULES, wanted(), unsaid)] == ["image-system"]


OLD = {"pools": [{"name": "gpu", "imageFamily": "ol7"}]}


def test_an_image_family_with_too_old_a_compiler_is_refused_if_its_pool_builds_nccl_tests_from_nvidias_archive(tmp_path):
    sentence = (
        "oci.pools[0].imageFamily is ol7, whose compiler is GCC 4.8, but nccl-tests since 2.16.9 needs GCC 5 or later (C++14); "
        "use ol8 or later. [image-compiler]"
    )
    assert refused(oci=OLD) == [sentence]
    (tmp_path / "own.tar").write_bytes(b"")
    parsed(oci=OLD, measure={"ncclTests": {"source": str(tmp_path / "own.tar")}})
    parsed(oci={"pools": [{"name": "gpu", "imageFamily": "ol7", "nodes": 0}]})
    two = [{"name": "gpu", "imageFamily": "ol7"}, {"name": "new", "shape": "BM.GPU4.8", "nodes": 2}]
    parsed(oci={"pools": two}, measure={"pool": "new"})
    assert refused(oci={"pools": two}, measure={"pool": "gpu"}) == [sentence]


@pytest.mark.parametrize("tier", [125, 250, 500, 1000])
def test_every_throughput_tier_of_lustre_that_oracle_sells_is_accepted(tier):
    assert parsed(oci=storage(lustre={"throughput": f"{tier} MB/s"}) | {"preflight": True})


def test_a_rule_can_be_suppressed_by_its_name_unless_the_rule_is_a_guard():
    assert parsed(oci=pool(root={"size": "100 GB"}) | {"suppress": ["boot-volume"]})
    (said,) = refused(oci={"suppress": ["boot-vloume"]})
    assert said.startswith("oci.suppress[0] is 'boot-vloume', which is no rule; did you mean boot-volume?")
    said = refused(oci=storage(home={"mount": "fss"}) | {"suppress": ["mount-points"]})
    assert said[0].startswith("oci.suppress[0] is 'mount-points', which cannot be suppressed")
    assert said[1].startswith("oci.storage.home.mount is fss")


def test_a_stack_that_does_not_set_storage_has_no_file_system():
    assert wanted().storage.systems == {}


def test_file_systems_on_oci_have_the_same_keys_as_on_aws():
    found = wanted(
        **storage(home={"mount": "/fss", "onDestroy": "retain"}, lustre={"throughput": "500 MB/s", "size": "62400 GB"})
    )
    assert found.storage.home == Home(mount="/fss", throughput_gbit_s=1, on_destroy="retain")
    assert found.storage.lustre == Lustre(size_gb=62_400, throughput_mb_s=500, mount="/lustre", on_destroy="refuse")


@pytest.mark.parametrize(
    "changes",
    [
        pool(root={"size": "200 GB"}),
        storage(home={"mount": "/home"}),
        storage(home={"mount": "/home/shared"}),
        storage(home={"mount": "/opt/shared"}),
        storage(home={"mount": "/mnt/fss"}),
        storage(home={"mount": "/data1"}, lustre={"mount": "/data10"}),
        storage(home={}) | network(private="10.0.1.0/29"),
        {"storage": {"home": {}}, "pools": [{"imageFamily": "ol9"}]},
    ],
)
def test_values_that_almost_break_a_rule_are_accepted(changes):
    assert parsed(oci=changes)


def test_the_whole_internet_is_admitted_if_allow_world_is_true():
    assert wanted(access={"sshFrom": ["0.0.0.0/0"], "allowWorld": True}).access.ssh_from == ("0.0.0.0/0",)


def test_pools_may_differ_in_shape():
    second = {"name": "h100", "shape": "BM.GPU.H100.8", "nodes": 0, "image": IMAGE}
    found = wanted(pools=[{}, second])
    assert [one.row.name for one in found.pools] == ["BM.GPU4.8", "BM.GPU.H100.8"]
    assert found.sizes == {"gpu": 2, "h100": 0}


def test_the_keys_mount_and_share_login_user_may_be_set_for_an_existing_file_system_on_oci():
    own = {"home": {"existing": {"mountTarget": "ocid1.mounttarget.oc1..a"}, "mount": "/home", "shareLoginUser": True}}
    said = refused(oci=on_demand() | {"storage": own})
    assert said, "a new network contains no file system"
    assert not [one for one in said if "shareLoginUser" in one or "mount is set" in one], said
