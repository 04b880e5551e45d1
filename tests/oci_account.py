"""An OCI account's answers to the program's preflight."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pulumi
import pytest
from conftest import Engine, run_program

SHAPE, IMAGE = "BM.GPU4.8", "ocid1.image.oc1..rehearsed-ol7-gpu"
POOL = "busbar-gpu"
HERE, ELSEWHERE = "Uocm:REHEARSED-AD-1", "Uocm:REHEARSED-AD-2"


def account(**changes: Any) -> dict[str, Any]:
    """Return the answers of an account with room for exactly two nodes; `changes` replace some answers, by data source."""
    shapes = [{"name": SHAPE, "gpus": 8, "quotaNames": ["gpu4-count"]}, {"name": "BM.Standard.E5.192", "gpus": 0}]
    pools = [{"size": 3}, {"size": 4}]
    return {
        "getAvailabilityDomains": {"availabilityDomains": [{"name": HERE}, {"name": ELSEWHERE}]},
        "getShapes": {"shapes": shapes},
        "getImage": {"operatingSystem": "Oracle Linux", "operatingSystemVersion": "7.9"},
        "getClusterNetworks": {"clusterNetworks": [{"state": "TERMINATED", "displayName": POOL, "instancePools": pools}]},
        "getRegionSubscriptions": {"regionSubscriptions": [{"regionName": "us-rehearsed-1", "isHomeRegion": True}]},
        "getResourceAvailability": {"available": "16"},
    } | changes


#: Two existing subnets, and the settings with which a stack uses these subnets.
PUBLIC, PRIVATE = "ocid1.subnet.oc1..public", "ocid1.subnet.oc1..private"
OWN = {"network": {"existing": {"publicSubnet": PUBLIC, "privateSubnet": PRIVATE}}}


def network_of(**changes: Any) -> dict[str, Any]:
    """Return an account's answers about two existing subnets; `changes` replace some answers, by data source."""
    subnets = {
        name: {
            "vcnId": "vcn",
            "cidrBlock": f"10.9.{at}.0/24",
            "compartmentId": "theirs",
            "routeTableId": f"table-{at}",
            "securityListIds": [f"list-{at}"],
            "prohibitPublicIpOnVnic": bool(at),
            "availabilityDomain": "",
            "subnetDomainName": f"own{at}.lab.oraclevcn.com",
        }
        for at, name in enumerate((PUBLIC, PRIVATE))
    }
    ways = ("ocid1.internetgateway.oc1..a", "ocid1.natgateway.oc1..a")
    every = {"protocol": "all", "tcpOptions": [], "udpOptions": []}
    out = [every | {"destination": "0.0.0.0/0", "destinationType": "CIDR_BLOCK"}]
    inside = every | {"source": "10.9.0.0/16", "sourceType": "CIDR_BLOCK"}
    ssh = {"protocol": "6", "source": "198.51.100.0/24", "sourceType": "CIDR_BLOCK", "udpOptions": []}
    ssh["tcpOptions"] = [{"min": 22, "max": 22, "sourcePortRanges": []}]
    tables = [
        {"id": f"table-{at}", "routeRules": [{"destination": "0.0.0.0/0", "networkEntityId": way}]}
        for at, way in enumerate(ways)
    ]
    lists = [
        {"id": f"list-{at}", "ingressSecurityRules": [rule], "egressSecurityRules": out}
        for at, rule in enumerate((ssh, inside))
    ]
    return {
        "getSubnet": lambda args: subnets[args["subnetId"]],
        "getRouteTables": {"routeTables": tables},
        "getSecurityLists": {"securityLists": lists},
    } | changes


def asking(monkeypatch: pytest.MonkeyPatch, lines: dict[str, str]) -> Callable[..., tuple[Engine, str]]:
    """Return a function that runs the program with `preflight: true`, and returns the engine and the refusal (empty if none).

    The function's first argument has the account's answers to look-ups, by data source.
    """

    def run(answers: dict[str, Any], **oci: Any) -> tuple[Engine, str]:
        engines: list[Engine] = []
        answer = Engine.call

        def call(self: Engine, args: pulumi.runtime.MockCallArgs) -> dict[str, Any]:
            if self not in engines:
                engines.append(self)
            noun = args.token.rpartition(":")[2]
            if noun not in answers:
                return answer(self, args)
            self.invokes.append((args.token, args.args))
            found = answers[noun]
            return found(args.args) if callable(found) else found

        monkeypatch.setattr(Engine, "call", call)
        try:
            return run_program(lines, oci={"preflight": True} | oci), ""
        except pulumi.RunError as refused:
            return engines[0], str(refused)

    return run
