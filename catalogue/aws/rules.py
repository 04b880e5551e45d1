"""All rules together: which there are, which of the vendor's set do not apply here and why, and what they say of an intent.

It deliberately stops nothing: the caller decides what an error does.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection

from catalogue.aws import capacity_rules, fabric_rules, machine_rules, storage_rules
from catalogue.aws.intent import AwsIntent
from catalogue.aws.rule import Finding, Rule

#: Every rule by its id.
RULES: dict[str, Rule] = {
    found.id: found
    for module in (fabric_rules, capacity_rules, machine_rules, storage_rules)
    for found in vars(module).values()
    if isinstance(found, Rule)
}

#: Of the 43 checks of aws-parallelcluster that this project counts, those that have nothing to judge here.
HELD_ELSEWHERE: dict[int, str] = {
    3: "a compute resource has one instance type; there is no list of alternatives",
    5: "security groups are made here, and the EFA group's rules to itself are tested where they are made",
    19: "there is no list of alternatives; a reservation's id is launched by RunInstances, never by CreateFleet",
    26: "all subnets are made in one VPC, whose DNS support and host names are always on",
    28: "all nodes have the same groups, made here",
    29: "file systems are made here, in the same VPC",
    30: "the storage group is made here, and its ports are tested where they are made",
    40: "nobody can hand in slurm.conf keys",
    42: "nobody can hand in Slurm weights or memory sizes",
}


def check(intent: AwsIntent, suppress: Collection[str] = ()) -> tuple[Finding, ...]:
    """Return what all rules but the suppressed ones find, errors and warnings and notes, in the rules' order.

    Raises:
        ValueError: `suppress` names a rule that does not exist.
    """
    for name in suppress:
        if name not in RULES:
            near = difflib.get_close_matches(name, RULES, n=1)
            hint = f"did you mean {near[0]}?" if near else f"rules are {', '.join(RULES)}."
            raise ValueError(f"suppress names {name!r}, which is no rule; {hint}")
    return tuple(finding for found in RULES.values() if found.id not in suppress for finding in found.findings(intent))
