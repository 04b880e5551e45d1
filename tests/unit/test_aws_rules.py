"""Every rule of AWS in scope: an intent that passes and one that is refused, with the sentence; and none was forgotten."""

from __future__ import annotations

from dataclasses import replace

import pytest

from catalogue.aws import (
    ERROR,
    MACHINE_IMAGES,
    NOTE,
    RULES,
    STACK,
    WARNING,
    AwsIntent,
    Compute,
    Facts,
    Image,
    Lustre,
    Machine,
    OpenZfs,
    Repository,
    Reservation,
    Stack,
    Volume,
    check,
)
from catalogue.aws.regions import OPENZFS_MBPS, OPENZFS_MISSING, default_openzfs
from catalogue.aws.rules import HELD_ELSEWHERE
from catalogue.containers import read
from catalogue.instances import INSTANCES

ZONE, OTHER = "ap-northeast-1a", "ap-northeast-1c"
GROUP = "arn:aws:resource-groups:ap-northeast-1:111122223333:group/pool"
RSA = "ssh-rsa AAAAB3NzaC1yc2E"


def machine(name: str, **changes) -> Machine:
    row = INSTANCES[name]
    return replace(Machine(row.usage, frozenset({"cluster"}), row.efa, row.cards), **changes)


ODCR = Reservation("cr-1", block=False, state="active", instance_type="p5.48xlarge", zone=ZONE, instances=8)
BLOCK = replace(ODCR, block=True)
FACTS = Facts(
    reservations={"cr-1": ODCR},
    groups={GROUP: (ODCR,)},
    zones=dict.fromkeys(("m5.8xlarge", "m7g.8xlarge", *INSTANCES), (ZONE, OTHER)),
    machines={name: machine(name) for name in INSTANCES},
    images={"ami-1": Image("x86_64", "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 22.04) 20260901", 75)},
    placement_groups={"mine": "cluster"},
    quota_vcpus=dict.fromkeys(INSTANCES, 3840.0),
)
GPU = Compute(queue="gpu", name="p5", instance_type="p5.48xlarge", static=2, zones=(ZONE,))
GOOD = AwsIntent(
    name="busbar",
    region="ap-northeast-1",
    zone=ZONE,
    image="ami-1",
    head_image="ami-1",
    operator_key="ssh-ed25519 AAAAC3NzaC1lZDI1NTE5",
    compute=(GPU,),
    lustre=Lustre(),
    home=OpenZfs(),
    tags={"team": "training"},
    facts=FACTS,
)


def nodes(**changes) -> AwsIntent:
    return replace(GOOD, compute=(replace(GPU, **changes),))


def reserved(held: Reservation, **changes) -> AwsIntent:
    facts = replace(FACTS, reservations={held.id: held}, groups={GROUP: (held,)})
    return replace(nodes(reservation=held.id, **{"capacity": "targeted-odcr", "placement": "none"} | changes), facts=facts)


def lustre(**changes) -> AwsIntent:
    return replace(GOOD, lustre=replace(GOOD.lustre, **changes))


def home(**changes) -> AwsIntent:
    return replace(GOOD, home=replace(GOOD.home, **changes))


def facts(**changes) -> AwsIntent:
    return replace(GOOD, facts=replace(FACTS, **changes))


def pooled(group: tuple[Reservation, ...] | None, **changes) -> AwsIntent:
    changed = {"reservation": GROUP, "capacity": "odcr-group", "placement": "none"} | changes
    return replace(nodes(**changed), facts=replace(FACTS, groups={GROUP: group}))


