"""Data sources that return subnets, route tables, security lists, and exports of file systems."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rehearsal.oci.core_network import ROUTE_TABLE, SECURITY_LIST
from rehearsal.oci.core_subnet import SUBNET
from rehearsal.oci.errors import not_found
from rehearsal.plugin.errors import ServiceError
from rehearsal.plugin.store import Database, Record

Answer = dict[str, Any]
#: Options of a rule -> the values that the provider returns for missing properties of the options. The data source returns each
#: option as a list.
_OPTIONS: Mapping[str, Mapping[str, int]] = {
    "tcpOptions": {"min": 0, "max": 0},
    "udpOptions": {"min": 0, "max": 0},
    "icmpOptions": {"type": 0, "code": -1},
}


def subnet(args: Mapping[str, Any], database: Database) -> Answer:
    """Return a subnet.

    Raises:
        ServiceError: the subnet does not exist; the service's message is the same as for a subnet that the caller may not see.
    """
    name = str(args.get("subnetId"))
    one = database.find(name, SUBNET)
    if one is None:
        raise ServiceError(not_found("subnetId", name), "Core Subnet", "Read")
    blank = {"availabilityDomain": "", "dnsLabel": "", "subnetDomainName": "", "ipv6cidrBlock": "", "ipv6virtualRouterIp": ""}
    return blank | {"definedTags": {}, "freeformTags": {}, "ipv6cidrBlocks": []} | _plain(one) | {"subnetId": name}


def route_tables(args: Mapping[str, Any], database: Database) -> Answer:
    """Return a compartment's route tables; if `vcnId` is given, only the route tables of that VCN."""
    tables = []
    for one in _of(args, database, ROUTE_TABLE):
        rules = [
            {"cidrBlock": "", "description": "", "destinationType": "CIDR_BLOCK", "routeType": "STATIC", **rule}
            for rule in one.outputs().get("routeRules") or []
        ]
        tables.append({"definedTags": {}, "freeformTags": {}, **_plain(one), "routeRules": rules})
    return {"routeTables": tables}


def security_lists(args: Mapping[str, Any], database: Database) -> Answer:
    """Return a compartment's security lists; if `vcnId` is given, only the security lists of that VCN."""
    lists = []
    for one in _of(args, database, SECURITY_LIST):
        rules = {
            key: [_rule(rule, peer) for rule in one.outputs().get(key) or []]
            for key, peer in (("ingressSecurityRules", "sourceType"), ("egressSecurityRules", "destinationType"))
        }
        lists.append({"definedTags": {}, "freeformTags": {}, **_plain(one), **rules})
    return {"securityLists": lists}


def exports(args: Mapping[str, Any], database: Database) -> Answer:
    """Return the exports of every compartment; if `exportSetId` is given, only the exports of that export set."""
    listed = []
    for one in database.of("oci:FileStorage/export:Export"):
        its = one.outputs()
        if args.get("exportSetId") in {None, its["exportSetId"]} and args.get("state") in {None, "ACTIVE"}:
            kept = ("exportSetId", "fileSystemId", "path", "timeCreated", "isIdmapGroupsForSysAuth")
            listed.append(
                {
                    "id": one.id,
                    "state": "ACTIVE",
                    "locks": [],
                    "exportOptions": [],
                    **{key: its[key] for key in kept if key in its},
                }
            )
    return {"exports": listed}


def _of(args: Mapping[str, Any], database: Database, token: str) -> list[Record]:
    return [
        one
        for one in database.of(token, compartmentId=args.get("compartmentId"))
        if args.get("vcnId") in {None, one.inputs["vcnId"]}
    ]


def _plain(one: Record) -> Answer:
    return {**one.outputs(), "id": one.id, "state": "AVAILABLE"}


def _rule(rule: Mapping[str, Any], peer: str) -> Answer:
    options = {}
    for name, blank in _OPTIONS.items():
        given = rule.get(name)
        ports: Answer = {"sourcePortRanges": []} if name != "icmpOptions" else {}
        options[name] = [{**blank, **given, **ports}] if given else []
    return {"description": "", "stateless": False, peer: "CIDR_BLOCK", **rule, **options}
