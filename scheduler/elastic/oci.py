"""OCI with the permissions of the controller's instance principal: a launch creates or enlarges a cluster network.

The cluster networks are found by their tags. Calls use REST over HTTPS, signed by `oci_identity`: the images' Python has no
SDK, and ten calls do not need an SDK. Source: OCI API reference, Core Services API 20160918. A cluster network starts either
all requested machines or none. A launch may fail after the call returned, so the call returns no ids, and `listing` reports the
failure.
"""

import calendar
import json
import time
import urllib.parse
from typing import Any, Callable, Collection, Dict, List, NamedTuple, Optional, Sequence, Tuple

from scheduler.elastic import http_client, oci_identity
from scheduler.elastic.cloud import Ask, BusyError, CapacityError, Cloud, CloudError, Launch, Listing, Machine, Renewed
from scheduler.elastic.http_client import Http

#: Names of a network's two tags: one has the token of the launch that created the network, the other the token of the launch
#: that last enlarged it.
TOKEN_TAG, GROWN_TAG = "busbar-launch", "busbar-grown"
_TIMEOUT_S = 20
_PAGE = 100
_TOO_MANY = 429
_SERVER_ERROR = 500
_NOT_FOUND = 404
#: The service refuses to change a resource while another change of that resource runs (OCI API, "API Errors", status 409).
_OTHER_CHANGE = "IncorrectState"
_CAPACITY = ("out of host capacity", "out of capacity", "limitexceeded", "quotaexceeded", "service limits were exceeded")
_ENDED = "TERMINATED"
_GONE = ("TERMINATING", _ENDED)
#: The service deletes a network whose launch has failed, and still lists the network for a day. So this module checks deleted
#: networks for failed launches, but only networks that were created less than this long ago: every launch
#: succeeds or fails much sooner.
_REMEMBERED_S = 3600
_STARTING = "PROVISIONING"
#: States in which a cluster network may still get machines.
_UNSURE = (_STARTING, "SCALING")
#: Program that a machine runs to report its place, because only the machine can query its metadata service. The program prints
#: {} if the service has no such data.
_WHERE = """
import urllib.error, urllib.request
asked = urllib.request.Request("http://169.254.169.254/opc/v2/host/", headers={"Authorization": "Bearer Oracle"})
try:
    print(urllib.request.build_opener(urllib.request.ProxyHandler({})).open(asked, timeout=3).read().decode())
except urllib.error.HTTPError:
    print("{}")
"""
#: Levels of the RDMA network, each with its key in the metadata. The first row has the levels inside rdmaTopologyData; the
#: second row is for machines whose metadata has no rdmaTopologyData. In each row, the widest level is first.
_PARTS = (
    (("island", "customerHPCIslandId"), ("block", "customerNetworkBlock"), ("local", "customerLocalBlock")),
    (("block", "networkBlockId"), ("rack", "rackId")),
)
_SHORT = 8  # characters kept of an OCID (its end) or a token (its beginning), enough to distinguish places of one cluster


class _Home(NamedTuple):
    """The cluster network of a machine.

    Attributes:
        network, pool: ids of the network and of its instance pool.
        token: token of the launch that created the network.
        unsure: whether the network may still get machines.
        mates: ids of the network's machines that are not terminated.
    """

    network: str
    token: str
    unsure: bool
    pool: str
    mates: Sequence[str]


