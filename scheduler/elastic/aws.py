"""EC2 with the permissions of the controller's role: RunInstances from a launch template, Describe calls, TerminateInstances.

This module uses the Query API over HTTPS with Signature Version 4, without an SDK: Debian's and the vendors' images have boto3
in any version or not at all, and five calls need no SDK. Sources: EC2 API Reference 2016-11-15 (calls, error codes); IAM
User Guide, "Create a signed AWS API request"; EC2 user guide, "Use the Instance Metadata Service" and "Ensuring idempotency".
"""

import calendar
import hashlib
import hmac
import json
import re
import time
import urllib.parse
from typing import Any, Callable, Collection, Dict, List, NamedTuple, Optional, Sequence, Tuple
from xml.etree import ElementTree as ET

from scheduler.elastic import http_client
from scheduler.elastic.cloud import Ask, BusyError, CapacityError, Cloud, CloudError, Launch, Listing, Machine, Renewed
from scheduler.elastic.http_client import Answer, Http

TOKEN_TAG = "busbar:launch"  # noqa: S105 - the name of a tag
_VERSION = "2016-11-15"
_METADATA = "http://169.254.169.254/latest/"
#: `reconcile` has a time limit of some minutes, so each call must leave time for the other calls.
_TIMEOUT_S = 20
_METADATA_TIMEOUT_S = 3
_PAGE = 1000
_TOPOLOGY_IDS = 100  # per call (EC2 API, DescribeInstanceTopology)
#: Errors of missing capacity: a later or a smaller request may succeed (aws-parallelcluster-node:
#: slurm_plugin/fleet_manager.py; EC2 API, error codes).
_CAPACITY = re.compile(
    r"Insufficient\w*Capacity\w*|InsufficientFreeAddressesInSubnet|ReservationCapacityExceeded|UnfulfillableCapacity|"
    r"(Instance|Vcpu|Volume|MaxSpotInstanceCount|PlacementGroup)\w*(Limit)?Exceeded|SpotMaxPriceTooLow"
)
_BUSY = re.compile(
    r"RequestLimitExceeded|Throttl\w+|.*RequestThrottled\w*|InternalError|InternalFailure|Unavailable|ServiceUnavailable|ResourceCountExceeded"
)
#: EC2 terminates the machines of a Capacity Block this long before the block ends; the second time is for UltraServers (EC2
#: user guide, "Capacity Blocks for ML").
_BLOCK_ENDS_S, _ULTRASERVER_ENDS_S = 1800, 3600
_STOPPED = ("stopping", "stopped")
_ENDED = ("shutting-down", "terminated", *_STOPPED)
#: The error for a machine that is protected against termination (EC2 API, TerminateInstances).
_PROTECTED = "OperationNotPermitted"
#: Errors if EC2 does not know an id; the message names the ids.
_NO_MACHINE, _NO_BLOCK = "InvalidInstanceID.NotFound", "InvalidCapacityReservationId.NotFound"
_TOO_MANY, _SERVER_ERROR = 429, 500


class Credentials(NamedTuple):
    """Temporary credentials of the instance's role."""

    key: str
    secret: str
    session: str


