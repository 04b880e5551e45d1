"""The nodes that run already, as the account shows them, and which of them an update would end.

They are found by their instance profile, which this stack alone has, and by the tags that every node has had from its launch.
The account is asked and not the state: what an update that failed half way has left counts, too.
"""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
from pulumi_aws import ec2

from components import endings
from components.aws.compute import INDEX_TAG, MADE_TAG, POOL_TAG
from components.endings import Ending
from config.aws.model import Aws, Machines

_ALIVE = ["pending", "running", "stopping", "stopped"]


def judged(wanted: Aws, profile_arn: pulumi.Output[str]) -> pulumi.Output[bool]:
    """Return True once it is judged that the nodes which an update would end may end; unknown while there is no profile yet.

    Raises:
        pulumi.RunError: more of them would end than `allowReplace` allows.
    """
    everybody = _found(profile_arn, {})
    pools = [
        pulumi.Output.all(
            same=_found(profile_arn, {POOL_TAG: [key], MADE_TAG: [wanted.made_of(one)]}),
            kept=_found(
                profile_arn,
                {
                    POOL_TAG: [key],
                    MADE_TAG: [wanted.made_of(one)],
                    INDEX_TAG: [str(at) for at in range(one.static)] or ["none"],
                },
            ),
            all=_found(profile_arn, {POOL_TAG: [key]}),
        )
        for _, key, one in wanted.located
    ]
    return pulumi.Output.all(everybody, *pools).apply(lambda found: _judge(wanted, found[0], found[1:]))


def _found(profile_arn: pulumi.Output[str], tags: dict[str, list[str]]) -> pulumi.Output[dict[str, str]]:
    """Return private addresses by id of this stack's nodes that have these tags."""
    asked = {f"tag:{key}": values for key, values in tags.items()}
    filters = profile_arn.apply(
        lambda arn: [
            ec2.GetInstancesFilterArgs(name=name, values=values)
            for name, values in {"iam-instance-profile.arn": [arn], **asked}.items()
        ]
    )
    found = ec2.get_instances_output(filters=filters, instance_state_names=_ALIVE)
    return pulumi.Output.all(ids=found.ids, addresses=found.private_ips).apply(
        lambda its: dict(zip(its["ids"], its["addresses"], strict=False))
    )


def _judge(wanted: Aws, everybody: dict[str, str], pools: Sequence[dict[str, dict[str, str]]]) -> bool:
    said = []
    strays = dict(everybody)
    for (_, key, one), found in zip(wanted.located, pools, strict=True):
        strays = {name: address for name, address in strays.items() if name not in found["all"]}
        said.append(_ending(key, one, _less(found["same"], found["kept"]), asked=True))
        said.append(_ending(key, one, _less(found["all"], found["same"]), asked=False))
    if strays:
        named = tuple(f"{name} ({address})" for name, address in sorted(strays.items()))
        said.append(Ending("no queue", "machines", named, asked=False))
    endings.judge("aws.allowReplace", wanted.allow_replace, said)
    return True


def _less(some: dict[str, str], others: dict[str, str]) -> dict[str, str]:
    return {name: address for name, address in some.items() if name not in others}


def _ending(key: str, machines: Machines, found: dict[str, str], *, asked: bool) -> Ending:
    return Ending(key, machines.type, tuple(f"{name} ({address})" for name, address in sorted(found.items())), asked)
