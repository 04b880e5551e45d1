"""The context of one run of `reconcile`. If a node fails, `sinfo -R` shows the reason, and the node's machine is terminated."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Callable, Dict, List, Optional, Sequence, Tuple

from scheduler import node_setup, slurm_conf
from scheduler.elastic.cloud import Ask, Cloud, CloudError
from scheduler.elastic.settings import Settings
from scheduler.elastic.slurm import Slurm
from scheduler.elastic.state import Batch, State

#: As in ParallelCluster: a set whose launch failed is not tried again for ten minutes, so that jobs can use another set.
PAUSE_S = 600
#: A node that lost its machine is DOWN for at least this time, so that Slurm requeues the node's job before the node gets a new
#: machine.
LOST_S = 60
_LONGEST_REASON = 240
#: A file with this name beside the spool folder means that the cluster is being destroyed, so nothing is started any more.
CLOSED = "closed"
#: How many machines are contacted at once, each over its own SSH connection.
_WINDOW = 32

#: Makes a machine a node: (node, id, address, addresses of all nodes by name) -> the reason if that failed, otherwise empty.
Join = Callable[[str, str, str, Dict[str, str]], str]


def worded(reason: str) -> str:
    """Return a reason in the form in which Slurm shows it."""
    return reason.replace("\n", " ").replace('"', "'")[:_LONGEST_REASON]


class Work:
    """One run of `reconcile`.

    Attributes:
        spool: folder of Slurm's requests.
        hosts: path of this machine's hosts file.
        reach: takes and returns what `join` takes and returns, but only checks whether the machine has booted.
        ask: runs a program on machines.
        unsaved: whether the state could not be saved, for example because the disk is full. Then this run starts no machine,
            because later runs would not know this machine. It still terminates machines.
        topology: path of Slurm's topology.conf; the file does not exist if Slurm does not use it.
        clock: returns Unix time.
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
        self.unsaved = False

    def save(self) -> bool:
        """Save the state; return whether that succeeded."""
        try:
            self.state.save()
        except OSError as error:
            self.unsaved = True
            self.say(f"the state could not be saved, so no machine is started, but machines still end: {error}")
            return False
        return True

    @property
    def closed(self) -> bool:
        """Whether the cluster is being destroyed, so that nothing is started any more."""
        return os.path.exists(os.path.join(os.path.dirname(self.spool), CLOSED))

    @property
    def addresses(self) -> Dict[str, str]:
        """The address of each dynamic node that has an address."""
        return {node: its for batch in self.state.batches.values() for node, its in batch.addresses.items()}

    def each(self, ask: Join, waiting: Sequence[Tuple[Batch, str]]) -> List[Tuple[Batch, str]]:
        """Call `ask` for the machine of each (launch, node), in parallel; return the pairs for which `ask` succeeded.

        If `ask` fails for a node, the reason is noted. If the reason is a failed first boot, the node fails.
        """
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
        """Remove a node from its launch and terminate its machine."""
        machine = batch.drop(node)
        if machine:
            self.state.ending[machine] = self.clock()
        if not batch.nodes:
            self.state.batches.pop(batch.token, None)

    def fail(self, nodes: List[str], reason: str, seconds: float) -> None:
        """Set nodes DOWN for `seconds` with a reason, and terminate their machines."""
        text = worded(reason)
        for node in nodes:
            self.state.failed[node] = {"reason": text, "until": self.clock() + seconds}
            batch = self.state.batch_of(node)
            if batch:
                self.end(batch, node)

    def fail_group(self, batch: Batch, reason: str, seconds: float) -> None:
        """Fail all nodes of a launch, and of the other launches for the same job."""
        whole = [one for one in self.state.batches.values() if one is batch or (batch.group and one.group == batch.group)]
        for one in whole:
            self.say(f"{one.node_set}: {len(one.nodes)} nodes do not start: {reason}")
            self.fail(list(one.nodes), reason, seconds)

    def pause(self, node_set: str, error: CloudError) -> str:
        """Start no node of a set for ten minutes; return the reason.

        During that time, nodes of the set that belong to no launch are DOWN with that reason. Nodes that join the network of an
        earlier launch are started nevertheless.
        """
        until = self.clock() + PAUSE_S
        at = time.strftime("%H:%M:%S", time.gmtime(until))
        reason = f"{error}; not tried again before {at} UTC"
        self.state.pauses[node_set] = {"reason": reason, "until": until}
        self.fail([node for node in self.settings.sets[node_set].nodes if not self.state.batch_of(node)], reason, PAUSE_S)
        return reason