class Aws(Cloud):
    """EC2 in one region.

    Args:
        given: `region`; `endpoint`, the service's URL; `tags`, which every machine of the cluster has.
    """

    def __init__(self, given: Dict[str, Any], send: Http = http_client.send, clock: Callable[[], float] = time.time) -> None:
        self._region, self._endpoint, self._tags = given["region"], given["endpoint"], given["tags"]
        self._send, self._clock = send, clock
        self._credentials = Renewed(self._own, clock)

    def launch(self, wanted: Launch) -> List[str]:
        """Start machines from the set's launch template; `spec` has `template` (its id) and `tags`."""
        asked = {
            "LaunchTemplate.LaunchTemplateId": wanted.spec["template"],
            "LaunchTemplate.Version": "$Default",
            "MinCount": str(wanted.least),
            "MaxCount": str(wanted.size),
            "ClientToken": wanted.token,
        }
        tags = {**self._tags, **wanted.spec["tags"], TOKEN_TAG: wanted.token}
        for at, noun in enumerate(("instance", "volume"), 1):
            asked[f"TagSpecification.{at}.ResourceType"] = noun
            for number, (key, value) in enumerate(sorted(tags.items()), 1):
                asked[f"TagSpecification.{at}.Tag.{number}.Key"] = key
                asked[f"TagSpecification.{at}.Tag.{number}.Value"] = value
        return [_text(one, "instanceId") for one in self._call("RunInstances", asked).iter("item") if _text(one, "instanceId")]

    def listing(self) -> Listing:
        """Return the machines that have the cluster's tags and the tag `TOKEN_TAG`, which `launch` sets on every machine."""
        asked = {"Filter.1.Name": "tag-key", "Filter.1.Value.1": TOKEN_TAG, "MaxResults": str(_PAGE)}
        for at, (key, value) in enumerate(sorted(self._tags.items()), 2):
            asked[f"Filter.{at}.Name"], asked[f"Filter.{at}.Value.1"] = f"tag:{key}", value
        found: List[Machine] = []
        while True:
            answer = self._call("DescribeInstances", asked)
            found += [
                _machine(one)
                for one in answer.iter("item")
                if _text(one, "instanceId") and one.find("instanceState") is not None
            ]
            following = _text(answer, "nextToken")
            if not following:
                return Listing(found, {})
            asked["NextToken"] = following

    def places(self, machines: Sequence[Machine], ask: Ask) -> Dict[str, Tuple[str, ...]]:
        """Return the network nodes above each machine; EC2 has none for some types and for machines that are still starting."""
        del ask
        found = {}
        for at in range(0, len(machines), _TOPOLOGY_IDS):
            some = machines[at : at + _TOPOLOGY_IDS]
            asked = {f"InstanceId.{number}": one.id for number, one in enumerate(some, 1)}
            for one in self._call("DescribeInstanceTopology", asked).findall("instanceSet/item"):
                nodes = tuple((node.text or "").strip() for node in one.findall("networkNodeSet/item"))
                if nodes:
                    found[_text(one, "instanceId")] = nodes
        return found

    def closed(self, sets: Dict[str, Dict[str, Any]]) -> Dict[str, str]:
        """Return why sets are closed, by set: the Capacity Block is not active, or EC2 is about to terminate its machines."""
        blocks = sorted({one["block"] for one in sets.values() if one.get("block")})
        if not blocks:
            return {}
        answer, unknown = self._about("DescribeCapacityReservations", "CapacityReservationId", blocks, _NO_BLOCK)
        found = answer.findall("capacityReservationSet/item") if answer is not None else ()
        whys = {_text(one, "capacityReservationId"): _closed(one, self._clock()) for one in found}
        whys.update((one, f"EC2 knows no Capacity Block {one}") for one in unknown)
        return {key: whys[one["block"]] for key, one in sets.items() if whys.get(one.get("block", ""))}

    def terminate(self, ids: Sequence[str], wanted: Collection[str] = ()) -> None:
        """Terminate machines. Ids that EC2 does not know any more are left out."""
        del wanted  # not needed: EC2 terminates only the machines in `ids`
        for at in range(0, len(ids), _PAGE):
            self._end(ids[at : at + _PAGE])

    def _end(self, ids: Sequence[str]) -> None:
        """Terminate up to 1000 machines.

        If one machine is protected against termination, EC2 terminates none of those that are in the same zone. So the machines
        are then terminated in two halves, and so on, and only the protected machine stays.

        Raises:
            CloudError: EC2 refused a machine; all others are terminated.
        """
        try:
            self._about("TerminateInstances", "InstanceId", ids, _NO_MACHINE)
        except CloudError as error:
            if error.code != _PROTECTED or len(ids) == 1:
                raise
            refused = None
            for half in (ids[: len(ids) // 2], ids[len(ids) // 2 :]):
                try:
                    self._end(half)
                except CloudError as its:
                    refused = its
            if refused:
                raise refused from None

    def _about(self, action: str, name: str, ids: Sequence[str], code: str) -> Tuple[Optional[ET.Element], List[str]]:
        """Make a call about `ids`, the values of the parameter `name`; return its answer, and the ids that EC2 does not know.

        One unknown id fails the whole call, with the error `code`. So the call is repeated without the unknown ids; the answer
        is None if no id is left.
        """
        known: List[str] = list(ids)
        while known:
            try:
                answer = self._call(action, {f"{name}.{at}": its for at, its in enumerate(known, 1)})
            except CloudError as error:
                unknown = set(re.findall(r"[a-z]+-[0-9a-f]+", str(error))) if error.code == code else set()
                if not unknown & set(known):
                    raise
                known = [its for its in known if its not in unknown]
            else:
                return answer, [its for its in ids if its not in known]
        return None, list(ids)

    def _call(self, action: str, asked: Dict[str, str]) -> ET.Element:
        body = urllib.parse.urlencode(
            sorted({"Action": action, "Version": _VERSION, **asked}.items()), quote_via=urllib.parse.quote
        )
        try:
            headers = signed(self._endpoint, self._region, body.encode(), self._credentials.get(), self._clock())
            answer = self._send("POST", self._endpoint, headers, body.encode(), _TIMEOUT_S)
        except OSError as error:
            raise BusyError("NoAnswer", f"{action}: {error}") from None
        if answer.status < 300:  # noqa: PLR2004 - success
            return _parsed(answer.body)
        raise _error(action, answer)

    def _own(self) -> Credentials:
        """Return the credentials of this machine's role."""
        lifetime = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
        token = self._said("PUT", "api/token", lifetime)
        proof = {"X-aws-ec2-metadata-token": token}
        folder = "meta-data/iam/security-credentials/"
        role = self._said("GET", folder, proof).split()[0]
        its = json.loads(self._said("GET", folder + role, proof))
        return Credentials(its["AccessKeyId"], its["SecretAccessKey"], its["Token"])

    def _said(self, method: str, path: str, headers: Dict[str, str]) -> str:
        answer = self._send(method, _METADATA + path, headers, b"", _METADATA_TIMEOUT_S)
        if answer.status == _TOO_MANY or answer.status >= _SERVER_ERROR:
            raise BusyError("NoAnswer", f"the metadata service answers {answer.status} to {path}")
        if answer.status != 200 or not answer.body.strip():  # noqa: PLR2004 - success
            raise CloudError(
                "NoCredentials", f"the metadata service answers {answer.status} to {path}; does this machine have a role?"
            )
        return answer.body.decode()


def signed(url: str, region: str, body: bytes, credentials: Credentials, now: float) -> Dict[str, str]:
    """Return the headers of a POST to EC2, including its signature."""
    at = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
    host = urllib.parse.urlsplit(url).netloc
    headers = {
        "content-type": "application/x-www-form-urlencoded; charset=utf-8",
        "host": host,
        "x-amz-date": at,
        "x-amz-security-token": credentials.session,
    }
    names = ";".join(sorted(headers))
    lines = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
    request = f"POST\n/\n\n{lines}\n{names}\n{hashlib.sha256(body).hexdigest()}"
    scope = f"{at[:8]}/{region}/ec2/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{at}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = f"AWS4{credentials.secret}".encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    proof = f"AWS4-HMAC-SHA256 Credential={credentials.key}/{scope}, SignedHeaders={names}, Signature={signature}"
    return {**headers, "authorization": proof}


def _parsed(body: bytes) -> ET.Element:
    """Return the parsed answer without its XML namespace."""
    try:
        root = ET.fromstring(body)  # noqa: S314 - EC2's own answers, over a verified connection
    except ET.ParseError:
        raise BusyError("NoAnswer", "the service's answer is not XML") from None
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    return root


def _text(element: ET.Element, name: str) -> str:
    found = element.find(name)
    return (found.text or "").strip() if found is not None else ""


def _machine(one: ET.Element) -> Machine:
    tags = {_text(tag, "key"): _text(tag, "value") for tag in one.findall("tagSet/item")}
    state = _text(one, "instanceState/name")
    why = _text(one, "stateReason/message")
    its, address = _text(one, "instanceId"), _text(one, "privateIpAddress")
    return Machine(its, tags.get(TOKEN_TAG, ""), address, state in _ENDED, why, state in _STOPPED)


def _closed(one: ET.Element, now: float) -> str:
    """Return why no machine can start in a Capacity Block; empty if machines can start."""
    its, state = _text(one, "capacityReservationId"), _text(one, "state")
    if state == "scheduled":
        return f"Capacity Block {its} begins at {_text(one, 'startDate')}"
    ends = _text(one, "endDate")
    if state != "active":
        return f"Capacity Block {its} is {state}" + (f" and ends at {ends}" if ends else "")
    margin_s = _ULTRASERVER_ENDS_S if _text(one, "instanceType").startswith("p6e-") else _BLOCK_ENDS_S
    if ends and now >= calendar.timegm(time.strptime(ends[:19], "%Y-%m-%dT%H:%M:%S")) - margin_s:
        return f"Capacity Block {its} ends at {ends}, and EC2 terminates its machines {margin_s // 60} minutes earlier"
    return ""


def _error(action: str, answer: Answer) -> CloudError:
    try:
        root = _parsed(answer.body)
        code, message = _text(root, "Errors/Error/Code"), _text(root, "Errors/Error/Message")
    except BusyError:
        code, message = "", ""
    code, message = code or f"HTTP{answer.status}", f"{action}: {message or 'no message'}"
    if _CAPACITY.fullmatch(code):
        return CapacityError(code, message)
    if _BUSY.fullmatch(code) or answer.status >= _SERVER_ERROR:
        return BusyError(code, message)
    return CloudError(code, message)
