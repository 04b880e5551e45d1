"""Permissions for target oci: of the operator (by resource and look-up), the vendor's own service, and Slurm's controller.

Sources: Oracle, "Details for the Core Services" (docs.oracle.com/iaas/Content/Identity/Reference/corepolicyreference.htm), and
the corresponding pages of File Storage, Lustre and Limits; for the service, oci-hpc documentation/Prerequisites.md. Each of the
verbs manage, use, read and inspect includes the verbs after it.
"""

from __future__ import annotations

NETWORK = "manage virtual-network-family"
INSTANCES = "manage instance-family"
CLUSTERS = "manage compute-management-family"
FILES = "manage file-family"
LUSTRE = "manage lustre-file-family"
COMPARTMENTS = "inspect compartments in tenancy"
TENANCIES = "inspect tenancies in tenancy"
LIMITS = "inspect limits in tenancy"
GROUPS = "manage dynamic-groups in tenancy"
POLICIES = "manage policies"

#: Class or function of the provider's SDK, by module -> the permission that it needs. A permission applies to the compartment
#: unless the permission names another scope.
RIGHTS: dict[str, dict[str, str]] = {
    "core": {
        "Vcn": NETWORK,
        "Subnet": NETWORK,
        "RouteTable": NETWORK,
        "SecurityList": NETWORK,
        "InternetGateway": NETWORK,
        "NatGateway": NETWORK,
        "ServiceGateway": NETWORK,
        "get_subnet": NETWORK,
        "get_route_tables": NETWORK,
        "get_security_lists": NETWORK,
        "get_private_ips": NETWORK,
        "get_vnic_attachments": NETWORK,
        "get_services": NETWORK,
        "Instance": INSTANCES,
        "ConsoleHistory": INSTANCES,
        "Image": INSTANCES,
        "ShapeManagement": INSTANCES,
        "AppCatalogListingResourceVersionAgreement": INSTANCES,
        "AppCatalogSubscription": INSTANCES,
        "get_console_history_data": INSTANCES,
        "get_image": INSTANCES,
        "get_images": INSTANCES,
        "get_instances": INSTANCES,
        "get_shapes": INSTANCES,
        "InstanceConfiguration": CLUSTERS,
        "ClusterNetwork": CLUSTERS,
        "get_cluster_networks": CLUSTERS,
        "get_cluster_network_instances": CLUSTERS,
    },
    "filestorage": {"FileSystem": FILES, "MountTarget": FILES, "Export": FILES, "get_exports": FILES},
    "lustre": {"FileStorageLustreFileSystem": LUSTRE},
    "limits": {"get_resource_availability": LIMITS},
    "identity": {"DynamicGroup": GROUPS, "Policy": POLICIES},
    "Identity": {
        "getCompartment": COMPARTMENTS,
        "getAvailabilityDomains": COMPARTMENTS,
        "getRegionSubscriptions": TENANCIES,
    },
}
#: What the vendor's service needs in the tenancy before it can build cluster networks.
SERVICE = (
    "allow service compute_management to use tag-namespace in tenancy",
    "allow service compute_management to manage compute-management-family in tenancy",
    "allow service compute_management to read app-catalog-listing in tenancy",
)
#: What Slurm's controller needs in the compartment to launch and terminate cluster networks (oci-hpc
#: documentation/Prerequisites.md, "Policies for autoscaling or resizing"). Work requests report why a launch failed.
#: None of the families includes them, so `inspect work-requests` is a separate permission.
CONTROLLER = (
    "manage compute-management-family",
    "manage instance-family",
    "use virtual-network-family",
    "use volume-family",
    "inspect work-requests",
    "read app-catalog-listing",
)