class Oci(Cloud):
    """OCI in one compartment.

    Args:
        given: `region`; `compartment`, its OCID; `subnet`, the OCID of the nodes' subnet; `tags`, free-form tags by which the
            cluster's networks are found; `more_tags`, the user's tags, which new networks get, too.
    """

    grows = True

    def __init__(self, given: Dict[str, Any], send: Http = http_client.send, clock: Callable[[], float] = time.time) -> None:
        self._given, self._send, self._clock = given, send, clock
        self._base = f"https://iaas.{given['region']}.oraclecloud.com/20160918"
        self._signer = Renewed(lambda: oci_identity.own(given["region"], send, clock), clock)
        self._homes: Dict[str, _Home] = {}

    def launch(self, wanted: Launch) -> List[str]:
        """Create a cluster network, or enlarge one; `spec` has `configuration` (of instances), `label`, and `domains`."""
        if wanted.beside and self._grown(wanted):
            return []
        asked = {
            "compartmentId": self._given["compartment"],
            "displayName": f"{wanted.spec['label']}-{wanted.token[:8]}",
            "freeformTags": {**self._given.get("more_tags", {}), **self._given["tags"], TOKEN_TAG: wanted.token},
            "instancePools": [{"instanceConfigurationId": wanted.spec["configuration"], "size": wanted.size}],
            "placementConfiguration": {"availabilityDomain": wanted.zone, "primarySubnetId": self._given["subnet"]},
        }
        self._call("POST", "/clusterNetworks", asked, {"opc-retry-token": wanted.token})
        return []

    def zones(self, spec: Dict[str, Any]) -> Sequence[str]:
        """Return the availability domains in which machines of a launch set may start."""
        return tuple(spec["domains"])

    def _grown(self, wanted: Launch) -> bool:
        """Enlarge the network of an earlier launch, once per token; return False if that network no longer has machines.

        The service's answer to a resize names no work request, so `_failed` later checks the network's newest work request. A
        pool keeps the requested size even if fewer machines started, and setting the size that a pool already has starts
        nothing. So the size is first set to the pool's real number of machines.

        Raises:
            BusyError: another change of that network has not finished, or the size was just set to the real number.
        """
        found = [one for one in self._all("/clusterNetworks") if self._is_ours(one) and one["lifecycleState"] not in _GONE]
        network = next((one for one in found if one["freeformTags"][TOKEN_TAG] == wanted.beside), None)
        if network is None:
            return False
        tags = network["freeformTags"]
        if tags.get(GROWN_TAG) == wanted.token:
            return True
        if network["lifecycleState"] != "RUNNING":
            raise BusyError("IncorrectState", f"cluster network {network['id']} is {network['lifecycleState']}")
        pool = network["instancePools"][0]
        alive = sum(its["state"].upper() not in _GONE for its in self._all(f"/clusterNetworks/{network['id']}/instances"))
        if not alive:
            return False
        if pool["size"] > alive:
            self._resize(network["id"], pool["id"], alive, tags)
            raise BusyError("IncorrectState", f"cluster network {network['id']} had {alive} of {pool['size']} machines")
        self._resize(network["id"], pool["id"], alive + wanted.size, {**tags, GROWN_TAG: wanted.token})
        return True

    def _resize(self, network: str, pool: str, size: int, tags: Dict[str, str]) -> None:
        self._call("PUT", f"/clusterNetworks/{network}", {"freeformTags": tags, "instancePools": [{"id": pool, "size": size}]})

    def listing(self) -> Listing:
        """Return machines of the cluster's networks, with their addresses; also delete networks that will get no machines."""
        machines: List[Machine] = []
        failed: Dict[str, CloudError] = {}
        starting: List[str] = []
        ours = [one for one in self._all("/clusterNetworks") if self._is_ours(one)]
        networks = [one for one in ours if one["lifecycleState"] not in _GONE]
        for one in ours:
            if one["lifecycleState"] in _GONE and self._clock() - _seconds(one.get("timeCreated", "")) < _REMEMBERED_S:
                failed.update(self._failed(one, 0))
        addresses = self._addresses() if networks else {}
        self._homes = {}
        for one in networks:
            token = one["freeformTags"][TOKEN_TAG]
            found = self._all(f"/clusterNetworks/{one['id']}/instances")
            alive = [its["id"] for its in found if its["state"].upper() not in _GONE]
            unsure = one["lifecycleState"] in _UNSURE
            for its in found:
                self._homes[its["id"]] = _Home(one["id"], token, unsure, one["instancePools"][0]["id"], alive)
                ended = its["state"].upper() in _GONE
                machines.append(Machine(its["id"], token, addresses.get(its["id"], ""), ended))
            failed.update(self._failed(one, len(alive)))
            if not alive and (token in failed or not unsure):
                self._remove(one["id"])
            elif not alive:
                starting.append(token)
        return Listing(machines, failed, starting)

    def places(self, machines: Sequence[Machine], ask: Ask) -> Dict[str, Tuple[str, ...]]:
        """Return each machine's cluster network and place in that network; there is no RDMA between cluster networks."""
        said = ask(_WHERE, machines)
        return {one.id: (f"network-{one.token[:_SHORT]}", *_parts(said[one.id])) for one in machines if one.id in said}

    def adopt(self, launches: Dict[str, Dict[str, Any]], present: Sequence[Dict[str, Any]]) -> List[str]:
        """Give each pool the instance configuration that its launch set has now.

        Return the networks of those pools that referred to an earlier configuration.

        OCI deletes no instance configuration to which a pool refers (409 Conflict, oci-hpc issue 11). A pool can be given
        another configuration, which affects only new machines (UpdateClusterNetworkInstancePoolDetails). This function changes
        only pools of RUNNING networks.
        """
        left = []
        kept = {spec["configuration"] for spec in present}
        for one in self._all("/clusterNetworks"):
            if not self._is_ours(one) or one["lifecycleState"] == _ENDED:
                continue
            for pool in one.get("instancePools") or []:
                if pool.get("instanceConfigurationId") in kept:
                    continue
                left.append(one["id"])
                spec = launches.get(one["freeformTags"][TOKEN_TAG])
                if spec and one["lifecycleState"] == "RUNNING":
                    renewed = {"id": pool["id"], "instanceConfigurationId": spec["configuration"]}
                    self._call("PUT", f"/clusterNetworks/{one['id']}", {"instancePools": [renewed]}, gone_is_fine=True)
        return left

    def terminate(self, ids: Sequence[str], wanted: Collection[str] = ()) -> None:
        """Terminate machines, with one call for each network whose machines all end, and otherwise one by one.

        OCI has no bulk call. `wanted` are tokens of launches that still have nodes: the network that such a launch created is
        not deleted while it may still get machines.
        """
        if not set(ids) <= set(self._homes):
            self.listing()
        left = [its for its in ids if its in self._homes]
        error: Optional[CloudError] = None
        for network in sorted({self._homes[its].network for its in left}):
            try:
                self._end(network, [its for its in left if self._homes[its].network == network], wanted)
            except CloudError as refused:  # the refusal does not affect the other networks
                error = error or refused
        if error:
            raise error

    def _end(self, network: str, own: Sequence[str], wanted: Collection[str]) -> None:
        home = self._homes[own[0]]
        if set(home.mates) <= set(own) and not (home.unsure and home.token in wanted):
            self._remove(network)
            return
        for its in own:
            detached = {"instanceId": its, "isDecrementSize": True, "isAutoTerminate": True}
            self._call("POST", f"/instancePools/{home.pool}/actions/detachInstance", detached, gone_is_fine=True)

    def _is_ours(self, network: Dict[str, Any]) -> bool:
        tags = network.get("freeformTags") or {}
        return TOKEN_TAG in tags and all(tags.get(key) == value for key, value in self._given["tags"].items())

    def _remove(self, network: str) -> None:
        self._call("DELETE", f"/clusterNetworks/{network}", gone_is_fine=True)

    def _addresses(self) -> Dict[str, str]:
        """Return private addresses by instance, from two listings instead of calls for each machine."""
        subnet = self._given["subnet"]
        by_interface = {
            its["vnicId"]: its["ipAddress"] for its in self._all("/privateIps", subnetId=subnet, in_compartment=False)
        }
        attached = self._all("/vnicAttachments")
        return {its["instanceId"]: by_interface[its["vnicId"]] for its in attached if its.get("vnicId") in by_interface}

    def _failed(self, network: Dict[str, Any], alive: int) -> Dict[str, CloudError]:
        """Return the launch that failed in a network, and why: the launch that created the network or last enlarged it."""
        tags, state = network["freeformTags"], network["lifecycleState"]
        error = None
        token = tags[TOKEN_TAG]
        if state == _STARTING or state in _GONE:
            error = self._failure(network["id"])
        elif tags.get(GROWN_TAG) and network["instancePools"][0]["size"] > alive:
            token, error = tags[GROWN_TAG], self._failure(network["id"], newest=True)
        return {token: error} if error else {}

    def _failure(self, network: str, *, newest: bool = False) -> Optional[CloudError]:
        """Return why a work request of a network failed, None if none failed; `newest`: check only the newest work request."""
        found = sorted(self._all("/workRequests", resourceId=network), key=lambda one: str(one.get("timeAccepted", "")))
        for request in found[-1:] if newest else found:
            if request["status"] == "FAILED":
                errors = self._all(f"/workRequests/{request['id']}/errors", in_compartment=False)
                code, message = (errors[0]["code"], errors[0]["message"]) if errors else ("Failed", "no reason is given")
                return _kind(0, CloudError(code, message))
        return None

    def _all(self, path: str, *, in_compartment: bool = True, **query: str) -> List[Dict[str, Any]]:
        """Return the items of all pages."""
        asked = {"limit": str(_PAGE), **query}
        if in_compartment:
            asked["compartmentId"] = self._given["compartment"]
        found: List[Dict[str, Any]] = []
        while True:
            answer = self._call("GET", f"{path}?{urllib.parse.urlencode(sorted(asked.items()))}")
            found += json.loads(answer.body.decode())
            following = answer.headers.get("opc-next-page")
            if not following:
                return found
            asked["page"] = following

    def _call(
        self,
        method: str,
        path: str,
        asked: Optional[Dict[str, Any]] = None,
        more: Optional[Dict[str, str]] = None,
        *,
        gone_is_fine: bool = False,
    ) -> http_client.Answer:
        body = json.dumps(asked).encode() if asked is not None else b""
        url = self._base + path
        headers = {**self._signer.get().headers(method, url, body, self._clock()), **(more or {})}
        try:
            answer = self._send(method, url, headers, body, _TIMEOUT_S)
        except OSError as error:
            raise BusyError("NoAnswer", f"{method} {path}: {error}") from None
        if answer.status < 300 or (gone_is_fine and answer.status == _NOT_FOUND):  # noqa: PLR2004 - success
            return answer
        raise _kind(answer.status, oci_identity.refusal(f"{method} {path.partition('?')[0]}", answer))


