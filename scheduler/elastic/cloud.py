"""What a cloud must be able to do: start machines of a set, list those of the cluster, say where they are, and end some."""

from typing import Any, Callable, Dict, List, NamedTuple, Sequence, Tuple


class CloudError(Exception):
    """A call that the cloud refused.

    Attributes:
        code: the cloud's own word for it, such as UnauthorizedOperation.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class CapacityError(CloudError):
    """The cloud has no such machines at the moment, or the account's quota is used up."""


class BusyError(CloudError):
    """The call was throttled, or the service did not answer; the same call may succeed later."""


class Launch(NamedTuple):
    """Machines to start together.

    Attributes:
        token: unique to this launch. The cloud tags machines with it, and starts nothing twice for one token.
        node_set: key of the set.
        size: machines wanted; at least `least` of them, or none.
        spec: how the cloud starts a machine of the set, as it is in the programs' configuration.
        zone: one of `Cloud.zones`, where to start them.
        beside: token of an earlier launch, whose network the machines shall be in; empty for one of their own. They have that
            token then, or their own where there is no such network any more.
    """

    token: str
    node_set: str
    size: int
    least: int
    spec: Dict[str, Any]
    zone: str = ""
    beside: str = ""


class Machine(NamedTuple):
    """A machine of this cluster that runs or starts, or has ended recently.

    Attributes:
        token: of its launch.
        address: private IPv4 address; empty while it has none.
        ended: it runs no more, or is about to end.
        why: why it ended or cannot be used, as the cloud says; empty if the cloud does not say.
    """

    id: str
    token: str
    address: str
    ended: bool = False
    why: str = ""


class Listing(NamedTuple):
    """Machines, and launches that failed after the call had succeeded: token -> error."""

    machines: Sequence[Machine]
    failed: Dict[str, CloudError]


#: Run a Python program as the login user on machines at once -> what it printed, by id; without those that did not run it.
Ask = Callable[[str, Sequence[Machine]], Dict[str, str]]


class Cloud:
    """One cloud, as the credentials of this machine see it.

    Attributes:
        grows: whether each launch makes a network, which a later launch can be made a part of.
    """

    grows = False

    def zones(self, spec: Dict[str, Any]) -> Sequence[str]:
        """Return the places where a set may start, in the order in which they are tried; one without a name if there is one."""
        del spec
        return ("",)

    def launch(self, wanted: Launch) -> List[str]:
        """Start machines with one call, whatever their number; return their ids, or none if the cloud tells them later.

        Raises:
            CapacityError, BusyError, CloudError: nothing was started.
        """
        raise NotImplementedError

    def listing(self) -> Listing:
        """Return the cluster's dynamic machines; one call for each page of the answer."""
        raise NotImplementedError

    def places(self, machines: Sequence[Machine], ask: Ask) -> Dict[str, Tuple[str, ...]]:
        """Return where machines are, by id: names from the widest part of the network to the narrowest.

        Two machines are as near as their names agree from the left. One that the cloud knows nothing of yet is left out.

        Raises:
            CloudError: nothing is known.
        """
        raise NotImplementedError

    def closed(self, sets: Dict[str, Dict[str, Any]]) -> Dict[str, str]:
        """Return why nothing can be started of a set at this time, by key; `sets` are their `Launch.spec` by key.

        It is about capacity that is bought for some time only, and not about what there is at the moment. A reason has nothing
        in it that is different a minute later.

        Raises:
            CloudError: nothing is known.
        """
        del sets
        return {}

    def terminate(self, ids: Sequence[str]) -> None:
        """End machines; one that has ended already is no error."""
        raise NotImplementedError