IN_MINE = replace(ODCR, placement_group="mine")
BIG = tuple(f"t{n}" for n in range(41))
#: id -> (an intent that passes, one that is refused, a part of the sentence).
CASES: dict[str, tuple[AwsIntent, AwsIntent, str]] = {
    "efa-unsupported": (
        nodes(instance_type="m5.xlarge", efa=False),
        nodes(instance_type="m5.xlarge"),
        "asks for EFA on m5.xlarge, which has none",
    ),
    "efa-off": (GOOD, nodes(efa=False), "turns EFA off on p5.48xlarge, which has 32 EFA devices"),
    "placement-undecided": (nodes(placement="", capacity="capacity-block"), nodes(placement=""), "has EFA and no placement"),
    "placement-off": (GOOD, nodes(placement="none"), "has EFA and placement none"),
    "efa-zones": (nodes(zones=(ZONE, OTHER), efa=False), nodes(zones=(ZONE, OTHER)), "EFA does not cross zones"),
    "efa-system": (GOOD, replace(GOOD, system="ol8"), "with image kind ol8; EFA's installer runs on ubuntu2204"),
    "public-address": (
        nodes(public_addresses=True, instance_type="m5.xlarge", efa=False),
        nodes(public_addresses=True),
        "EC2 gives one only to a machine with a single interface",
    ),
    "placement-strategy": (
        nodes(placement="existing", placement_group="mine"),
        nodes(instance_type="p6e-gb200.36xlarge", placement="managed"),
        "the type supports no group of strategy cluster",
    ),
    "placement-zones": (GOOD, nodes(zones=(ZONE, OTHER)), "a cluster placement group lies in one zone"),
    "placement-block": (
        nodes(capacity="capacity-block", placement="none"),
        nodes(capacity="capacity-block"),
        "placement managed with a Capacity Block",
    ),
    "placement-contradiction": (
        nodes(placement="existing", placement_group="mine"),
        nodes(placement_group="mine"),
        "only placement existing takes a name",
    ),
    "placement-missing": (
        nodes(placement="existing", placement_group="mine"),
        replace(nodes(placement="existing", placement_group="gone"), facts=replace(FACTS, placement_groups={"gone": None})),
        "ap-northeast-1 has none of that name",
    ),
    "zones-repeated": (
        replace(GOOD, second_zone=OTHER),
        replace(GOOD, second_zone=ZONE),
        "the second zone is ap-northeast-1a, like the first",
    ),
    "group-without-reservation": (
        reserved(IN_MINE, placement="existing", placement_group="mine"),
        reserved(ODCR, placement="existing", placement_group="mine"),
        "cr-1 was created in none",
    ),
    "group-beside-reservation": (
        reserved(ODCR),
        reserved(ODCR, placement="managed"),
        "a placement group of its own beside cr-1",
    ),
    "reservation-in-group": (
        reserved(IN_MINE, placement="existing", placement_group="mine"),
        reserved(IN_MINE),
        "cr-1 was created in placement group mine; say existing",
    ),
    "reservation-type": (
        reserved(ODCR),
        reserved(replace(ODCR, instance_type="p5en.48xlarge")),
        "is p5.48xlarge, and cr-1 reserves p5en.48xlarge",
    ),
    "reservation-zone": (reserved(ODCR), reserved(replace(ODCR, zone=OTHER)), f"cr-1 lies in {OTHER}"),
    "block-without-reservation": (
        nodes(capacity="capacity-block", reservation="cr-1"),
        nodes(capacity="capacity-block"),
        "blocks are never bought unasked",
    ),
    "block-reservation": (
        reserved(BLOCK, capacity="capacity-block"),
        reserved(ODCR, capacity="capacity-block"),
        "cr-1 is an on-demand reservation",
    ),
    "purchase-unconfirmed": (
        nodes(capacity="capacity-block", offering="cb-1", confirm_purchase="cb-1"),
        nodes(capacity="capacity-block", offering="cb-1"),
        "would buy Capacity Block cb-1, and confirmPurchase is ''",
    ),
    "reservation-size": (
        reserved(ODCR, static=6, dynamic=2),
        reserved(ODCR, static=6, dynamic=3),
        "may have 9 machines in cr-1, which holds 8",
    ),
    "reservation-pool": (pooled((ODCR,)), pooled(None), "no group of type AWS::EC2::CapacityReservationPool"),
    "block-counts": (
        nodes(capacity="capacity-block"),
        nodes(capacity="capacity-block", dynamic=1),
        "has 2 static and 1 dynamic machines of a Capacity Block",
    ),
    "usage-class": (
        nodes(capacity="spot"),
        nodes(instance_type="p6e-gb200.36xlarge"),
        "buys p6e-gb200.36xlarge as on-demand; it is sold as capacity-block",
    ),
    "allocation": (
        nodes(capacity="spot", allocation="capacity-optimized"),
        nodes(allocation="capacity-optimized"),
        "has allocation capacity-optimized for on-demand machines, which take lowest-price",
    ),
    "type-unknown": (GOOD, nodes(instance_type="p5.48xlrage"), "not in the catalogue; the nearest are p5.48xlarge"),
    "type-offered": (
        GOOD,
        facts(zones={"m5.8xlarge": (ZONE,), "p5.48xlarge": (OTHER,)}),
        f"does not offer it; it is in {OTHER}",
    ),
    "catalogue-current": (
        GOOD,
        facts(machines={"p5.48xlarge": machine("p5.48xlarge", efa=16)}),
        "the account says that p5.48xlarge has 16 EFA devices on 32 cards",
    ),
    "quota": (
        GOOD,
        facts(quota_vcpus={"p5.48xlarge": 192.0}),
        "takes 2 x 192 = 384 vCPUs, and the account's on-demand quota is 192",
    ),
    "addresses": (
        replace(nodes(static=200), private_prefix=24),
        replace(nodes(static=200, legacy_efa=True), private_prefix=24),
        "the machines take 6400 addresses, and a /24 has 219",
    ),
    "container-versions": (
        replace(GOOD, container=read(STACK.container)),
        replace(GOOD, container=read("docker://r.io#tests:efa1.28.0-ofi1.7.4-nccl2.18.5-1-tests2.13.8")),
        "container is docker://r.io#tests:efa1.28.0-ofi1.7.4-nccl2.18.5-1-tests2.13.8, and by its tag the EFA installer is 1",
    ),
    "container-file": (
        replace(GOOD, container=read("/fsx/images/tests.sqsh")),
        replace(GOOD, container=read("/opt/images/tests.sqsh")),
        "lies on no file system that the nodes share (/fsx, /home)",
    ),
    "architectures-differ": (GOOD, replace(GOOD, head_type="m7g.8xlarge"), "they must have one architecture"),
    "image-architecture": (
        GOOD,
        facts(images={"ami-1": replace(FACTS.images["ami-1"], architecture="arm64")}),
        "needs an image for x86_64, and ami-1 is for arm64",
    ),
    "image-system": (
        GOOD,
        facts(images={"ami-1": Image("x86_64", "Deep Learning AMI (Amazon Linux 2023)", 75)}),
        "has image kind ubuntu2204, and ami-1 is 'Deep Learning AMI (Amazon Linux 2023)'",
    ),
    "root-ratios": (
        replace(GOOD, root=Volume(512, 16000, 1000)),
        replace(GOOD, root=Volume(512, 3000, 1000)),
        "has 1000 MiB/s with 3000 IOPS",
    ),
    "root-size": (GOOD, replace(GOOD, root=Volume(50)), "a root volume of 50 GiB, and image ami-1 needs 75"),
    "open-modules": (
        replace(nodes(instance_type="p3dn.24xlarge"), open_modules=False),
        nodes(instance_type="p3dn.24xlarge"),
        "whose GPUs NVIDIA's open kernel modules do not drive",
    ),
    "not-nvidia": (GOOD, nodes(instance_type="trn1.32xlarge"), "which has Neuron devices; NCCL needs NVIDIA GPUs"),
    "names": (GOOD, nodes(queue="GPU"), "the queue 'GPU' must be lower-case letters"),
    "key-type": (
        replace(GOOD, operator_key=RSA, head_system="al2023"),
        replace(GOOD, operator_key=RSA),
        "make one of type ed25519",
    ),
    "key-missing": (GOOD, replace(GOOD, operator_key=""), "nobody can log in by SSH"),
    "tag-count": (
        nodes(tags=dict.fromkeys(BIG[:39], "x")),
        nodes(tags=dict.fromkeys(BIG[:40], "x")),
        "has 41 tags; a resource takes 40",
    ),
    "tag-overrides": (nodes(tags={"job": "x"}), nodes(tags={"team": "x"}), "sets tag team, which the cluster sets too"),
    "lustre-capacity": (
        lustre(capacity_gib=4800),
        lustre(capacity_gib=3600),
        "has 3600 GiB; it must be 1200 or a multiple of 2400",
    ),
    "lustre-throughput": (
        lustre(throughput=1000),
        lustre(throughput=200),
        "has 200 MB/s for each TiB; PERSISTENT_2 has 125, 250, 500, 1000",
    ),
    "lustre-efa": (
        lustre(efa=True, capacity_gib=9600, throughput=500),
        lustre(efa=True, capacity_gib=4800, throughput=500),
        "with EFA it must be a multiple of 9600 GiB",
    ),
    "repositories": (
        lustre(repositories=(Repository(path="/a"), Repository(path="/b"))),
        lustre(repositories=(Repository(path="/a"), Repository(path="/a/b"))),
        "the folders /a and /a/b both mirror S3 and overlap",
    ),
    "backups-of-mirror": (
        lustre(repositories=(Repository(),)),
        lustre(repositories=(Repository(),), backup_days=7),
        "one that mirrors S3 has none",
    ),
    "storage-zones": (
        replace(home(deployment="MULTI_AZ_1"), second_zone=OTHER),
        home(deployment="MULTI_AZ_1"),
        "is MULTI_AZ_1, which stands in two zones",
    ),
    "storage-far": (GOOD, nodes(zones=(OTHER,)), f"stands in {OTHER}, and its file systems in {ZONE}"),
    "mount-points": (lustre(mount="/data"), lustre(mount="/opt/slurm"), "mounted at /opt/slurm"),
    "mount-scratch": (GOOD, lustre(mount="/scratch/fast"), "where the machines' own disks are"),
    "destroy-undecided": (home(on_destroy="retain"), home(on_destroy="keep"), "it must be one of refuse, retain, delete"),
    "destroy-takes-data": (GOOD, lustre(on_destroy="delete"), "Lustre file system at /fsx has onDestroy delete"),
    "openzfs-type": (
        home(deployment="SINGLE_AZ_HA_2"),
        home(deployment="SINGLE_AZ_HA_1"),
        "is SINGLE_AZ_HA_1, which ap-northeast-1 does not offer; it has SINGLE_AZ_HA_2, MULTI_AZ_1",
    ),
    "openzfs-size": (home(mbps=320), home(mbps=512), "has 512 MB/s; SINGLE_AZ_HA_2 has 160, 320, 640"),
}


