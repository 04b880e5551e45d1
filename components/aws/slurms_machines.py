"""Finds the machines that Slurm started for this stack."""

from __future__ import annotations

from components.aws.launch_inputs import STACK_TAG, slurms_stack
from components.aws.tagged_machines import tagged
from components.slurm.new_controller import STARTED, Started
from components.terminations import Ending
from config.aws.model import Aws


async def started_by_slurm(wanted: Aws) -> Started:
    """Return the machines that Slurm started, grouped by type, and separately the machines with an earlier `aws.name`.

    The provider's list of instances has neither types nor tags, so each type in the stack file needs a query.
    """
    its_stack = {STACK_TAG: slurms_stack()}
    every = {one.id: one.words for one in await tagged(its_stack)}
    if not every:
        return Started((), ())
    its_name = its_stack | {"busbar:cluster": wanted.name}
    rest = {one.id: one.words for one in await tagged(its_name)}
    renamed = tuple(words for its, words in every.items() if its not in rest)
    found = []
    for kind in sorted({machines.type for _, _, machines in wanted.located}):
        its = [one.id for one in await tagged(its_name, kind)]
        found.append(Ending(STARTED, kind, tuple(rest.pop(one) for one in its if one in rest), asked=False))
    return Started((*found, Ending(STARTED, "machines", tuple(rest.values()), asked=False)), renamed)
