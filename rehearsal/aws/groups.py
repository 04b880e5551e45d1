"""Security groups and their rules: EC2's refusals, and the rules of a group in normal form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from typing_extensions import override

from rehearsal.aws import addresses
from rehearsal.aws.errors import Problem, invalid, refused
from rehearsal.aws.kinds import GROUP, VPC, Asked, Kind, Named
from rehearsal.aws.vpc import InVpc
from rehearsal.plugin import kinds
from rehearsal.plugin.addresses import cidr
from rehearsal.plugin.resource_cloud import ResourceCloud
from rehearsal.plugin.store import Database, Record
from rehearsal.plugin.wire import each

INGRESS = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"
EGRESS = "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule"
#: Supported protocol, as the API spells it -> the protocol number; -1 means all protocols.
NUMBERS = {"-1": "-1", "all": "-1", "tcp": "6", "6": "6", "udp": "17", "17": "17", "icmp": "1", "1": "1"}

_LAST_PORT = 65535
_MOST_RULES = 60  # VPC quotas: inbound or outbound rules per security group
_PEERS = ("cidrIpv4", "cidrIpv6", "prefixListId", "referencedSecurityGroupId")


@dataclass(frozen=True)
class Allowed:
    """One rule of a security group, in normal form.

    Attributes:
        direction: `ingress` or `egress`, seen from the group's members.
        protocol: `-1` (all), `6` (TCP), `17` (UDP) or `1` (ICMP).
        ports: first and last port (for ICMP: type and code, where -1 means all); None means all ports.
        group: id of the security group of the peers, or empty.
        cidr: IP network of the peers, or empty.
    """

    direction: str
    protocol: str
    ports: tuple[int, int] | None
    group: str = ""
    cidr: str = ""

    @property
    def everything(self) -> bool:
        """Whether the rule covers all protocols and ports."""
        return self.protocol == "-1"


def allowed(database: Database, group: Record) -> list[Allowed]:
    """Return all rules of a group in normal form."""
    found = []
    for direction, token in (("ingress", INGRESS), ("egress", EGRESS)):
        for rule in group.inputs.get(direction) or []:
            peers = [("cidr", one) for one in rule.get("cidrBlocks") or []]
            peers += [("group", one) for one in rule.get("securityGroups") or []]
            peers += [("group", group.id)] if rule.get("self") else []
            for kind, peer in peers:
                found.append(_plain(direction, str(rule["protocol"]), rule, **{kind: peer}))
        for record in database.of(token, securityGroupId=group.id):
            rule = record.inputs
            peer = {"group": rule.get("referencedSecurityGroupId") or "", "cidr": rule.get("cidrIpv4") or ""}
            found.append(_plain(direction, str(rule["ipProtocol"]), rule, **peer))
    return found


def _plain(direction: str, protocol: str, rule: Mapping[str, Any], **peer: str) -> Allowed:
    number = NUMBERS.get(protocol.lower(), protocol)
    ports = (int(rule["fromPort"]), int(rule["toPort"])) if number != "-1" and rule.get("fromPort") is not None else None
    return Allowed(direction, number, ports, **peer)


class SecurityGroup(InVpc, Named):
    """A security group."""

    token, noun, prefix, arn = GROUP, "resource", "sg", "security-group/{id}"
    create, update, delete = "CreateSecurityGroup", "AuthorizeSecurityGroupIngress", "DeleteSecurityGroup"

    @override
    def problems(self, asked: Asked) -> Iterator[Problem]:
        yield from InVpc.problems(self, asked)
        name, vpc = asked.known("name"), asked.known("vpcId")
        if name is not None and str(name).startswith("sg-"):
            yield invalid("name", "Group names may not be in the format sg-*.")
        if name is not None and any(one.computed.get("name") == name for one in asked.neighbours(GROUP, vpcId=vpc)):
            yield refused("name", "InvalidGroup.Duplicate", f"The security group '{name}' already exists for VPC '{vpc}'")
        for direction in ("ingress", "egress"):
            for path, rule in each(asked.inputs, f"{direction}[]"):
                yield from _span(path, str(rule.get("protocol", "")), rule)
                for where, text in each(rule, "cidrBlocks[]"):
                    if cidr(text) is None:
                        yield addresses.malformed(f"{path}.{where}", text)

    @override
    def new_id(self, urn: str, inputs: Mapping[str, Any]) -> str:
        return Kind.new_id(self, urn, inputs)

    @override
    def on_create(self, database: Database, record: Record) -> None:
        Kind.on_create(self, database, record)
        record.computed.update(
            name=record.inputs.get("name") or self.made_up(record.urn, record.inputs),
            description="Managed by Pulumi",
            ingress=[],
            egress=[],
            revokeRulesOnDelete=False,
        )

    @override
    def names(self, record: Record) -> frozenset[str]:
        return frozenset({f"{GROUP} {record.id}"})

    @override
    def in_use(self, record: Record, holder: Record, kind: kinds.Kind) -> Problem:
        return refused("", "DependencyViolation", f"resource {record.id} has a dependent object ({holder.id})")


class Rule(Kind):
    """One rule of a group, declared as a resource and not as a property of the group."""

    noun, prefix, arn = "security group rule", "sgr", "security-group-rule/{id}"
    references: ClassVar[Mapping[str, str]] = {"securityGroupId": GROUP, "referencedSecurityGroupId": GROUP}

    def problems(self, asked: Asked) -> Iterator[Problem]:
        yield from super().problems(asked)
        given = [name for name in _PEERS if asked.inputs.get(name) is not None]
        if len(given) != 1:
            yield refused(
                "cidrIpv4", "InvalidParameterCombination", f"exactly one of {', '.join(_PEERS)} is needed, got {len(given)}."
            )
        for name in ("cidrIpv6", "prefixListId"):
            if asked.inputs.get(name) is not None:
                yield refused(
                    name, "NotRehearsed", f"{name} is given, but the rehearsal supports only IPv4 networks and groups.", 501
                )
        text = asked.known("cidrIpv4")
        if text is not None and cidr(text) is None:
            yield addresses.malformed("cidrIpv4", text)
        yield from _span("", str(asked.known("ipProtocol") or ""), asked.inputs)
        yield from self._neighbours(asked)

    def _neighbours(self, asked: Asked) -> Iterator[Problem]:
        database, group = asked.database, asked.database.find(asked.known("securityGroupId"), GROUP)
        peer = database.find(asked.known("referencedSecurityGroupId"), GROUP)
        if group and peer and group.inputs["vpcId"] != peer.inputs["vpcId"]:
            yield refused(
                "referencedSecurityGroupId",
                "InvalidGroup.NotFound",
                f"You have specified two resources that belong to different networks: {group.id} and {peer.id}",
            )
        if group is None:
            return
        same = ("ipProtocol", "fromPort", "toPort", *_PEERS)
        mine = [asked.inputs.get(name) for name in same]
        others = asked.neighbours(self.token, securityGroupId=group.id)
        if any([one.inputs.get(name) for name in same] == mine for one in others):
            yield refused("", "InvalidPermission.Duplicate", f"the specified rule already exists in {group.id}")
        if len(others) >= _MOST_RULES:
            yield refused("", "RulesPerSecurityGroupLimitExceeded", f"{group.id} has {_MOST_RULES} rules and may have no more.")

    def on_create(self, database: Database, record: Record) -> None:
        super().on_create(database, record)
        record.private = {"vpc": database.records[record.inputs["securityGroupId"]].inputs["vpcId"]}
        record.computed["securityGroupRuleId"] = record.id

    def effect(self, cloud: ResourceCloud, record: Record, old: Mapping[str, Any] | None) -> None:  # noqa: ARG002
        cloud.render(record.private["vpc"])

    def gone(self, cloud: ResourceCloud, record: Record) -> None:
        cloud.render(record.private["vpc"])

    def needs(self, record: Record) -> Iterator[str]:
        """Yield the group that the rule refers to, unless it is the rule's own; it must not be deleted before the rule."""
        peer = record.inputs.get("referencedSecurityGroupId")
        if peer and peer != record.inputs["securityGroupId"]:
            yield f"{GROUP} {peer}"


