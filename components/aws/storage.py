"""The file systems: FSx for Lustre with folders that mirror S3, and FSx for OpenZFS for home folders.

It deliberately opens no port: the group that it is given must have its rules, for FSx looks at them when it creates. What holds
data is protected, retained or deleted as was said; nothing else is.
"""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
from pulumi_aws import fsx, s3

from catalogue.aws import Lustre, OpenZfs, Repository
from catalogue.aws.regions import needs_second_zone
from cloudinit.aws import Mounts
from components.aws.network import NetworkArgs

#: Creation takes some ten minutes, and growing hours (FSx user guides); the provider gives up after thirty.
_CREATE, _UPDATE, _DELETE = "60m", "240m", "60m"
_EVENTS = ["NEW", "CHANGED", "DELETED"]
_BACKUP_AT = "19:00"


@dataclass(frozen=True, kw_only=True)
class StorageArgs:
    """What file systems are wanted.

    Attributes:
        network: names and tags.
        lustre, home: file systems; None for none.
        deployment: the OpenZFS deployment type.
        group_id: the storage group, usable once its rules are in place.
        subnet_id: the nodes' subnet; `second_subnet_id` another zone's, for a type that stands in two.
        route_table_ids: tables of all subnets with clients, for a type that moves its address between zones.
    """

    network: NetworkArgs
    lustre: Lustre | None
    home: OpenZfs | None
    deployment: str
    group_id: pulumi.Input[str]
    subnet_id: pulumi.Input[str]
    second_subnet_id: pulumi.Input[str] | None
    route_table_ids: tuple[pulumi.Input[str], ...]


