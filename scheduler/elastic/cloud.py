"""The calls that the controller's programs make to a cloud: zones, launch, listing, places, closed, adopt and terminate."""

from typing import Any, Callable, Collection, Dict, Generic, List, NamedTuple, Optional, Sequence, Tuple, TypeVar

T = TypeVar("T")
#: A machine's credentials are fetched again after this time. AWS replaces the credentials of a role at least five minutes
#: before they expire (EC2 user guide, "Retrieve security credentials from instance metadata"). OCI issues a new token at each
#: fetch.
_FRESH_S = 240


class CloudError(Exception):
    """A call failed.

    Attributes:
        code: the error code, usually the cloud's own, such as UnauthorizedOperation.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class CapacityError(CloudError):
    """The cloud has no capacity for the requested machines at the moment, or the account's quota is used up."""


class BusyError(CloudError):
    """The call was throttled, the service did not answer, or an earlier change has not finished; the call may succeed later."""


class Renewed(Generic[T]):
    """This machine's credentials: `fetch` gets them, at first and whenever they could soon expire."""

    def __init__(self, fetch: Callable[[], T], clock: Callable[[], float]) -> None:
        self._fetch, self._clock = fetch, clock
        self._found: Optional[Tuple[float, T]] = None

    def get(self) -> T:
        """Return credentials that are valid for at least another minute."""
        now = self._clock()
        if self._found is None or now - self._found[0] > _FRESH_S:
            self._found = now, self._fetch()
        return self._found[1]


class Launch(NamedTuple):
    """Machines to start together.

    Attributes:
        token: text unique to this launch. The machines are tagged with the token, unless they join an earlier launch's network
            (`beside`). The cloud starts nothing twice for one token.
        node_set: key of the set.
        size: how many machines are wanted.
        least: how many must start; if the cloud cannot start that many, it starts none.
        spec: what the cloud needs to start a machine of the set, from the controller's settings.
        zone: where to start the machines, one of `Cloud.zones`.
        beside: token of an earlier launch, whose network the machines join; empty for a network of their own. Machines that
            join are tagged with the earlier token. If that network has no machines any more, the machines of this launch get a
            new network and are tagged with this launch's token.
    """

    token: str
    node_set: str
    size: int
    least: int
    spec: Dict[str, Any]
    zone: str = ""
    beside: str = ""


class Machine(NamedTuple):
    """A machine of this cluster that is starting, is running, or was terminated recently.

    Attributes:
        id: the cloud's id of the machine.
        token: the token with which the machine is tagged. It is the token of the launch that started the machine, or of the
            earlier launch whose network the machine joined.
        address: private IPv4 address; empty while the machine has none.
        ended: whether the machine was terminated or is about to be terminated. On AWS this is also true of a machine
            that has stopped or is about to stop; on OCI a stopped machine counts as running.
        why: the cloud's reason for the machine's last change of state; empty if the cloud gives none.
        stopped: whether the machine has ended, but still has to be terminated: a stopped machine keeps its volumes and its
            address.
    """

    id: str
    token: str
    address: str
    ended: bool = False
    why: str = ""
    stopped: bool = False

    @property
    def costs(self) -> bool:
        """Whether the machine must still be terminated."""
        return self.stopped or not self.ended


class Listing(NamedTuple):
    """The machines, and the launches that failed after the cloud had accepted the call.

    Attributes:
        machines: the cluster's dynamic machines.
        failed: why a launch failed, by token.
        starting: tokens of accepted launches for which the cloud lists no machine yet.
    """

    machines: Sequence[Machine]
    failed: Dict[str, CloudError]
    starting: Sequence[str] = ()


#: Runs a Python program on machines, in parallel, as the login user -> output by machine id; failed machines are left out.
Ask = Callable[[str, Sequence[Machine]], Dict[str, str]]


class Cloud:
    """One cloud, called with the credentials of this machine.

    Attributes:
        grows: whether each launch makes a network of its own, which later launches can join (`Launch.beside`).
    """

    grows = False

    def zones(self, spec: Dict[str, Any]) -> Sequence[str]:
        """Return the zones where a set may start, in the order to try; one zone with an empty name if there is no choice."""
        del spec
        return ("",)

    def launch(self, wanted: Launch) -> List[str]:
        """Start at least `least` machines of a launch, or no machine; return the ids (empty if only `listing` knows the ids).

        Raises:
            BusyError: the machines may have been started; call again with the same token.
            CapacityError, CloudError: this call started nothing; an earlier call with the same token may have
                started machines.
        """
        raise NotImplementedError

    def listing(self) -> Listing:
        """Return the cluster's dynamic machines, and the launches that failed."""
        raise NotImplementedError

    def places(self, machines: Sequence[Machine], ask: Ask) -> Dict[str, Tuple[str, ...]]:
        """Return where machines are in the network, by machine id: names of the network's parts, the widest first.

        The more names two machines have in common, counted from the first, the nearer they are. Machines whose place the cloud
        does not know yet are left out.

        Raises:
            CloudError: the call failed.
        """
        raise NotImplementedError

    def closed(self, sets: Dict[str, Dict[str, Any]]) -> Dict[str, str]:
        """Return why a set cannot start machines now, by the set's key; sets that can start machines are left out.

        Only capacity that was bought for a fixed time is checked, not whether capacity is free. A reason must not change from
        one minute to the next: it may contain a date, but not the remaining time.

        Args:
            sets: `Launch.spec` of every set, by its key.

        Raises:
            CloudError: the call failed.
        """
        del sets
        return {}

    def adopt(self, launches: Dict[str, Dict[str, Any]], present: Sequence[Dict[str, Any]]) -> List[str]:
        """Make launches use present settings, so that earlier settings can be deleted; running machines stay as they are.

        Return what still uses earlier settings; the call must be repeated until the result is empty. A cloud that can delete
        settings in use returns an empty list.

        Args:
            launches: for each launch, the present `Launch.spec` of its set; the key is the token of the launch that created the
                network of the launch's machines.
            present: the present `Launch.spec` of every set.

        Raises:
            CloudError: the call failed.
        """
        del launches, present
        return []

    def terminate(self, ids: Sequence[str], wanted: Collection[str] = ()) -> None:
        """Terminate machines; it is no error if some are terminated already.

        `wanted` are tokens of launches that still have nodes. If machines of these launches are not in `ids`, the
        call must neither end them nor prevent their start.

        Raises:
            CloudError: some of the machines have not been terminated.
        """
        raise NotImplementedError