def texts(name: str, intent: AwsIntent) -> list[str]:
    return [found.text for found in RULES[name].findings(intent)]


def test_every_rule_has_its_cases():
    assert set(CASES) == set(RULES)


@pytest.mark.parametrize("name", CASES)
def test_what_a_rule_allows_passes(name):
    assert texts(name, CASES[name][0]) == []


@pytest.mark.parametrize("name", CASES)
def test_what_a_rule_forbids_is_found_in_one_sentence(name):
    (found, *_) = RULES[name].findings(CASES[name][1])
    assert CASES[name][2] in found.text
    assert found.severity == RULES[name].severity in {ERROR, WARNING}
    assert found.text.endswith(".")
    assert "\n" not in found.text


@pytest.mark.parametrize("name", CASES)
def test_a_suppressed_rule_says_nothing(name):
    assert name not in {found.rule for found in check(CASES[name][1], suppress=(name,))}


#: Other breaches of the same rules.
MORE = [
    (
        "placement-strategy",
        replace(nodes(placement="existing", placement_group="s"), facts=replace(FACTS, placement_groups={"s": "spread"})),
        "of strategy spread",
    ),
    ("placement-contradiction", nodes(placement="existing"), "names no group"),
    ("zones-repeated", nodes(zones=(ZONE, ZONE)), "each zone may be named once"),
    ("zones-repeated", nodes(zones=(ZONE, OTHER)), "stands in one zone"),
    ("group-beside-reservation", nodes(capacity="open-odcr"), "with open reservations"),
    ("block-without-reservation", nodes(capacity="targeted-odcr"), "give an id"),
    ("block-without-reservation", nodes(capacity="odcr-group"), "the ARN of a resource group"),
    ("block-without-reservation", nodes(reservation="cr-1"), "with capacity on-demand, which uses none"),
    ("block-without-reservation", nodes(capacity="rented"), "must be one of on-demand"),
    ("block-reservation", reserved(BLOCK), "cr-1 is a Capacity Block"),
    ("block-reservation", reserved(replace(ODCR, state="scheduled")), "which is scheduled"),
    ("purchase-unconfirmed", nodes(offering="cb-1", confirm_purchase="cb-1", reservation="cr-1"), "name one of them"),
    ("reservation-pool", pooled((replace(ODCR, zone=OTHER),)), "holds no reservation of p5.48xlarge"),
    ("block-counts", nodes(static=0), "has 0 static and 0 dynamic"),
    ("block-counts", nodes(static=-1), "neither is negative"),
    (
        "usage-class",
        replace(
            nodes(capacity="spot"),
            facts=replace(FACTS, machines={"p5.48xlarge": machine("p5.48xlarge", usage=frozenset({"on-demand"}))}),
        ),
        "this account sees it as on-demand",
    ),
    (
        "catalogue-current",
        facts(machines={"p5.48xlarge": machine("p5.48xlarge", strategies=frozenset({"spread"}))}),
        "takes no cluster placement group",
    ),
    ("allocation", nodes(capacity="capacity-block", allocation="lowest-price"), "none: a block stands where it stands"),
    ("type-offered", facts(zones={"m5.8xlarge": (ZONE,), "p5.48xlarge": ()}), "does not offer it at all"),
    ("image-system", replace(GOOD, system="ol8"), "it must be one of ubuntu2204, al2023"),
    ("root-ratios", replace(GOOD, head_root=Volume(8, 16000)), "has 16000 IOPS on 8 GiB"),
    ("root-ratios", replace(GOOD, root=Volume(8, 4001)), "has 4001 IOPS on 8 GiB"),
    ("root-ratios", replace(GOOD, root=Volume(500, 80_001)), "has 80001 IOPS on 500 GiB"),
    ("root-ratios", replace(GOOD, root=Volume(75, 3000, 751)), "has 751 MiB/s with 3000 IOPS"),
    ("root-ratios", replace(GOOD, root=Volume(75, 16000, 2001)), "has 2001 MiB/s with 16000 IOPS"),
    ("names", replace(GOOD, name="Busbar"), "the cluster's name is 'Busbar'"),
    ("names", nodes(queue="gpu-st-x"), "holds -st- or -dy-"),
    ("names", replace(GOOD, compute=(GPU, GPU)), "2 compute resources make the name gpu-p5"),
    ("names", nodes(queue="default"), "not 'default'"),
    ("lustre-efa", replace(lustre(efa=True, capacity_gib=4800, throughput=1000), compute=()), "nobody could use it"),
    (
        "repositories",
        lustre(repositories=tuple(Repository(path=f"/{n}") for n in range(9))),
        "mirrors 9 S3 locations; it takes 8",
    ),
    ("repositories", lustre(repositories=(Repository(path="data"),)), "must begin with a slash"),
    ("backups-of-mirror", home(backup_days=91), "it must be 0 to 90"),
    ("storage-zones", nodes(zones=(ZONE, OTHER)), "serves machines of one zone"),
    ("mount-points", lustre(mount="/home/fsx"), "neither may hide the other"),
    ("mount-points", lustre(mount="fsx"), "must be an absolute path"),
    ("openzfs-type", home(deployment="TWO_AZ"), "deployment types are SINGLE_AZ_1"),
    ("openzfs-size", home(capacity_gib=32), "must be 64 to 524288"),
]


