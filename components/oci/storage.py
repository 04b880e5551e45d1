"""OCI's file systems: File Storage (NFS) for home folders or shared software, and Lustre for data.

The private subnet's rules admit clients, and first boot mounts what `mounts` lists. Sources: oci-hpc:fss.tf, lustre.tf.
"""

from __future__ import annotations

from typing import Any

import pulumi
from pulumi_oci import core, filestorage, lustre

from catalogue.oci.storage import CREATED_GBIT_S
from cloudinit import Mount
from cloudinit.oci_steps import LUSTRE_OPTIONS, NFS_OPTIONS
from components import replaced_data
from components.oci.preflight import Place
from components.oci.tagged_machines import stack_tags
from config.oci.model import Export, Home, Lustre, Oci

#: Timeouts: the provider's defaults for Lustre file systems (terraform-provider-oci 8.28.0, lustre_file_storage).
_CREATE, _UPDATE, _DELETE = "120m", "240m", "120m"
#: The export path cannot change, because an export set accepts a file system only once. So the path does not contain the mount
#: point, which can change.
_EXPORT = "/files"


class Storage(pulumi.ComponentResource):
    """File systems, ready to be mounted.

    Creates: file system, mount target and export; Lustre file system. Existing file systems are only read: the engine never
    deletes a resource that it has read (pulumi 3.259.0: pkg/resource/deploy/step.go, DeleteStep).
    Outputs: `mounts`, known once all file systems can be mounted.
    """

    mounts: pulumi.Output[tuple[Mount, ...]]

    def __init__(
        self, name: str, wanted: Oci, place: Place, subnet_id: pulumi.Input[str], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("busbar:oci:Storage", name, None, opts)
        self._name, self._wanted, self._subnet_id = name, wanted, subnet_id
        self._compartment, self._domain, self._vcn = wanted.compartment, place.availability_domain, place.vcn
        self._mine = pulumi.ResourceOptions(parent=self)
        found = [
            *([self._home(wanted.storage.home)] if wanted.storage.home else []),
            *([self._lustre(wanted.storage.lustre)] if wanted.storage.lustre else []),
        ]
        self.mounts = pulumi.Output.all(*found).apply(tuple)
        self.register_outputs({"mounts": self.mounts.apply(lambda mounts: [mount.line for mount in mounts])})

    def _home(self, home: Home) -> pulumi.Output[Mount]:
        if home.existing:
            return self._export_there(home, home.existing)
        name, label = self._name, self._wanted.name
        system = filestorage.FileSystem(
            f"{name}-files",
            compartment_id=self._compartment,
            freeform_tags=stack_tags(self._wanted),
            availability_domain=self._domain,
            display_name=f"{label}-files",
            opts=self._holding_data("files", "home", home),
        )
        target = filestorage.MountTarget(
            f"{name}-target",
            compartment_id=self._compartment,
            freeform_tags=stack_tags(self._wanted),
            availability_domain=self._domain,
            display_name=f"{label}-target",
            subnet_id=self._subnet_id,
            requested_throughput=str(home.throughput_gbit_s) if home.throughput_gbit_s > CREATED_GBIT_S else None,
            opts=pulumi.ResourceOptions(parent=self, hooks=_no_faster_creation(f"{name}-target", home.throughput_gbit_s)),
        )
        export = filestorage.Export(
            f"{name}-export",
            file_system_id=system.id,
            export_set_id=target.export_set_id,
            path=_EXPORT,
            export_options=[
                filestorage.ExportExportOptionArgs(
                    source=source,
                    access="READ_WRITE",
                    identity_squash="NONE",
                    # Prevents unprivileged programs from speaking NFS as root; Linux mounts from a privileged port by default,
                    # nfs(5).
                    require_privileged_source_port=True,
                )
                for source in self._clients()
            ],
            opts=pulumi.ResourceOptions(parent=self),
        )
        return pulumi.Output.all(address=target.ip_address, path=export.path).apply(
            lambda its: Mount("nfs", f"{its['address']}:{its['path']}", home.mount, NFS_OPTIONS, home.share_login_user)
        )

    def _clients(self) -> list[str]:
        """Return the networks of the machines that mount the export; with Slurm, the login node mounts it, too."""
        network = self._wanted.network
        # With existing subnets, `vcn` is the range of the nodes' subnet (components.oci.existing).
        return [network.vcn, *([network.public] if network.existing and self._wanted.slurm else [])]

    def _export_there(self, home: Home, own: Export) -> pulumi.Output[Mount]:
        target = filestorage.MountTarget.get(f"{self._name}-target-existing", own.mount_target, opts=self._mine)
        exports = filestorage.get_exports_output(
            compartment_id=target.compartment_id, export_set_id=target.export_set_id, state="ACTIVE"
        ).exports
        known = pulumi.Output.all(address=target.ip_address, exports=exports, vcn=self._vcn_of(target.subnet_id))

        def mount(address: str, exports: list[Any], vcn: str) -> Mount:
            self._judge_vcn("home.existing.mountTarget", own.mount_target, vcn)
            paths = sorted(str(one["path"]) for one in exports)
            if own.path not in paths and (own.path or len(paths) != 1):
                raise pulumi.RunError(
                    f"oci.storage.home.existing.path is {own.path or 'not set'}, but {own.mount_target} exports "
                    f"{', '.join(paths) or 'nothing'}; name an export of this mount target"
                )
            return Mount("nfs", f"{address}:{own.path or paths[0]}", home.mount, NFS_OPTIONS, home.share_login_user)

        return known.apply(lambda its: mount(**its))

    def _vcn_of(self, subnet: pulumi.Output[str]) -> pulumi.Output[str]:
        return core.get_subnet_output(subnet_id=subnet).vcn_id

    def _judge_vcn(self, key: str, name: str, vcn: str) -> None:
        if vcn != self._vcn:
            raise pulumi.RunError(f"oci.storage.{key} is {name}, which is in {vcn}, but nodes are in {self._vcn}; use one VCN")

    def _lustre_there(self, system: Lustre, name: str) -> pulumi.Output[Mount]:
        there = lustre.FileStorageLustreFileSystem.get(f"{self._name}-lustre-existing", name, opts=self._mine)
        known = pulumi.Output.all(
            address=there.management_service_address,
            net=there.lnet,
            called=there.file_system_name,
            vcn=self._vcn_of(there.subnet_id),
        )

        def mount(address: str, net: str, called: str, vcn: str) -> Mount:
            self._judge_vcn("lustre.existing", name, vcn)
            return _lustre_mount(address, net, called, system.mount)

        return known.apply(lambda its: mount(**its))

    def _lustre(self, system: Lustre) -> pulumi.Output[Mount]:
        if system.existing:
            return self._lustre_there(system, system.existing)
        name, label = self._name, self._wanted.name
        made = lustre.FileStorageLustreFileSystem(
            f"{name}-lustre",
            compartment_id=self._compartment,
            freeform_tags=stack_tags(self._wanted),
            availability_domain=self._domain,
            display_name=f"{label}-lustre",
            file_system_name="lustre",
            capacity_in_gbs=system.size_gb,
            performance_tier=f"MBPS_PER_TB_{system.throughput_mb_s}",
            root_squash_configuration=lustre.FileStorageLustreFileSystemRootSquashConfigurationArgs(identity_squash="NONE"),
            subnet_id=self._subnet_id,
            opts=self._holding_data("lustre", "lustre", system),
        )
        known = pulumi.Output.all(address=made.management_service_address, net=made.lnet, called=made.file_system_name)
        return known.apply(lambda its: _lustre_mount(**its, path=system.mount))

    def _holding_data(self, noun: str, key: str, its: Home | Lustre) -> pulumi.ResourceOptions:
        """Return the options of a resource called `noun`, which holds the data of `oci.storage.KEY` in the stack file."""
        return pulumi.ResourceOptions(
            parent=self,
            protect=its.on_destroy == "refuse",
            retain_on_delete=its.on_destroy == "retain",
            custom_timeouts=pulumi.CustomTimeouts(create=_CREATE, update=_UPDATE, delete=_DELETE),
            hooks=replaced_data.asks_first(f"{self._name}-{noun}", f"oci.storage.{key}.allowReplace", its.allow_replace),
        )


def _no_faster_creation(name: str, throughput_gbit_s: int) -> pulumi.ResourceHookBinding | None:
    """Return the hook that refuses to create a mount target with more throughput than a new mount target can have.

    Return None if a new mount target can have the throughput.
    """
    if throughput_gbit_s <= CREATED_GBIT_S:
        return None

    async def look(_: pulumi.ResourceHookArgs) -> None:
        raise pulumi.RunError(
            f"oci.storage.home.throughput is {throughput_gbit_s} Gbit/s, but OCI creates mount targets with "
            f"{CREATED_GBIT_S} Gbit/s only: remove this key, update, then set the key again and update once more."
        )

    hook = pulumi.ResourceHook(f"{name}-speed", look, pulumi.ResourceHookOptions(on_dry_run=True))
    return pulumi.ResourceHookBinding(before_create=[hook])


def _lustre_mount(address: str, net: str, called: str, path: str) -> Mount:
    return Mount("lustre", f"{address}@{net}:/{called}", path, LUSTRE_OPTIONS)
