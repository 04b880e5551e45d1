"""The state of `reconcile`, in one file that is replaced atomically: launches, machines to terminate, failed nodes, pauses.

The file is written before every call that starts or terminates machines, so that the file contains the intended call even if
`reconcile` is killed.
"""

import fcntl
import json
import os
import time
from contextlib import contextmanager
from typing import Any, Dict, Iterator, List, Optional

from scheduler import durable

_LOCK_POLL_S = 0.2

SCHEMA = 1


class UnreadableError(Exception):
    """The state's file exists but cannot be used; the text names the file, the reason and the remedy."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(
            f"{path} cannot be read, so no machine is started or terminated, and machines that run are billed: {why}. If the "
            f"file cannot be repaired, `sudo mv {path} {path}.unreadable` on the controller: then all machines of dynamic "
            "nodes are terminated, and Slurm requeues their jobs"
        )


class Batch:
    """One launch: machines of one set that one call starts.

    Attributes:
        group: key of the job. All batches of one job have the same key, and fail together. Empty if each node may start without
            the other nodes.
        nodes: names in Slurm; machines are assigned to these names in the order of the machines' ids.
        count: number of machines requested; it does not change when nodes are dropped, because a call must be repeated
            unchanged.
        asked_at: when Slurm asked for the nodes, Unix time.
        launched_at: when the cloud accepted the launch; None before.
        attempts, not_before: number of calls that were throttled or not answered, and when to call again.
        error: what the cloud said to the last of these calls.
        beside: token of the launch whose network the machines join; empty for a network of their own.
        refused: zones without capacity -> the cloud's message.
        machines, addresses: node -> id and private address.
        missing: node -> since when the cloud has not listed its machine.
        reached: nodes whose machine has booted, if machines are tested before they join.
        asked_entry_at, entered_at: when the test before joining was requested, and when the test ended. A launch with a single
            machine has no test: `entered_at` is then the time at which the machine had booted.
        joined, said: nodes that have munge's key and run slurmd; other nodes -> why they have not joined yet.
    """

    def __init__(self, token: str, node_set: str, group: str, nodes: List[str], asked_at: float) -> None:
        self.token, self.node_set, self.group, self.nodes, self.asked_at = token, node_set, group, nodes, asked_at
        self.launched_at: Optional[float] = None
        self.count, self.attempts, self.not_before, self.error = len(nodes), 0, 0.0, ""
        self.beside = ""
        self.refused: Dict[str, str] = {}
        self.machines: Dict[str, str] = {}
        self.joined: List[str] = []
        self.addresses: Dict[str, str] = {}
        self.said: Dict[str, str] = {}
        self.missing: Dict[str, float] = {}
        self.reached: List[str] = []
        self.asked_entry_at: Optional[float] = None
        self.entered_at: Optional[float] = None

    @property
    def network(self) -> str:
        """Token of the launch that created the machines' network."""
        return self.beside or self.token

    def drop(self, node: str) -> Optional[str]:
        """Remove a node; return the id of its machine."""
        self.nodes = [name for name in self.nodes if name != node]
        self.joined = [name for name in self.joined if name != node]
        for known in (self.said, self.addresses, self.missing):
            known.pop(node, None)
        return self.machines.pop(node, None)


class State:
    """Everything that `reconcile` remembers.

    Attributes:
        batches: by token.
        ending: ids of machines to terminate -> when that was decided; kept until the cloud does not list them as running.
        failed: node -> {reason, until, told}; the node is DOWN with that reason until the time `until`, or longer if Slurm
            has not been told the reason by that time.
        pauses: set -> {reason, until}; before the time `until`, no launch of the set starts, except a launch that joins an
            earlier network.
        shut: set whose capacity has not begun or has ended -> why; its nodes are also in `failed`.
        windows_at: when the cloud last reported which sets are shut.
        listed_at: when the cloud last listed the machines.
        repaired: silent static node -> time of the last attempt to repair it.
        unasked: node that Slurm shows as starting, but has not asked `reconcile` to start -> since when.
        comments: node -> comment that Slurm has not been given yet; `scontrol show node` shows it.
        places: id of a machine -> its place, as in `Cloud.places`; empty if the cloud does not report one.
        places_asked: id of a machine without a place -> when the cloud was last asked.
        placed_at: when Slurm was last given the places.
        topology: digest of the topology.conf that Slurm has read.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self.batches: Dict[str, Batch] = {}
        self.ending: Dict[str, float] = {}
        self.failed: Dict[str, Dict[str, Any]] = {}
        self.pauses: Dict[str, Dict[str, Any]] = {}
        self.shut: Dict[str, str] = {}
        self.windows_at = 0.0
        self.listed_at = 0.0
        self.repaired: Dict[str, float] = {}
        self.unasked: Dict[str, float] = {}
        self.comments: Dict[str, str] = {}
        self.places: Dict[str, List[str]] = {}
        self.places_asked: Dict[str, float] = {}
        self.placed_at = 0.0
        self.topology = ""

    @classmethod
    def load(cls, path: str) -> "State":
        """Return the state in `path`; an empty state if there is no such file.

        Raises:
            UnreadableError: the file cannot be read, or is not a state that these programs wrote.
        """
        state = cls(path)
        try:
            with open(path, encoding="utf-8") as source:
                given = json.load(source)
            if given.pop("schema") != SCHEMA:
                raise UnreadableError(path, "another version of these programs wrote it")
            for token, fields in given.pop("batches").items():
                batch = Batch(token, "", "", [], 0)
                batch.__dict__.update(fields)
                state.batches[token] = batch
        except FileNotFoundError:
            return state
        except (OSError, ValueError) as error:
            raise UnreadableError(path, str(error)) from error
        except (AttributeError, KeyError, TypeError) as error:
            raise UnreadableError(path, "it is not JSON that these programs wrote") from error
        state.__dict__.update(given)
        return state

    def save(self) -> None:
        """Replace the file; when this method returns, the new file survives a power failure."""
        given = {key: value for key, value in self.__dict__.items() if not key.startswith("_")}
        given.update(schema=SCHEMA, batches={token: batch.__dict__ for token, batch in self.batches.items()})
        durable.replace(self._path, json.dumps(given).encode())

    @property
    def machines(self) -> List[str]:
        """Ids of all machines in the state: the machines of launches, and the machines that must still be terminated."""
        return [*(its for batch in self.batches.values() for its in batch.machines.values()), *self.ending]

    def batch_of(self, node: str) -> Optional[Batch]:
        """Return the launch that a node belongs to."""
        return next((batch for batch in self.batches.values() if node in batch.nodes), None)


@contextmanager
def only_one(path: str, wait_s: float = 0) -> Iterator[bool]:
    """Yield whether this process has the lock, for which it waits up to `wait_s` seconds.

    The kernel releases the lock when its holder exits for any reason.
    """
    number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    end = time.monotonic() + wait_s
    try:
        while not _locked(number):
            if time.monotonic() > end:
                yield False
                return
            time.sleep(_LOCK_POLL_S)
        os.ftruncate(number, 0)
        os.write(number, f"{os.getpid()}\n".encode())
        yield True
    finally:
        os.close(number)


def _locked(number: int) -> bool:
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