@pytest.mark.parametrize(("name", "intent", "part"), MORE, ids=[f"{row[0]}-{n}" for n, row in enumerate(MORE)])
def test_the_other_ways_to_break_a_rule_are_found_too(name, intent, part):
    assert any(part in text for text in texts(name, intent))


def test_a_good_cluster_has_nothing_to_be_said_about():
    assert check(GOOD) == ()


@pytest.mark.parametrize(
    "volume",
    [Volume(8, 4000), Volume(160, 80_000), Volume(1, 3000), Volume(75, 3000, 750), Volume(75, 8000, 2000)],
)
def test_a_volume_may_have_all_that_its_size_and_its_operations_allow(volume):
    assert texts("root-ratios", replace(GOOD, root=volume, head_root=volume)) == []


def test_all_43_checks_of_the_vendors_own_tool_are_ruled_or_answered_for():
    ruled = {found.number for found in RULES.values()}
    assert not ruled & set(HELD_ELSEWHERE)
    assert (ruled | set(HELD_ELSEWHERE)) - {0} == set(range(1, 44))


def test_without_an_account_the_rules_that_need_one_say_so_and_find_no_breach():
    found = check(replace(GOOD, facts=Facts()))
    assert {each.severity for each in found} == {NOTE}
    assert {each.rule for each in found} == {
        "usage-class",
        "type-offered",
        "catalogue-current",
        "quota",
        "image-architecture",
        "image-system",
        "root-size",
    }
    assert all("no account was asked for" in each.text for each in found)


