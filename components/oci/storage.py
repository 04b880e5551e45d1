"""File systems of the vendor's own: File Storage (NFS) for home folders or shared software, and Lustre for data.

The private subnet's rules let clients in, and a first boot mounts what `mounts` says. Sources: oci-hpc:fss.tf, lustre.tf.
"""

from __future__ import annotations

import pulumi
from pulumi_oci import filestorage, lustre

from cloudinit import Mount
from cloudinit.oci_steps import LUSTRE_OPTIONS, NFS_OPTIONS
from components.oci.preflight import Place
from config.oci.model import Home, Lustre, Oci

#: The provider's own for Lustre; less would halve them (terraform-provider-oci 8.28.0, lustre_file_storage).
_CREATE, _UPDATE, _DELETE = "120m", "240m", "120m"
#: Path that clients name, independent of where they mount it: an export set takes a file system once, so it cannot change.
_EXPORT = "/files"


class Storage(pulumi.ComponentResource):
    """File systems, ready to be mounted.

    Creates: file system, mount target and export; Lustre file system.
    Outputs: `mounts`, each known once it can be mounted.
    """

    mounts: pulumi.Output[tuple[Mount, ...]]

    def __init__(
        self, name: str, wanted: Oci, place: Place, subnet_id: pulumi.Input[str], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("busbar:oci:Storage", name, None, opts)
        self._name, self._wanted, self._subnet_id = name, wanted, subnet_id
        self._compartment, self._domain = wanted.compartment, place.availability_domain
        found = [
            *([self._home(wanted.storage.home)] if wanted.storage.home else []),
            *([self._lustre(wanted.storage.lustre)] if wanted.storage.lustre else []),
        ]
        self.mounts = pulumi.Output.all(*found).apply(tuple)
        self.register_outputs({"mounts": self.mounts.apply(lambda mounts: [mount.line for mount in mounts])})

    def _home(self, home: Home) -> pulumi.Output[Mount]:
        name, label = self._name, self._wanted.name
        system = filestorage.FileSystem(
            f"{name}-files",
            compartment_id=self._compartment,
            freeform_tags=self._wanted.all_tags,
            availability_domain=self._domain,
            display_name=f"{label}-files",
            opts=self._holding_data(home.on_destroy),
        )
        target = filestorage.MountTarget(
            f"{name}-target",
            compartment_id=self._compartment,
            freeform_tags=self._wanted.all_tags,
            availability_domain=self._domain,
            display_name=f"{label}-target",
            subnet_id=self._subnet_id,
            requested_throughput=str(home.throughput_gbit_s) if home.throughput_gbit_s > 1 else None,
            opts=pulumi.ResourceOptions(parent=self),
        )
        export = filestorage.Export(
            f"{name}-export",
            file_system_id=system.id,
            export_set_id=target.export_set_id,
            path=_EXPORT,
            export_options=[
                filestorage.ExportExportOptionArgs(
                    source=self._wanted.network.vcn,
                    access="READ_WRITE",
                    identity_squash="NONE",
                    require_privileged_source_port=False,
                )
            ],
            opts=pulumi.ResourceOptions(parent=self),
        )
        return pulumi.Output.all(target.ip_address, export.path).apply(
            lambda found: Mount("nfs", f"{found[0]}:{found[1]}", home.mount, NFS_OPTIONS)
        )

    def _lustre(self, system: Lustre) -> pulumi.Output[Mount]:
        name, label = self._name, self._wanted.name
        made = lustre.FileStorageLustreFileSystem(
            f"{name}-lustre",
            compartment_id=self._compartment,
            freeform_tags=self._wanted.all_tags,
            availability_domain=self._domain,
            display_name=f"{label}-lustre",
            file_system_name="lustre",
            capacity_in_gbs=system.size_gb,
            performance_tier=f"MBPS_PER_TB_{system.throughput_mb_s}",
            root_squash_configuration=lustre.FileStorageLustreFileSystemRootSquashConfigurationArgs(identity_squash="NONE"),
            subnet_id=self._subnet_id,
            opts=self._holding_data(system.on_destroy),
        )
        return pulumi.Output.all(made.management_service_address, made.lnet, made.file_system_name).apply(
            lambda found: Mount("lustre", f"{found[0]}@{found[1]}:/{found[2]}", system.mount, LUSTRE_OPTIONS)
        )

    def _holding_data(self, on_destroy: str) -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions(
            parent=self,
            protect=on_destroy == "refuse",
            retain_on_delete=on_destroy == "retain",
            custom_timeouts=pulumi.CustomTimeouts(create=_CREATE, update=_UPDATE, delete=_DELETE),
        )