class IngressRule(Rule):
    """An ingress rule."""

    token = INGRESS
    create, update, delete = "AuthorizeSecurityGroupIngress", "ModifySecurityGroupRules", "RevokeSecurityGroupIngress"


class EgressRule(Rule):
    """An egress rule."""

    token = EGRESS
    create, update, delete = "AuthorizeSecurityGroupEgress", "ModifySecurityGroupRules", "RevokeSecurityGroupEgress"


def _span(path: str, protocol: str, rule: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield the problems of a rule's protocol and ports."""
    dot = f"{path}." if path else ""
    if not protocol:
        return
    first, last = rule.get("fromPort"), rule.get("toPort")
    number = NUMBERS.get(protocol.lower(), protocol)
    if not number.lstrip("-").isdecimal():
        # The property is called protocol in a group's own rules, but ipProtocol in a rule that is a separate resource.
        yield invalid(
            f"{dot}protocol" if path else "ipProtocol", f"Invalid value '{protocol}' for IP protocol. Unknown protocol."
        )
    elif number == "-1" and path == "" and (first is not None or last is not None):
        # The provider's own check: "from_port and to_port must not be set if ip_protocol is -1".
        yield invalid(f"{dot}fromPort", "fromPort or toPort is given, but protocol -1 covers all ports: leave both out.")
    elif number in {"6", "17"}:
        if first is None or last is None:
            yield refused(f"{dot}fromPort", "MissingParameter", "The request must contain fromPort and toPort for tcp and udp.")
        elif isinstance(first, int) and isinstance(last, int) and not 0 <= first <= last <= _LAST_PORT:
            yield refused(f"{dot}toPort", "InvalidParameterValue", f"Invalid TCP/UDP port range ({first}:{last})")


__all__ = ["EGRESS", "INGRESS", "VPC", "Allowed", "EgressRule", "IngressRule", "SecurityGroup", "allowed"]
