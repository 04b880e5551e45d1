"""Every rule of AWS by its name, and why the vendor's other checks do not apply here."""

from __future__ import annotations

from typing import Any

from config.aws import rules_capacity, rules_existing, rules_fabric, rules_machines, rules_profiles, rules_slurm, rules_storage
from config.aws.facts import Facts
from config.aws.model import Aws
from config.rule import Finding, Rule, check, collected

RULES = collected(rules_existing, rules_profiles, rules_fabric, rules_capacity, rules_machines, rules_slurm, rules_storage)


def findings(wanted: Aws, region: str | None) -> tuple[Finding, ...]:
    """Return what is wrong with the cluster without querying its account; `region` is that of the stack file's provider."""
    return check(RULES, wanted, Facts(region=region), wanted.suppress)


#: Rules of AWS about the whole stack.
STACK_RULES: dict[str, Rule[Any, None]] = {}
#: Of the 43 checks of aws-parallelcluster that this project counts, those that do not apply here.
HELD_ELSEWHERE: dict[int, str] = {
    3: "machines of one entry have one instance type; there is no list of alternatives",
    6: "all machines are in the one zone that is set",
    7: "every image family has EFA on every architecture of the catalogue, which a test holds",
    8: "no key asks for public addresses",
    10: "all machines are in the one zone that is set",
    19: "there is no list of alternatives; a reservation's id is launched by RunInstances, never by CreateFleet",
    23: "an allocation strategy is of a fleet; machines are launched one by one",
    28: "all nodes have the same groups",
    29: "file systems are made in the same VPC; where one that exists is, is judged when it is read",
    40: "slurm.conf keys cannot be handed in",
    42: "Slurm weights and memory sizes cannot be handed in",
}
