"""File systems: FSx for Lustre with folders that mirror S3, and FSx for OpenZFS for home folders.

FSx checks the security group's rules when it creates a file system, so the rules must exist before the file system.
`onDestroy: refuse` protects only the file systems and the bucket. `retain` also keeps the resources that file systems and
bucket need, except the route tables of a home file system in two zones.
"""

from __future__ import annotations

import pulumi
from pulumi_aws import fsx, s3

from catalogue.aws.regions import needs_second_zone
from cloudinit.aws import Mounts
from components import replaced_data
from components.after import after
from components.aws.launch_inputs import stack_tags
from components.aws.network import Network
from config.aws.model import Aws, Home, Lustre, Mirror

#: Creation takes about ten minutes, and growing takes hours (FSx user guides); the provider's default timeout is 30 minutes.
_CREATE, _UPDATE, _DELETE = "60m", "240m", "60m"
_EVENTS = ["NEW", "CHANGED", "DELETED"]
_BACKUP_AT = "19:00"


class Storage(pulumi.ComponentResource):
    """File systems, ready to be mounted.

    Creates: Lustre file system, its data repository associations and, if a folder names no bucket, one private bucket; OpenZFS
    file system. Existing file systems are only read: the engine never deletes a resource that it has read (pulumi 3.259.0:
    pkg/resource/deploy/step.go, DeleteStep).
    Outputs: `mounts`, what first boot mounts, known once the associations are available; `bucket`, a new bucket's name or None.
    """

    mounts: pulumi.Output[Mounts]
    bucket: pulumi.Output[str] | None

    def __init__(
        self,
        name: str,
        wanted: Aws,
        network: Network,
        group_id: pulumi.Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("busbar:aws:Storage", name, None, opts)
        self._name, self._wanted, self._network, self._group_id = name, wanted, network, group_id
        self._mine = pulumi.ResourceOptions(parent=self)
        self.bucket = None
        storage = wanted.storage
        lustre = self._lustre(storage.lustre) if storage.lustre else pulumi.Output.from_input(("", ""))
        home = self._home(storage.home) if storage.home else pulumi.Output.from_input("")
        known = pulumi.Output.all(lustre=lustre, home=home)
        self.mounts = known.apply(lambda its: _mounts(wanted, tuple(its["lustre"]), its["home"]))
        self.register_outputs({"bucket": self.bucket})

    def _lustre(self, lustre: Lustre) -> pulumi.Output[tuple[str, ...]]:
        """Return DNS name and mount name, known once all data repository associations are available."""
        if lustre.existing:
            there = fsx.LustreFileSystem.get(f"{self._name}-lustre-existing", lustre.existing, opts=self._mine)
            place = pulumi.Output.all(its=there.dns_name, vpc=there.vpc_id, here=self._network.vpc_id)
            known = pulumi.Output.all(place=place, name=there.mount_name, efa=there.efa_enabled)
            return known.apply(lambda found: _lustre_there(lustre, **found))
        made = fsx.LustreFileSystem(
            f"{self._name}-lustre",
            deployment_type="PERSISTENT_2",
            storage_type="SSD",
            file_system_type_version="2.15",
            storage_capacity=lustre.size_gib,
            per_unit_storage_throughput=lustre.throughput_mb_s,
            data_compression_type="LZ4",
            metadata_configuration=fsx.LustreFileSystemMetadataConfigurationArgs(mode="AUTOMATIC"),
            efa_enabled=lustre.efa,
            automatic_backup_retention_days=lustre.backups_days,
            skip_final_backup=lustre.on_destroy == "delete" or not lustre.backups_days,
            subnet_ids=self._network.private_subnet_id,
            security_group_ids=[self._group_id],
            tags=stack_tags(self._wanted, "lustre"),
            opts=self._holding_data("lustre", "lustre", lustre),
        )
        joined = [self._association(index, one, made, lustre) for index, one in enumerate(lustre.mirrors)]
        place = pulumi.Output.all(dns=made.dns_name, mount=made.mount_name)
        return after(place, *(each.id for each in joined)).apply(lambda its: (str(its["dns"]), str(its["mount"])))

    def _association(
        self, index: int, one: Mirror, system: fsx.LustreFileSystem, lustre: Lustre
    ) -> fsx.DataRepositoryAssociation:
        if not one.bucket and self.bucket is None:
            self.bucket = self._bucket(lustre)
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
            tags=stack_tags(self._wanted, "mirror"),
            opts=pulumi.ResourceOptions(
                parent=self, custom_timeouts=_timeouts(), retain_on_delete=lustre.on_destroy == "retain"
            ),
        )

    def _bucket(self, lustre: Lustre) -> pulumi.Output[str]:
        """Return the name of a private bucket as an output that is known once public access is blocked."""
        retained = pulumi.ResourceOptions(parent=self, retain_on_delete=lustre.on_destroy == "retain")
        bucket = s3.Bucket(
            f"{self._name}-bucket",
            force_destroy=lustre.on_destroy == "delete",
            tags=stack_tags(self._wanted, "data"),
            opts=self._holding_data("bucket", "lustre", lustre),
        )
        closed = s3.BucketPublicAccessBlock(
            f"{self._name}-bucket-closed",
            bucket=bucket.id,
            block_public_acls=True,
            block_public_policy=True,
            ignore_public_acls=True,
            restrict_public_buckets=True,
            opts=retained,
        )
        owned = s3.BucketOwnershipControls(
            f"{self._name}-bucket-owner",
            bucket=bucket.id,
            rule=s3.BucketOwnershipControlsRuleArgs(object_ownership="BucketOwnerEnforced"),
            opts=retained,
        )
        return after(bucket.bucket, closed.id, owned.id)

    def _home(self, home: Home) -> pulumi.Output[str]:
        """Return the DNS name of the file system for home folders."""
        if home.existing:
            there = fsx.OpenZfsFileSystem.get(f"{self._name}-home-existing", home.existing, opts=self._mine)
            place = pulumi.Output.all(its=there.dns_name, vpc=there.vpc_id, here=self._network.vpc_id)
            return place.apply(lambda found: _in_vpc("home", home.existing or "", **found))
        return self._made_home(home).dns_name

    def _made_home(self, home: Home) -> fsx.OpenZfsFileSystem:
        network, deployment = self._network, self._wanted.home_deployment
        two = needs_second_zone(deployment)
        export = fsx.OpenZfsFileSystemRootVolumeConfigurationNfsExportsClientConfigurationArgs(
            clients="*", options=["rw", "no_root_squash", "crossmnt"]
        )
        return fsx.OpenZfsFileSystem(
            f"{self._name}-home",
            deployment_type=deployment,
            storage_type="SSD",
            storage_capacity=home.size_gib,
            throughput_capacity=home.throughput_mb_s,
            root_volume_configuration=fsx.OpenZfsFileSystemRootVolumeConfigurationArgs(
                data_compression_type="NONE",
                nfs_exports=fsx.OpenZfsFileSystemRootVolumeConfigurationNfsExportsArgs(client_configurations=[export]),
            ),
            subnet_ids=[network.private_subnet_id, *([network.second_subnet_id] if two and network.second_subnet_id else [])],
            preferred_subnet_id=network.private_subnet_id if two else None,
            # The public subnet's route table is in the list, too: otherwise the login node loses its home folders when the file
            # system's address moves.
            route_table_ids=list(network.route_table_ids) if two else None,
            security_group_ids=[self._group_id],
            automatic_backup_retention_days=home.backups_days,
            daily_automatic_backup_start_time=_BACKUP_AT if home.backups_days else None,
            delete_options=["DELETE_CHILD_VOLUMES_AND_SNAPSHOTS"],
            skip_final_backup=home.on_destroy == "delete",
            tags=stack_tags(self._wanted, "home"),
            opts=self._holding_data("home", "home", home),
        )

    def _holding_data(self, noun: str, key: str, its: Lustre | Home) -> pulumi.ResourceOptions:
        """Return the options of a resource that holds data: `noun` names the resource, `key` its file system."""
        return pulumi.ResourceOptions(
            parent=self,
            protect=its.on_destroy == "refuse",
            retain_on_delete=its.on_destroy == "retain",
            custom_timeouts=_timeouts(),
            hooks=replaced_data.asks_first(f"{self._name}-{noun}", f"aws.storage.{key}.allowReplace", its.allow_replace),
        )


