"""Reads the configuration of the controller's programs: node sets, and how the cloud starts a machine of each set."""

import json
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from scheduler.cluster import dynamic_names

FOLDER = "/var/lib/busbar-slurm"
CONFIGURATION = "/etc/busbar/elastic.json"


class LaunchSet(NamedTuple):
    """A set's dynamic nodes.

    Attributes:
        start_timeout_s: two time limits of the same length: the cloud must accept a launch within the first one, and the
            launch's machines must be reached and join within the second one.
        spec: launch settings of a machine, for the cloud's module.
        entry_script: program on the machines that tests them in pairs before they join; empty for no test.
        entry_timeout_s: time limit of that test.
        always_on: how many of the nodes always run: the nodes with the lowest numbers.
    """

    queue: str
    name: str
    dynamic: int
    start_timeout_s: float
    spec: Dict[str, Any]
    entry_script: str = ""
    entry_timeout_s: float = 0
    always_on: int = 0

    @property
    def nodes(self) -> List[str]:
        """The nodes' names in Slurm."""
        return dynamic_names(self.queue, self.name, self.dynamic)

    @property
    def kept(self) -> List[str]:
        """Names of the nodes that always run."""
        return self.nodes[: self.always_on]

    def has(self, node: str) -> bool:
        """Whether the set has a node of that name; it is found without a list of all names, because runs call this often."""
        first, _, number = node.rpartition("-")
        own = self.dynamic and first == dynamic_names(self.queue, self.name, 1)[0].rpartition("-")[0]
        return bool(own) and number.isdigit() and str(int(number)) == number and 1 <= int(number) <= self.dynamic


class Settings(NamedTuple):
    """The programs' settings.

    Attributes:
        sets: by key, QUEUE/NAME.
        cloud: what the cloud's module reads, such as tags; the value `name` selects that module.
        join: how new machines are reached: host keys, user, the controller's key.
        static: each static node -> id of its machine, and its address.
        jobs: where the copy of Slurm's jobs is, as in `handover.Place`; None on a controller that an older busbar set up.
    """

    sets: Dict[str, LaunchSet]
    cloud: Dict[str, Any]
    join: Dict[str, Any]
    static: Dict[str, Tuple[str, str]]
    jobs: Optional[Dict[str, Any]] = None

    def set_of(self, node: str) -> str:
        """Return the key of a node's set; empty if the node is in no set."""
        return next((key for key, one in self.sets.items() if one.has(node)), "")


def load(path: str = CONFIGURATION) -> Settings:
    """Return the configuration that the update wrote."""
    with open(path, encoding="utf-8") as source:
        return read(json.load(source))


def read(given: Dict[str, Any]) -> Settings:
    """Return the settings in the content of the configuration file."""
    sets = {key: LaunchSet(**one) for key, one in given["sets"].items()}
    static = {node: (machine, address) for node, (machine, address) in given["static"].items()}
    return Settings(sets, given["cloud"], given["join"], static, given.get("jobs"))