def _parts(text: str) -> List[str]:
    """Return a machine's place in its cluster network, from /opc/v2/host of its metadata; empty if the metadata have no place.

    Source: oci-hpc-oke, "Using RDMA network locality": rdmaTopologyData exists if the tenancy has a capacity topology.
    """
    try:
        host = json.loads(text)
        located = host.get("rdmaTopologyData") or {}
    except (AttributeError, ValueError):
        return []
    given, parts = (located, _PARTS[0]) if located else (host, _PARTS[1])
    found: List[str] = []
    for noun, key in parts:
        its = str(given.get(key) or "")
        if not its:
            break
        found.append(f"{noun}-{its[-_SHORT:] if its.startswith('ocid1.') else its}")
    return found


def _seconds(text: str) -> float:
    """Return a time of the service (RFC 3339) as Unix time; 0 if the time is missing."""
    return calendar.timegm(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S")) if text else 0


def _kind(status: int, error: CloudError) -> CloudError:
    """Return the error with the right type: only the text distinguishes a lack of capacity from an internal error."""
    said = str(error).lower()
    code, message = error.code, str(error)[len(error.code) + 2 :]
    if any(words in said for words in _CAPACITY):
        return CapacityError(code, message)
    if status == _TOO_MANY or status >= _SERVER_ERROR or code == _OTHER_CHANGE:
        return BusyError(code, message)
    return error
