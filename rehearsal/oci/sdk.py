"""Maps each resource type to the module of OCI's Pulumi SDK that defines the type."""

from __future__ import annotations

from rehearsal.plugin.sdk import Sdk

SDK = Sdk(
    "oci",
    {
        "oci:Core/vcn:Vcn": "core.vcn",
        "oci:Core/internetGateway:InternetGateway": "core.internet_gateway",
        "oci:Core/natGateway:NatGateway": "core.nat_gateway",
        "oci:Core/serviceGateway:ServiceGateway": "core.service_gateway",
        "oci:Core/routeTable:RouteTable": "core.route_table",
        "oci:Core/securityList:SecurityList": "core.security_list",
        "oci:Core/dhcpOptions:DhcpOptions": "core.dhcp_options",
        "oci:Core/subnet:Subnet": "core.subnet",
        "oci:Core/image:Image": "core.image",
        "oci:Core/shapeManagement:ShapeManagement": "core.shape_management",
        "oci:Core/instance:Instance": "core.instance",
        "oci:Core/instanceConfiguration:InstanceConfiguration": "core.instance_configuration",
        "oci:Core/clusterNetwork:ClusterNetwork": "core.cluster_network",
        "oci:Core/consoleHistory:ConsoleHistory": "core.console_history",
        "oci:Core/appCatalogListingResourceVersionAgreement:AppCatalogListingResourceVersionAgreement": (
            "core.app_catalog_listing_resource_version_agreement"
        ),
        "oci:Core/appCatalogSubscription:AppCatalogSubscription": "core.app_catalog_subscription",
        "oci:Identity/dynamicGroup:DynamicGroup": "identity.dynamic_group",
        "oci:Identity/policy:Policy": "identity.policy",
        "oci:FileStorage/fileSystem:FileSystem": "filestorage.file_system",
        "oci:FileStorage/mountTarget:MountTarget": "filestorage.mount_target",
        "oci:FileStorage/export:Export": "filestorage.export",
        "oci:Lustre/fileStorageLustreFileSystem:FileStorageLustreFileSystem": "lustre.file_storage_lustre_file_system",
    },
)
