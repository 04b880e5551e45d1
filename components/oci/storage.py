"""File systems of the vendor's own: File Storage (NFS) for home folders or shared software, and Lustre for data.

It deliberately opens no port and mounts nothing: the private subnet lets its own network in already, and `mounts` says what a
first boot writes into its table. Data are protected, retained or deleted as was said. Sources: oci-hpc:fss.tf, lustre.tf, roles
nfs-client and lustre_client.
"""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
from pulumi_oci import filestorage, lustre

#: Destroying the stack fails, leaves the data where they are, or deletes them.
ON_DESTROY = ("refuse", "retain", "delete")
_CREATE, _UPDATE, _DELETE = "60m", "240m", "60m"
_NFS_OPTIONS = "defaults,noatime,nconnect=16,_netdev"
_LUSTRE_OPTIONS = "defaults,_netdev"
#: Throughput of a mount target in Gb/s: the standard one, and the high-performance ones.
_MOUNT_TARGET_GBPS = (1, 20, 40, 80)
_STEP_GB = 31_200
_TIERS = (125, 250, 500, 1000)


@dataclass(frozen=True, kw_only=True)
class Nfs:
    """A File Storage file system behind one mount target.

    Attributes:
        mount: where nodes mount it.
        target_gbps: throughput of the mount target, Gb/s: 1, or 20, 40 or 80 for a high-performance one.
        on_destroy: what destroying the stack does to it, one of `ON_DESTROY`.
    """

    mount: str = "/fss"
    target_gbps: int = 1
    on_destroy: str = "refuse"

    def __post_init__(self) -> None:
        """Refuse what the vendor does not offer."""
        if self.target_gbps not in _MOUNT_TARGET_GBPS:
            msg = f"the mount target has {self.target_gbps} Gb/s; the vendor offers {', '.join(map(str, _MOUNT_TARGET_GBPS))}"
            raise ValueError(msg)
        _check(self.mount, self.on_destroy)


@dataclass(frozen=True, kw_only=True)
class Lustre:
    """A Lustre file system.

    Attributes:
        capacity_gb: its size, decimal GB.
        throughput: MB/s for each TB of it.
        mount: where nodes mount it.
        on_destroy: what destroying the stack does to it, one of `ON_DESTROY`.
    """

    capacity_gb: int = _STEP_GB
    throughput: int = 125
    mount: str = "/lustre"
    on_destroy: str = "refuse"

    def __post_init__(self) -> None:
        """Refuse what the vendor does not offer."""
        if self.capacity_gb < _STEP_GB or self.capacity_gb % _STEP_GB:
            msg = f"the Lustre file system has {self.capacity_gb} GB; it must be a multiple of {_STEP_GB}"
            raise ValueError(msg)
        if self.throughput not in _TIERS:
            msg = f"the Lustre file system has {self.throughput} MB/s for each TB; tiers are {', '.join(map(str, _TIERS))}"
            raise ValueError(msg)
        _check(self.mount, self.on_destroy)


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
    Outputs: `mounts`, one line of a table of file systems for each, known once it can be mounted.
    """

    mounts: pulumi.Output[tuple[str, ...]]

    def __init__(self, name: str, args: StorageArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("busbar:oci:Storage", name, None, opts)
        self._name, self._args = name, args
        lines = [
            *([self._nfs(args.nfs)] if args.nfs else []),
            *([self._lustre(args.lustre)] if args.lustre else []),
        ]
        self.mounts = pulumi.Output.all(*lines).apply(lambda found: tuple(str(line) for line in found))
        self.register_outputs({"mounts": self.mounts})

    def _nfs(self, wanted: Nfs) -> pulumi.Output[str]:
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
            requested_throughput=str(wanted.target_gbps) if wanted.target_gbps > 1 else None,
            opts=pulumi.ResourceOptions(parent=self),
        )
        export = filestorage.Export(
            f"{name}-export",
            file_system_id=system.id,
            export_set_id=target.export_set_id,
            path=wanted.mount,
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
            lambda found: f"{found[0]}:{found[1]} {wanted.mount} nfs {_NFS_OPTIONS} 0 0"
        )

    def _lustre(self, wanted: Lustre) -> pulumi.Output[str]:
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
            lambda found: f"{found[0]}@{found[1]}:/{found[2]} {wanted.mount} lustre {_LUSTRE_OPTIONS} 0 0"
        )

    def _holding_data(self, on_destroy: str) -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions(
            parent=self,
            protect=on_destroy == "refuse",
            retain_on_delete=on_destroy == "retain",
            custom_timeouts=pulumi.CustomTimeouts(create=_CREATE, update=_UPDATE, delete=_DELETE),
        )


def _check(mount: str, on_destroy: str) -> None:
    if not mount.startswith("/") or mount == "/":
        msg = f"a file system is mounted at {mount!r}; it must be an absolute path of its own, like /fss"
        raise ValueError(msg)
    if on_destroy not in ON_DESTROY:
        msg = f"onDestroy is {on_destroy!r}; it must be one of {', '.join(ON_DESTROY)}"
        raise ValueError(msg)
