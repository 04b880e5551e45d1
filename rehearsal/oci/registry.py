"""All resource types of the rehearsed OCI."""

from __future__ import annotations

from collections.abc import Mapping

from rehearsal.oci.compute import ConsoleHistory, Instance
from rehearsal.oci.core_network import DhcpOptions, InternetGateway, NatGateway, ServiceGateway, Vcn
from rehearsal.oci.core_subnet import RouteTable, SecurityList, Subnet
from rehearsal.oci.files import Export, FileSystem, MountTarget
from rehearsal.oci.identity import DynamicGroup, Policy
from rehearsal.oci.imports import AddedShape, ImageKind
from rehearsal.oci.kinds import Kind
from rehearsal.oci.lustre import Lustre
from rehearsal.oci.marketplace import Agreement, Subscription
from rehearsal.oci.pools import ClusterNetwork, InstanceConfiguration

#: Type token -> the object that implements the type.
KINDS: Mapping[str, Kind] = {
    kind.token: kind
    for kind in (
        Vcn(), InternetGateway(), NatGateway(), ServiceGateway(), RouteTable(), SecurityList(), DhcpOptions(), Subnet(),
        Instance(), InstanceConfiguration(), ClusterNetwork(), ConsoleHistory(), DynamicGroup(), Policy(),
        FileSystem(), MountTarget(), Export(), Lustre(), Agreement(), Subscription(),
        ImageKind(), AddedShape(),
    )
}  # fmt: skip
