"""All resource types that the rehearsed AWS supports."""

from __future__ import annotations

from collections.abc import Mapping

from rehearsal.aws.capacity import CapacityBlock, CapacityReservation
from rehearsal.aws.compute import Instance
from rehearsal.aws.fleets import Fleet
from rehearsal.aws.fsx import OpenZfs
from rehearsal.aws.gateways import Eip, Endpoint, InternetGateway, NatGateway
from rehearsal.aws.groups import EgressRule, IngressRule, SecurityGroup
from rehearsal.aws.iam import Attachment, InstanceProfile, Role, RolePolicy
from rehearsal.aws.kinds import Kind
from rehearsal.aws.lustre import Association as Mirror
from rehearsal.aws.lustre import Lustre
from rehearsal.aws.s3 import AccessBlock, Bucket, Ownership
from rehearsal.aws.ssm import Parameter
from rehearsal.aws.subnets import Association, Route, RouteTable, Subnet
from rehearsal.aws.templates import KeyPair, LaunchTemplate, PlacementGroup
from rehearsal.aws.vpc import CidrAssociation, Vpc

#: Type token -> the object that implements this resource type.
KINDS: Mapping[str, Kind] = {
    kind.token: kind
    for kind in (
        Vpc(), CidrAssociation(), InternetGateway(), Eip(), NatGateway(), Endpoint(), Subnet(), RouteTable(), Route(),
        Association(), SecurityGroup(), IngressRule(), EgressRule(), KeyPair(), PlacementGroup(), LaunchTemplate(), Instance(),
        Fleet(), CapacityReservation(), CapacityBlock(), Role(), RolePolicy(), Attachment(), InstanceProfile(), Lustre(),
        OpenZfs(), Mirror(), Bucket(), AccessBlock(), Ownership(), Parameter(),
    )
}  # fmt: skip
