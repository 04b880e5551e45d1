"""The settings of a whole stack: the cluster of one target, and how it is measured, accepted, recorded and monitored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from config.accept import Accept
    from config.aws.model import Aws
    from config.hosts.model import Hosts
    from config.kubernetes.model import Kubernetes
    from config.measure import Measure
    from config.monitoring import Monitoring
    from config.oci.model import Oci
    from config.records import Records

Target = Literal["oci", "aws", "hosts", "kubernetes"]
TARGETS: tuple[str, ...] = get_args(Target)


@dataclass(frozen=True)
class Stack:
    """The settings of one stack.

    Attributes:
        target: kind of cluster.
        wanted: the target's group; together with `measure`, it is the argument of the target's cluster component.
        measure: how the cluster is measured.
        accept: when the measured cluster is accepted.
        records: which records of measurements are kept.
        monitoring: what can be monitored on the nodes and switches, and by whom.
    """

    target: Target
    wanted: Oci | Aws | Hosts | Kubernetes
    measure: Measure
    accept: Accept
    records: Records
    monitoring: Monitoring

    @property
    def rents(self) -> bool:
        """Whether the stack rents its machines, which then cost money until the stack is destroyed."""
        return self.target not in {"hosts", "kubernetes"}

    @property
    def pool(self) -> str:
        """Name of the pool that is measured; on AWS, the names of a queue and of its entry of machines, as QUEUE-NAME."""
        return self.wanted.measured(self.measure)

    @property
    def startable(self) -> dict[str, int]:
        """Number of machines in the test job, by the pool's name.

        A pool is listed only if it has no static machines and has enough dynamic machines for the test job.
        """
        return getattr(self.wanted, "startable", {})

    @property
    def sizes(self) -> dict[str, int]:
        """Number of static machines (on Kubernetes, of pods) in every pool, by the pool's name (on AWS, QUEUE-NAME)."""
        return self.wanted.sizes
