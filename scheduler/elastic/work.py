"""What one run of `reconcile` works with, and how nodes fail: with a reason that `sinfo -R` shows, and without a machine."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Callable, Dict, List, Optional, Sequence, Tuple

from scheduler import node_setup, slurm_conf
from scheduler.elastic.cloud import Ask, Cloud, CloudError
from scheduler.elastic.settings import Settings
from scheduler.elastic.slurm import Slurm
from scheduler.elastic.state import Batch, State

#: As ParallelCluster: a set without capacity is left alone for ten minutes, so that jobs can use another set.
PAUSE_S = 600
#: How long a node that lost its machine stays DOWN at least, so that Slurm requeues its job before the name is used again.
LOST_S = 60
_LONGEST_REASON = 240
#: A file with this name beside the spool: the cluster is being destroyed, and nothing is started any more.
CLOSED = "closed"
#: Machines that are asked at once, each over an SSH connection of its own.
_WINDOW = 32

#: Make a machine a node: (node, id, address, addresses of all by name) -> why that did not work, empty if it did.
Join = Callable[[str, str, str, Dict[str, str]], str]


def worded(reason: str) -> str:
    """Return a reason as Slurm shows it."""
    return reason.replace("\n", " ").replace('"', "'")[:_LONGEST_REASON]


class Work:
    """One run.

    Attributes:
        spool: folder of what Slurm wants.
        hosts: this machine's hosts file.
        reach: as `join`, but it only finds out whether the machine has booted.
        ask: runs a program on machines.
        topology: Slurm's topology.conf; no such file if jobs are not placed by it.
        clock: Unix time.
        say: writes one line to the log.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - one run's surroundings
        self,
        settings: Settings,
        state: State,
        spool: str,
        slurm: Slurm,
        cloud: Cloud,
        join: Join,
        clock: Callable[[], float] = time.time,
        say: Callable[[str], None] = print,
        hosts: str = "/etc/hosts",
        reach: Optional[Join] = None,
        ask: Ask = lambda *_: {},
        topology: str = os.path.join(slurm_conf.CONF, "topology.conf"),
    ) -> None:
        self.hosts, self.reach, self.ask, self.topology = hosts, reach or join, ask, topology
        self.settings, self.state, self.spool = settings, state, spool
        self.slurm, self.cloud, self.join, self.clock, self.say = slurm, cloud, join, clock, say

    @property
    def closed(self) -> bool:
        """Whether the cluster is being destroyed, and nothing is started any more."""
        return os.path.exists(os.path.join(os.path.dirname(self.spool), CLOSED))

    @property
    def addresses(self) -> Dict[str, str]:
        """Addresses of all dynamic nodes that have one."""
        return {node: its for batch in self.state.batches.values() for node, its in batch.addresses.items()}

    def each(self, ask: Join, waiting: Sequence[Tuple[Batch, str]]) -> List[Tuple[Batch, str]]:
        """Ask machines of (launch, node) at once; return those that it worked for. The others say why, or fail for good."""
        if not waiting:
            return []
        others = self.addresses
        with ThreadPoolExecutor(max_workers=_WINDOW) as pool:
            whys = list(pool.map(lambda one: ask(one[1], one[0].machines[one[1]], others[one[1]], others), waiting))
        done = []
        for (batch, node), why in zip(waiting, whys):
            if why.startswith(node_setup.FIRST_BOOT_FAILED):
                self.fail([node], why, PAUSE_S)
            elif why:
                batch.said[node] = why
            else:
                done.append((batch, node))
        return done

    def end(self, batch: Batch, node: str) -> None:
        """Take a node out of its launch; its machine ends."""
        machine = batch.drop(node)
        if machine:
            self.state.ending[machine] = self.clock()
        if not batch.nodes:
            self.state.batches.pop(batch.token, None)

    def fail(self, nodes: List[str], reason: str, seconds: float) -> None:
        """Make nodes DOWN for `seconds` with a reason, and end their machines."""
        text = worded(reason)
        for node in nodes:
            self.state.failed[node] = {"reason": text, "until": self.clock() + seconds}
            batch = self.state.batch_of(node)
            if batch:
                self.end(batch, node)

    def fail_group(self, batch: Batch, reason: str, seconds: float) -> None:
        """Make all nodes of a launch fail, and of the other launches for the same job."""
        whole = [one for one in self.state.batches.values() if one is batch or (batch.group and one.group == batch.group)]
        for one in whole:
            self.say(f"{one.node_set}: {len(one.nodes)} nodes do not start: {reason}")
            self.fail(list(one.nodes), reason, seconds)

    def pause(self, node_set: str, error: CloudError) -> str:
        """Start nothing of a set for a while; return the reason, which all its nodes without a machine have until then."""
        until = self.clock() + PAUSE_S
        at = time.strftime("%H:%M:%S", time.gmtime(until))
        reason = f"{error}; not tried again before {at} UTC"
        self.state.pauses[node_set] = {"reason": reason, "until": until}
        self.fail([node for node in self.settings.sets[node_set].nodes if not self.state.batch_of(node)], reason, PAUSE_S)
        return reason
