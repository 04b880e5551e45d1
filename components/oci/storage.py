"""File systems of the vendor's own: File Storage (NFS) for home folders or shared software, and Lustre for data.

It deliberately opens no port and mounts nothing: the private subnet's rules let clients in, and a first boot mounts what
`mounts` says. Data are protected, retained or deleted as was said. Sources: oci-hpc:fss.tf, lustre.tf.
"""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
from pulumi_oci import filestorage, lustre

from catalogue.oci_storage import Lustre, Nfs
from cloudinit import Mount
from cloudinit.oci_steps import LUSTRE_OPTIONS, NFS_OPTIONS

_CREATE, _UPDATE, _DELETE = "60m", "240m", "60m"
#: What clients name, wherever they mount it: an export set takes a file system once, so its path could not follow the mount.
_EXPORT = "/files"


@dataclass(frozen=True, kw_only=True)
class StorageArgs:
    """What file systems are wanted.

    Attributes:
        compartment: OCID that they are created in.
        label: prefix of display names.
        availability_domain: where; the mount target and its file system stand in one.
        network: CIDR of the network that may mount them: the whole VCN.
        nfs, lustre: file systems; None for none.
        subnet_id: the private subnet.
    """

    compartment: str
    label: str
    availability_domain: str
    network: str
    nfs: Nfs | None = None
    lustre: Lustre | None = None
    subnet_id: pulumi.Input[str]


class Storage(pulumi.ComponentResource):
    """File systems, ready to be mounted.

    Creates: file system, mount target and export; Lustre file system.
    Outputs: `mounts`, each known once it can be mounted.
    """

    mounts: pulumi.Output[tuple[Mount, ...]]

    def __init__(self, name: str, args: StorageArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("busbar:oci:Storage", name, None, opts)
        self._name, self._args = name, args
        found = [
            *([self._nfs(args.nfs)] if args.nfs else []),
            *([self._lustre(args.lustre)] if args.lustre else []),
        ]
        self.mounts = pulumi.Output.all(*found).apply(tuple)
        self.register_outputs({"mounts": self.mounts.apply(lambda mounts: [mount.line for mount in mounts])})

    def _nfs(self, wanted: Nfs) -> pulumi.Output[Mount]:
        name, args = self._name, self._args
        system = filestorage.FileSystem(
            f"{name}-files",
            compartment_id=args.compartment,
            availability_domain=args.availability_domain,
            display_name=f"{args.label}-files",
            opts=self._holding_data(wanted.on_destroy),
        )
        target = filestorage.MountTarget(
            f"{name}-target",
            compartment_id=args.compartment,
            availability_domain=args.availability_domain,
            display_name=f"{args.label}-target",
            subnet_id=args.subnet_id,
            requested_throughput=str(wanted.target_gbit_s) if wanted.target_gbit_s > 1 else None,
            opts=pulumi.ResourceOptions(parent=self),
        )
        export = filestorage.Export(
            f"{name}-export",
            file_system_id=system.id,
            export_set_id=target.export_set_id,
            path=_EXPORT,
            export_options=[
                filestorage.ExportExportOptionArgs(
                    source=args.network,
                    access="READ_WRITE",
                    identity_squash="NONE",
                    require_privileged_source_port=False,
                )
            ],
            opts=pulumi.ResourceOptions(parent=self),
        )
        return pulumi.Output.all(target.ip_address, export.path).apply(
            lambda found: Mount("nfs", f"{found[0]}:{found[1]}", wanted.mount, NFS_OPTIONS)
        )

    def _lustre(self, wanted: Lustre) -> pulumi.Output[Mount]:
        name, args = self._name, self._args
        made = lustre.FileStorageLustreFileSystem(
            f"{name}-lustre",
            compartment_id=args.compartment,
            availability_domain=args.availability_domain,
            display_name=f"{args.label}-lustre",
            file_system_name="lustre",
            capacity_in_gbs=wanted.capacity_gb,
            performance_tier=f"MBPS_PER_TB_{wanted.throughput}",
            root_squash_configuration=lustre.FileStorageLustreFileSystemRootSquashConfigurationArgs(identity_squash="NONE"),
            subnet_id=args.subnet_id,
            opts=self._holding_data(wanted.on_destroy),
        )
        return pulumi.Output.all(made.management_service_address, made.lnet, made.file_system_name).apply(
            lambda found: Mount("lustre", f"{found[0]}@{found[1]}:/{found[2]}", wanted.mount, LUSTRE_OPTIONS)
        )

    def _holding_data(self, on_destroy: str) -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions(
            parent=self,
            protect=on_destroy == "refuse",
            retain_on_delete=on_destroy == "retain",
            custom_timeouts=pulumi.CustomTimeouts(create=_CREATE, update=_UPDATE, delete=_DELETE),
        )