class Storage(pulumi.ComponentResource):
    """File systems, ready to be mounted.

    Creates: Lustre file system, its data repository associations and, where a folder names no bucket, one private bucket;
    OpenZFS file system.
    Outputs: `mounts` (what a first boot mounts; known once associations are available), `bucket` (its name, or None).
    """

    mounts: pulumi.Output[Mounts]
    bucket: pulumi.Output[str] | None

    def __init__(self, name: str, args: StorageArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("busbar:aws:Storage", name, None, opts)
        self._name, self._args = name, args
        self.bucket = None
        lustre = self._lustre(args.lustre) if args.lustre else pulumi.Output.from_input(("", ""))
        home = self._home(args.home).dns_name if args.home else pulumi.Output.from_input("")
        self.mounts = pulumi.Output.all(lustre, home).apply(lambda both: _mounts(args, tuple(both[0]), str(both[1])))
        self.register_outputs({"bucket": self.bucket})

    def _lustre(self, wanted: Lustre) -> pulumi.Output[tuple[str, ...]]:
        """Return DNS name and mount name, known once all associations are available."""
        args = self._args
        made = fsx.LustreFileSystem(
            f"{self._name}-lustre",
            deployment_type="PERSISTENT_2",
            storage_type="SSD",
            file_system_type_version="2.15",
            storage_capacity=wanted.capacity_gib,
            per_unit_storage_throughput=wanted.throughput,
            data_compression_type="LZ4",
            metadata_configuration=fsx.LustreFileSystemMetadataConfigurationArgs(mode="AUTOMATIC"),
            efa_enabled=wanted.efa,
            automatic_backup_retention_days=wanted.backup_days,
            skip_final_backup=wanted.on_destroy == "delete" or not wanted.backup_days,
            subnet_ids=_text(args.subnet_id),
            security_group_ids=[args.group_id],
            tags=args.network.named("lustre"),
            opts=self._holding_data(wanted.on_destroy),
        )
        joined = [self._association(index, one, made, wanted) for index, one in enumerate(wanted.repositories)]
        return pulumi.Output.all(made.dns_name, made.mount_name, *(each.id for each in joined)).apply(
            lambda found: (str(found[0]), str(found[1]))
        )

    def _association(
        self, index: int, one: Repository, system: fsx.LustreFileSystem, wanted: Lustre
    ) -> fsx.DataRepositoryAssociation:
        if not one.bucket and self.bucket is None:
            self.bucket = self._bucket(wanted.on_destroy)
        bucket: pulumi.Input[str] | None = one.bucket or self.bucket
        policy = fsx.DataRepositoryAssociationS3Args(
            auto_import_policy=fsx.DataRepositoryAssociationS3AutoImportPolicyArgs(events=_EVENTS),
            auto_export_policy=fsx.DataRepositoryAssociationS3AutoExportPolicyArgs(events=_EVENTS),
        )
        return fsx.DataRepositoryAssociation(
            f"{self._name}-mirror-{index}",
            file_system_id=system.id,
            file_system_path=one.path,
            data_repository_path=pulumi.Output.concat("s3://", bucket or "", f"/{one.prefix.strip('/')}" if one.prefix else ""),
            s3=policy,
            batch_import_meta_data_on_create=True,
            tags=self._args.network.named("mirror"),
            opts=pulumi.ResourceOptions(
                parent=self, custom_timeouts=_timeouts(), retain_on_delete=wanted.on_destroy == "retain"
            ),
        )

    def _bucket(self, on_destroy: str) -> pulumi.Output[str]:
        """Return the name of a private bucket, usable once nobody else can be let in."""
        bucket = s3.Bucket(
            f"{self._name}-bucket",
            force_destroy=on_destroy == "delete",
            tags=self._args.network.named("data"),
            opts=self._holding_data(on_destroy),
        )
        closed = s3.BucketPublicAccessBlock(
            f"{self._name}-bucket-closed",
            bucket=bucket.id,
            block_public_acls=True,
            block_public_policy=True,
            ignore_public_acls=True,
            restrict_public_buckets=True,
            opts=pulumi.ResourceOptions(parent=self, retain_on_delete=on_destroy == "retain"),
        )
        owned = s3.BucketOwnershipControls(
            f"{self._name}-bucket-owner",
            bucket=bucket.id,
            rule=s3.BucketOwnershipControlsRuleArgs(object_ownership="BucketOwnerEnforced"),
            opts=pulumi.ResourceOptions(parent=self, retain_on_delete=on_destroy == "retain"),
        )
        return pulumi.Output.all(bucket.bucket, closed.id, owned.id).apply(lambda found: str(found[0]))

    def _home(self, wanted: OpenZfs) -> fsx.OpenZfsFileSystem:
        args = self._args
        two = needs_second_zone(args.deployment)
        export = fsx.OpenZfsFileSystemRootVolumeConfigurationNfsExportsClientConfigurationArgs(
            clients="*", options=["rw", "no_root_squash", "crossmnt"]
        )
        if two and args.second_subnet_id is None:
            raise ValueError(f"an OpenZFS file system of type {args.deployment} stands in two zones, and there is one subnet")
        return fsx.OpenZfsFileSystem(
            f"{self._name}-home",
            deployment_type=args.deployment,
            storage_type="SSD",
            storage_capacity=wanted.capacity_gib,
            throughput_capacity=wanted.mbps,
            root_volume_configuration=fsx.OpenZfsFileSystemRootVolumeConfigurationArgs(
                data_compression_type="NONE",
                nfs_exports=fsx.OpenZfsFileSystemRootVolumeConfigurationNfsExportsArgs(client_configurations=[export]),
            ),
            subnet_ids=[args.subnet_id, *([args.second_subnet_id] if two and args.second_subnet_id else [])],
            preferred_subnet_id=args.subnet_id if two else None,
            # The public table too: otherwise the head loses its home folders when the address moves.
            route_table_ids=list(args.route_table_ids) if two else None,
            security_group_ids=[args.group_id],
            automatic_backup_retention_days=wanted.backup_days,
            daily_automatic_backup_start_time=_BACKUP_AT if wanted.backup_days else None,
            delete_options=["DELETE_CHILD_VOLUMES_AND_SNAPSHOTS"],
            skip_final_backup=wanted.on_destroy == "delete",
            tags=args.network.named("home"),
            opts=self._holding_data(wanted.on_destroy),
        )

    def _holding_data(self, on_destroy: str) -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions(
            parent=self,
            protect=on_destroy == "refuse",
            retain_on_delete=on_destroy == "retain",
            custom_timeouts=_timeouts(),
        )


def _timeouts() -> pulumi.CustomTimeouts:
    return pulumi.CustomTimeouts(create=_CREATE, update=_UPDATE, delete=_DELETE)


def _text(value: pulumi.Input[str]) -> pulumi.Output[str]:
    return pulumi.Output.from_input(value)


def _mounts(args: StorageArgs, lustre: tuple[str, ...], home: str) -> Mounts:
    return Mounts(
        lustre=(lustre[0], lustre[1]) if args.lustre else None,
        lustre_at=args.lustre.mount if args.lustre else "",
        lustre_efa=bool(args.lustre and args.lustre.efa),
        home=home,
        home_at=args.home.mount if args.home else "",
    )
