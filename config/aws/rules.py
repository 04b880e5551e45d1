"""All rules for clusters on AWS, by name, and the reasons why some checks of aws-parallelcluster do not apply here."""

from __future__ import annotations

from typing import Any

from config.aws import rules_capacity, rules_existing, rules_fabric, rules_machines, rules_profiles, rules_slurm, rules_storage
from config.aws.facts import Facts
from config.aws.model import Aws
from config.rule import Finding, Rule, check, collected

RULES = collected(rules_existing, rules_profiles, rules_fabric, rules_capacity, rules_machines, rules_slurm, rules_storage)


def findings(wanted: Aws, region: str | None) -> tuple[Finding, ...]:
    """Return what is wrong with the cluster, as far as that is visible without a query of the account.

    `region` is the provider's region; None if it is not set.
    """
    return check(RULES, wanted, Facts(region=region), wanted.suppress)


#: Rules that need other groups of the stack file besides `aws`: there are none.
STACK_RULES: dict[str, Rule[Any, None]] = {}
#: Which of the 43 checks of aws-parallelcluster do not apply here: number -> reason. The numbers are this project's own.
HELD_ELSEWHERE: dict[int, str] = {
    3: "machines of one entry have one instance type; there is no list of alternatives",
    6: "all machines are in one zone, which is set or chosen once",
    7: "every image family has EFA on every architecture of the catalogue, which a test checks",
    8: "no key of a stack file gives nodes public addresses",
    10: "all machines are in one zone, which is set or chosen once",
    19: "there is no list of alternatives; machines of a reservation are launched by RunInstances, never by CreateFleet",
    23: "an allocation strategy belongs to a fleet, but machines are launched one by one",
    28: "all nodes have the same security groups",
    29: "new file systems are in the stack's VPC; the VPC of an existing file system is checked when it is looked up",
    40: "no key of a stack file sets parameters of slurm.conf",
    42: "no key of a stack file sets Slurm's weights and memory sizes",
}
