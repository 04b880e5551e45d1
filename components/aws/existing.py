"""Looks up the VPC, subnets, security groups and instance profiles that a stack file names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from pulumi_aws import ec2, iam, vpc

from components.aws.account_lookups import ask, there
from config.aws.facts import GroupRule, Profile, SecurityGroup, Subnet, Vpc
from config.aws.model import Aws

_ANYWHERE = "0.0.0.0/0"
#: Fields of the look-up that name a route's target; the look-up does not return routes through a gateway endpoint
#: (terraform-provider-aws:internal/service/ec2/vpc_route_table_data_source.go).
_TARGETS = (
    *("gateway_id", "nat_gateway_id", "transit_gateway_id", "network_interface_id", "vpc_endpoint_id"),
    *("vpc_peering_connection_id", "local_gateway_id", "carrier_gateway_id", "core_network_arn", "instance_id"),
)


def vpcs(found: Mapping[str, Subnet | None]) -> dict[str, Vpc]:
    """Return VPC id -> VPC for every VPC that contains one of the subnets in `found`."""
    return {subnet.vpc: _vpc(subnet.vpc) for subnet in found.values() if subnet is not None}


def subnets(wanted: Aws) -> dict[str, Subnet | None]:
    """Return id -> subnet for each subnet that the stack file names; None for a subnet that does not exist."""
    own = wanted.network.existing
    return {name: there(partial(_subnet, name)) for name in (own.public_subnet, own.private_subnet)} if own else {}


def security_groups(wanted: Aws) -> dict[str, SecurityGroup | None]:
    """Return id -> security group for each group that the stack file names; None for a group that does not exist."""
    groups = wanted.network.groups
    names = [name for name in groups.model_dump().values() if name] if groups else []
    return {name: there(partial(_group, name)) for name in names}


def profiles(wanted: Aws) -> dict[str, Profile | None]:
    """Return name -> instance profile for each profile in the stack file; None for a profile that does not exist."""
    names = [name for name in wanted.profiles.existing.model_dump().values() if name]
    return {name: there(partial(_profile, name)) for name in names}


def _profile(name: str) -> Profile:
    found = ask(
        f"instance profile {name}",
        "iam/getInstanceProfile:getInstanceProfile",
        lambda: iam.get_instance_profile(name=name),
    )
    return Profile(found.role_name or "")


def _vpc(name: str) -> Vpc:
    found = ask(f"VPC {name}", "ec2/getVpc:getVpc", lambda: ec2.get_vpc(id=name))
    return Vpc(dns=found.enable_dns_support, host_names=found.enable_dns_hostnames)


def _subnet(name: str) -> Subnet:
    found = ask(f"subnet {name}", "ec2/getSubnet:getSubnet", lambda: ec2.get_subnet(id=name))
    return Subnet(
        vpc=found.vpc_id,
        zone=found.availability_zone,
        cidr=found.cidr_block,
        free=int(found.available_ip_address_count),
        way_out=_way_out(name, found.vpc_id),
    )


def _way_out(subnet: str, its_vpc: str) -> str:
    """Return the target of a subnet's default route; empty if the subnet has no default route.

    A subnet without an associated route table uses the VPC's main table; a look-up with such a subnet's id finds no table (EC2
    API).
    """
    what = f"the route table of {subnet}"
    table = there(lambda: _table(what, lambda: ec2.get_route_table(subnet_id=subnet)))
    if table is None:
        main = ask(f"VPC {its_vpc}", "ec2/getVpc:getVpc", lambda: ec2.get_vpc(id=its_vpc)).main_route_table_id
        table = _table(f"the main route table of {its_vpc}", lambda: ec2.get_route_table(route_table_id=main))
    for route in table.routes:
        if route.cidr_block == _ANYWHERE:
            return next((str(found) for key in _TARGETS if (found := getattr(route, key, ""))), "")
    return ""


def _table(what: str, question: Callable[[], ec2.GetRouteTableResult]) -> ec2.GetRouteTableResult:
    return ask(what, "ec2/getRouteTable:getRouteTable", question)


def _group(name: str) -> SecurityGroup:
    found = ask(f"security group {name}", "ec2/getSecurityGroup:getSecurityGroup", lambda: ec2.get_security_group(id=name))
    listed = ask(
        f"the rules of {name}",
        "vpc/getSecurityGroupRules:getSecurityGroupRules",
        lambda: vpc.get_security_group_rules(filters=[vpc.GetSecurityGroupRulesFilterArgs(name="group-id", values=[name])]),
    )
    return SecurityGroup(found.vpc_id, tuple(_rule(each) for each in listed.ids))


def _rule(name: str) -> GroupRule:
    found = ask(
        f"rule {name}",
        "vpc/getSecurityGroupRule:getSecurityGroupRule",
        lambda: vpc.get_security_group_rule(security_group_rule_id=name),
    )
    # If the peer of a rule is a group of another account, in a peered VPC, the provider writes the peer as ACCOUNT/ID. No
    # machine of this stack is in such a group. So the peer is empty here, and the rule is not judged.
    group = found.referenced_security_group_id or ""
    return GroupRule(
        out=found.is_egress,
        protocol=found.ip_protocol,
        ports=(int(found.from_port or 0), int(found.to_port or 0)),
        peer=found.cidr_ipv4 or found.cidr_ipv6 or ("" if "/" in group else group),
    )
