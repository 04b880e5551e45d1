"""Finds the running nodes, as the account reports them, and judges the nodes that an update would terminate.

Nodes are found by the tag with the stack's name. They are also found by their instance profile if only this stack uses the
profile, else by the tag with the cluster's name. Login nodes also have the tag with the cluster's name, and are left out. The
tags that a node got at launch then tell its pool. The source is the account and not the state, so that machines of an update
that failed halfway count, too. The provider's list of instances has no tags, so each tag needs a query. Nodes that start, stop
or are stopped count as running.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import NoReturn

import pulumi
from pulumi_aws import ec2

from components import terminations
from components.aws.compute import INDEX_TAG, MADE_TAG, POOL_TAG
from components.aws.launch_inputs import LOGIN_TAG, STACK_TAG
from components.aws.tagged_machines import ALIVE
from components.engine_state import this_stack
from components.report_findings import reason
from components.terminations import Ending
from config.aws.model import Aws
from scheduler.elastic.aws import TOKEN_TAG

_ALLOWED = "aws.allowReplace"
_REPLACED = (
    "the engine replaces them because of --replace or a change, or does not know them because a killed update created them "
    "(`python -m tools.take_in STACK` adds such a machine to the state)"
)

#: Private IPv4 address by instance id.
Machines = dict[str, str]
#: Filters of the API: name -> accepted values.
_Filters = pulumi.Output[dict[str, list[str]]]


@dataclass(frozen=True)
class Pool:
    """Running nodes of one pool.

    Attributes:
        every: all running nodes of the pool.
        same: the nodes of `every` whose launch settings are still those in the stack file.
        stay: the nodes of `same` whose index is still in the stack file.
        typed: the nodes of `every` whose type is still the type in the stack file.
    """

    every: Machines
    same: Machines
    stay: Machines
    typed: Machines


@dataclass(frozen=True)
class Running:
    """All running nodes of this stack, and the running nodes of each pool in the stack file."""

    everybody: Machines
    pools: Mapping[str, Pool]


def found(wanted: Aws, profile_arn: pulumi.Output[str] | None) -> pulumi.Output[Running]:
    """Return the running nodes; `profile_arn` is the profile that only this stack uses, None if other stacks may use it."""
    # The stack's tag is always searched, too: after a change of the profile, machines with the old profile must be found.
    ways: list[_Filters] = [pulumi.Output.from_input({f"tag:{STACK_TAG}": [this_stack()]})]
    if profile_arn is None:
        ways.append(pulumi.Output.from_input({"tag:busbar:cluster": [wanted.name]}))
    else:
        ways.append(profile_arn.apply(_with_profile, run_with_unknowns=True))
    # Two kinds of machines are not counted: Slurm's machines have the same profile or cluster tag, but Slurm terminates them;
    # login nodes have the same cluster tag, but are not nodes.
    keys = [*([TOKEN_TAG] if wanted.slurm else []), *([LOGIN_TAG] if profile_arn is None else [])]
    others = _having(pulumi.Output.from_input({"tag-key": keys})) if keys else pulumi.Output.from_input({})
    everybody = pulumi.Output.all(some=pulumi.Output.all(*map(_having, ways)), others=others).apply(
        lambda its: _less({name: at for one in its["some"] for name, at in one.items()}, its["others"])
    )
    pools = {}
    for _, key, one in wanted.located:
        mine, made_of = {f"tag:{POOL_TAG}": [key]}, {f"tag:{MADE_TAG}": [wanted.made_of(one)]}
        numbers = {f"tag:{INDEX_TAG}": [str(at) for at in one.numbers] or ["none"]}
        pools[key] = pulumi.Output.all(
            everybody=everybody,
            every=_having(pulumi.Output.from_input(mine)),
            same=_having(pulumi.Output.from_input(mine | made_of)),
            stay=_having(pulumi.Output.from_input(mine | made_of | numbers)),
            typed=_having(pulumi.Output.from_input(mine | {"instance-type": [one.type]})),
        ).apply(lambda its: Pool(*(_both(its[noun], its["everybody"]) for noun in ("every", "same", "stay", "typed"))))
    return pulumi.Output.all(everybody=everybody, pools=pulumi.Output.all(**pools)).apply(lambda its: Running(**its))


def _with_profile(arn: object) -> dict[str, list[str]]:
    """Return the filter by instance profile; at a preview a new profile has no ARN, and no machine uses it."""
    return {"iam-instance-profile.arn": [arn if isinstance(arn, str) else "none"]}


def judged(wanted: Aws, running: pulumi.Output[Running]) -> pulumi.Output[bool]:
    """Judge the nodes that an update with this stack file would terminate, and return True.

    Raises:
        pulumi.RunError: more nodes would be replaced than `allowReplace` allows.
    """
    return running.apply(lambda its: _judge(wanted, its))


def judge_replaced(wanted: Aws, running: pulumi.Output[Running], kept: Mapping[str, pulumi.Output[frozenset[str]]]) -> None:
    """Judge, at a preview, the nodes that the engine replaces although no change of the stack file requires this.

    `kept` has the ids of the nodes that stay, by pool. A preview knows these ids; without them, the program could not notice
    `--replace`.

    Raises:
        pulumi.RunError: more nodes would be replaced than `allowReplace` allows.
    """

    def judge(its: Running, kept: Mapping[str, frozenset[str]]) -> None:
        said = [_ending(key, one.type, _less(its.pools[key].stay, kept[key]), asked=False) for _, key, one in wanted.located]
        terminations.judge(_ALLOWED, wanted.allow_replace, said, _REPLACED)

    pulumi.Output.all(its=running, kept=pulumi.Output.all(**kept)).apply(lambda known: judge(**known))


def _having(filters: _Filters) -> pulumi.Output[Machines]:
    """Return the machines that match all of `filters` and are neither terminated nor terminating."""
    asked = filters.apply(lambda its: [ec2.GetInstancesFilterArgs(name=name, values=values) for name, values in its.items()])
    machines = ec2.get_instances_output(filters=asked, instance_state_names=list(ALIVE)).recover(_unseen)
    return pulumi.Output.all(ids=machines.ids, addresses=machines.private_ips).apply(
        lambda its: dict(zip(its["ids"], its["addresses"], strict=False))
    )


def _both(some: Machines, others: Container[str]) -> Machines:
    return {name: address for name, address in some.items() if name in others}


def _unseen(error: Exception) -> NoReturn:
    raise pulumi.RunError(
        f"the running nodes of this stack could not be looked up: {reason(error)}. The look-up needs the "
        "permission ec2:DescribeInstances; without it, nobody knows which machines an update would terminate."
    ) from None


def _judge(wanted: Aws, running: Running) -> bool:
    said = []
    strays = running.everybody
    for _, key, one in wanted.located:
        pool = running.pools[key]
        strays = _less(strays, pool.every)
        said.append(_ending(key, one.type, _less(pool.same, pool.stay), asked=True))
        changed = _less(pool.every, pool.same)
        said.append(_ending(key, one.type, _both(changed, pool.typed), asked=False))
        # The provider's answer has no types, and the price of the stack file's type is not the price of these machines.
        others = f"machines of another type than {one.type}"
        said.append(_ending(key, others, _less(changed, pool.typed), asked=False))
    said.append(_ending("no queue", "machines", strays, asked=False))
    terminations.judge(_ALLOWED, wanted.allow_replace, said)
    return True


def _less(some: Machines, others: Container[str]) -> Machines:
    return {name: address for name, address in some.items() if name not in others}


def _ending(pool: str, shape: str, machines: Machines, *, asked: bool) -> Ending:
    return Ending(pool, shape, tuple(f"{name} ({address})" for name, address in sorted(machines.items())), asked)
