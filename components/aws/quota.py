"""Quotas and their use: Elastic IP addresses of a region, and vCPUs of a family of instance types.

The provider has no look-up for a quota's use (CloudWatch, AWS/Usage), so this module counts the machines of the catalogue's
types. The result is a lower bound, because the quota also counts machines of other types of the family, and reservations
without machines (EC2 user guide, "On-Demand Instance quotas").
"""

from __future__ import annotations

from pulumi_aws import ec2, servicequotas

from catalogue.aws.instances import BLOCK, INSTANCES, SPOT, family
from catalogue.aws.quotas import quota_name
from components.aws.account_lookups import ask, there
from config.aws.facts import ElasticIps
from config.aws.model import Aws, Machines

_ADDRESSES = "EC2-VPC Elastic IPs"
#: Filter patterns of the types that count towards each quota. The standard quota has too many types to look up.
_PATTERNS = {"p": ["p*"], "g": ["g*", "vt*"], "trn": ["trn*"], "hpc": ["hpc*"]}
_COUNTED = ["pending", "running"]


def limit(name: str) -> float:
    """Return the limit of the quota `name`: vCPUs, or addresses."""
    return ask(
        f'the quota "{name}"',
        "servicequotas/getServiceQuota:getServiceQuota",
        lambda: float(servicequotas.get_service_quota(service_code="ec2", quota_name=name).value),
    )


def used(one: Machines) -> int:
    """Return how many vCPUs of the quota for the machines `one` are in use in this region; the number is a lower bound."""
    patterns = _PATTERNS.get(family(one.type))
    if patterns is None:
        return 0
    # On-demand machines have no lifecycle to filter by.
    spot, others = _running(patterns, [SPOT]), _running(patterns, [BLOCK, "scheduled"])
    if not spot and (one.purchase.option == SPOT or not _running(patterns) - others):
        return 0
    vcpus = 0
    for row in INSTANCES.values():
        if quota_name(row.name, one.purchase.option) == one.quota:
            mine = _running([row.name])
            vcpus += row.vcpus * len(mine & spot if one.purchase.option == SPOT else mine - spot - others)
    return vcpus


def elastic_ips(wanted: Aws) -> dict[str, ElasticIps | None]:
    """Return three numbers of Elastic IP addresses: the quota, the account's addresses, and the addresses of this cluster.

    The key of the result is the region's name. The result is empty if the login node needs no Elastic IP address.
    """
    return {wanted.region: there(lambda: _elastic_ips(wanted))} if wanted.login.elastic_ip else {}


def _elastic_ips(wanted: Aws) -> ElasticIps:
    room = int(limit(_ADDRESSES))
    held = ask("the Elastic IP addresses", "ec2/getEips:getEips", lambda: len(ec2.get_eips().public_ips))
    tags = {"busbar:cluster": wanted.name}
    ours = ask("Elastic IP addresses of this cluster", "ec2/getEips:getEips", lambda: len(ec2.get_eips(tags=tags).public_ips))
    return ElasticIps(room, held, ours)


def _running(types: list[str], lifecycles: list[str] | None = None) -> set[str]:
    """Return the ids of all pending and running machines of `types`; if `lifecycles` is set, only of these lifecycles."""
    filters = [ec2.GetInstancesFilterArgs(name="instance-type", values=types)]
    if lifecycles:
        filters.append(ec2.GetInstancesFilterArgs(name="instance-lifecycle", values=lifecycles))
    found = ask(
        f"the machines of types {', '.join(types)} that run",
        "ec2/getInstances:getInstances",
        lambda: ec2.get_instances(filters=filters, instance_state_names=_COUNTED),
    )
    return set(found.ids)