def _lustre_there(lustre: Lustre, place: dict[str, str], name: str, efa: bool | None) -> tuple[str, str]:
    if lustre.efa and not efa:
        raise pulumi.RunError(
            f"aws.storage.lustre.efa is true, but {lustre.existing} was created without EFA, and EFA cannot be added later; "
            "unset efa"
        )
    return _in_vpc("lustre", lustre.existing or "", **place), name


def _in_vpc(key: str, system: str, its: str, vpc: str, here: str) -> str:
    """Return `its`, which is the DNS name of the file system `system`.

    Raises:
        pulumi.RunError: `vpc`, the file system's VPC, is not `here`, the VPC of this stack's machines.
    """
    if vpc != here:
        raise pulumi.RunError(
            f"aws.storage.{key}.existing is {system}, which is in {vpc}, but machines are in {here}; a file system's name "
            "resolves only in its own VPC"
        )
    return its


def _timeouts() -> pulumi.CustomTimeouts:
    return pulumi.CustomTimeouts(create=_CREATE, update=_UPDATE, delete=_DELETE)


def _mounts(wanted: Aws, lustre: tuple[str, ...], home: str) -> Mounts:
    storage, its = wanted.storage, wanted.storage.lustre
    return Mounts(
        lustre=(lustre[0], lustre[1]) if its else None,
        lustre_at=its.mount if its else "",
        lustre_key=(its.client_key or "") if its else "",
        lustre_efa=(its.efa_setup_sha256 or "") if its and its.efa else "",
        home=home,
        home_at=storage.home.mount if storage.home else "",
        login_home=storage.home.share_login_user if storage.home else False,
    )