def test_a_reservation_that_nobody_looked_up_is_a_note_and_not_a_pass():
    found = check(replace(nodes(capacity="targeted-odcr", reservation="cr-9", placement="none"), facts=Facts()))
    assert {"reservation-type", "reservation-zone", "reservation-size", "block-reservation"} <= {
        each.rule for each in found if each.severity == NOTE
    }


def test_a_rule_that_does_not_exist_cannot_be_suppressed():
    with pytest.raises(ValueError, match=r"suppress names 'efa-of', which is no rule; did you mean efa-off\?"):
        check(GOOD, suppress=("efa-of",))


def test_the_seeds_own_defaults_are_refused_where_the_seed_would_fail():
    seed = replace(GOOD, home=OpenZfs(deployment="SINGLE_AZ_HA_1", mbps=512))
    assert {found.rule for found in check(seed)} == {"openzfs-type"}


@pytest.mark.parametrize("region", ["us-east-1", "ap-northeast-1", "eu-west-2", "ap-northeast-3", "sa-east-1", "xx-new-1"])
def test_the_default_file_system_for_home_exists_in_every_region(region):
    deployment = default_openzfs(region)
    assert region not in OPENZFS_MISSING.get(deployment, frozenset())
    assert OpenZfs().mbps in OPENZFS_MBPS[deployment]


def test_the_pinned_software_meets_the_minimums_of_every_type():
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
def test_software_that_cannot_carry_nccl_is_refused(stack, kind, part):
    assert part in stack.refusal(kind)


def test_every_kind_of_image_has_what_first_boot_and_the_build_need():
    for image in MACHINE_IMAGES.values():
        assert image.homes.mpi[0] == "/opt/amazon/openmpi"
        assert image.packages in {"apt", "dnf"}
        assert bool(image.release) == (image.packages == "apt")
