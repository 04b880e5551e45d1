"""Rules for existing machines: every machine is named once, has a pinned host key, and a name that Slurm accepts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from config.hosts.model import Hosts
from config.rule import ERROR, Breach, Finding, Rule, check, rule
from scheduler import names

_NONE = "nothing is trusted on first use"


@rule("hosts-named", ERROR, "ranks start only on machines that the stack file lists", guard=True)
def hosts_named(wanted: Hosts, _facts: None) -> Iterator[Breach]:
    """No machines at all, machines in both `nodes` and `inventory`, or one machine listed twice."""
    if wanted.nodes and wanted.inventory:
        yield Breach("hosts.nodes", "is set, and so is hosts.inventory; name the machines in one of them")
    if not wanted.nodes and not wanted.inventory:
        yield Breach("hosts.nodes", "is empty, and hosts.inventory is not set; name at least one machine in one of them")
    seen: dict[str, str] = {}
    for machine in wanted.machines:
        for text in {machine.name, machine.address}:
            if text in seen:
                yield Breach(
                    "hosts.inventory" if wanted.inventory else "hosts.nodes",
                    f"has {text} twice; list every machine once",
                )
            seen[text] = machine.name


@rule("host-keys", ERROR, f"sshd(8), SSH_KNOWN_HOSTS FILE FORMAT; {_NONE}", guard=True)
def host_keys(wanted: Hosts, _facts: None) -> Iterator[Breach]:
    """A machine or a jump host without a pinned key."""
    jump = [wanted.jump_address] if wanted.jump_address else []
    for address in dict.fromkeys([*(machine.address for machine in wanted.machines), *jump]):
        try:
            wanted.host_key(address)
        except ValueError as error:
            yield Breach("hosts.knownHosts", str(error))


@rule("slurm-names", ERROR, "slurm.conf(5), NodeName and PartitionName", guard=True)
def slurm_names(wanted: Hosts, _facts: None) -> Iterator[Breach]:
    """A queue or a machine with a name that Slurm does not allow."""
    if wanted.slurm is None:
        return
    if why := wanted.slurm.why_not:
        yield Breach("hosts.slurm.queue", f"is {wanted.slurm.queue!r}; {why}")
    for machine in wanted.machines:
        if why := names.refused_node(machine.name):
            where = "hosts.inventory" if wanted.inventory else "hosts.nodes"
            yield Breach(where, f"has a machine named {machine.name}, but hosts.slurm is set; {why}")


RULES: dict[str, Rule[Hosts, None]] = {one.id: one for one in (hosts_named, host_keys, slurm_names)}


def findings(wanted: Hosts, _region: str | None) -> tuple[Finding, ...]:
    """Return what is wrong with the machines."""
    return check(RULES, wanted, None)


#: Rules that need other groups of the stack file besides `hosts`: there are none.
STACK_RULES: dict[str, Rule[Any, None]] = {}
