"""Values that the vendor accepts (enumerations, patterns, ranges), and properties that the rehearsal does not support.

An enumeration with a model's name (`MODEL.PROPERTY`) is from the vendor's Python SDK (PyPI `oci` 2.189.0). A test compares
these enumerations with the SDK if that package is installed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rehearsal.oci.errors import Problem
from rehearsal.oci.value_rules import Between, Matches, OneOf, Rule
from rehearsal.plugin.wire import each

_DNS_LABEL = Matches(r"[A-Za-z][A-Za-z0-9]{0,14}", "letters and digits, a letter first, at most 15")
_HOSTNAME = Matches(
    r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?", "letters, digits and, not at the ends, hyphens, at most 63 (RFC 952, 1123)"
)
_NAME = Matches(r".{1,255}", "1 to 255 characters")
_IAM_NAME = Matches(r"[A-Za-z0-9._-]{1,100}", "letters, digits, hyphens, periods and underscores, at most 100")
_DESCRIPTION = Matches(r".{1,400}", "1 to 400 characters")
_PORT = Between(1, 65535)
_CIDR_OR_SERVICE = "CIDR_BLOCK", "SERVICE_CIDR_BLOCK"

#: Agent plugins by name (docs.oracle.com/iaas/Content/Compute/Tasks/manage-plugins.htm).
PLUGINS = (
    "Bastion",
    "Block Volume Management",
    "Cloud Guard Workload Protection",
    "Compute HPC RDMA Authentication",
    "Compute HPC RDMA Auto-Configuration",
    "Compute Instance Monitoring",
    "Compute Instance Run Command",
    "Compute RDMA GPU Monitoring",
    "Custom Logs Monitoring",
    "Fleet Application Management Service",
    "Management Agent",
    "Oracle Autonomous Linux",
    "Oracle Java Management Service",
    "OS Management Hub Agent",
    "OS Management Service Agent",
    "Vulnerability Scanning",
    "WebLogic Management Service",
)

_PLATFORMS = (
    "AMD_MILAN_BM", "AMD_MILAN_BM_GPU", "AMD_ROME_BM", "AMD_ROME_BM_GPU", "AMD_VM", "GENERIC_BM",
    "INTEL_ICELAKE_BM", "INTEL_SKYLAKE_BM", "INTEL_VM",
)  # fmt: skip

_LAUNCH: Mapping[str, Rule] = {
    "agentConfig.pluginsConfigs[].name": OneOf(PLUGINS),
    "agentConfig.pluginsConfigs[].desiredState": OneOf(
        ("ENABLED", "DISABLED"), "InstanceAgentPluginConfigDetails.DESIRED_STATE"
    ),
    "availabilityConfig.recoveryAction": OneOf(
        ("RESTORE_INSTANCE", "STOP_INSTANCE"), "LaunchInstanceAvailabilityConfigDetails.RECOVERY_ACTION"
    ),
    "createVnicDetails.hostnameLabel": _HOSTNAME,
    "displayName": _NAME,
    "faultDomain": Matches(r"FAULT-DOMAIN-[123]", "FAULT-DOMAIN-1, FAULT-DOMAIN-2 or FAULT-DOMAIN-3"),
    "launchOptions.bootVolumeType": OneOf(
        ("ISCSI", "SCSI", "IDE", "VFIO", "PARAVIRTUALIZED", "NVME"), "LaunchOptions.BOOT_VOLUME_TYPE"
    ),
    "launchOptions.firmware": OneOf(("BIOS", "UEFI_64"), "LaunchOptions.FIRMWARE"),
    "launchOptions.networkType": OneOf(("E1000", "VFIO", "PARAVIRTUALIZED", "ACCELERATEDPV"), "LaunchOptions.NETWORK_TYPE"),
    "platformConfig.type": OneOf(_PLATFORMS, "LaunchInstancePlatformConfig.TYPE"),
    "platformConfig.numaNodesPerSocket": OneOf(
        ("NPS0", "NPS1", "NPS2", "NPS4", "NPS6"), "GenericBmLaunchInstancePlatformConfig.NUMA_NODES_PER_SOCKET"
    ),
    # "percentage_of_cores_enabled ... must be 25, 50, 75 or 100" for the GPU shapes: oci-hpc:schema.yaml.
    "platformConfig.percentageOfCoresEnabled": Between(25, 100, 25),
    "shapeConfig.baselineOcpuUtilization": OneOf(
        ("BASELINE_1_8", "BASELINE_1_2", "BASELINE_1_1"), "LaunchInstanceShapeConfigDetails.BASELINE_OCPU_UTILIZATION"
    ),
    "sourceDetails.sourceType": OneOf(("image", "bootVolume")),
    "sourceDetails.bootVolumeSizeInGbs": Between(50, 32768),
    "sourceDetails.bootVolumeVpusPerGb": Between(10, 120, 10),
}

_POOL_LAUNCH = "instanceDetails.launchDetails"


def _ports(direction: str) -> dict[str, Rule]:
    ports: dict[str, Rule] = {
        f"{direction}SecurityRules[].{protocol}Options{span}.{end}": _PORT
        for protocol in ("tcp", "udp")
        for span in ("", ".sourcePortRange")
        for end in ("min", "max")
    }
    others: dict[str, Rule] = {
        f"{direction}SecurityRules[].icmpOptions.type": Between(0, 255),
        f"{direction}SecurityRules[].icmpOptions.code": Between(-1, 255),
        f"{direction}SecurityRules[].protocol": Matches(
            r"all|\d|[1-9]\d|1\d\d|2[0-4]\d|25[0-5]", "'all' or a protocol's number as a string ('6' for TCP)"
        ),
    }
    return ports | others


#: Type token -> path pattern -> values that the vendor accepts.
RULES: Mapping[str, Mapping[str, Rule]] = {
    "oci:Core/vcn:Vcn": {"dnsLabel": _DNS_LABEL, "displayName": _NAME},
    "oci:Core/subnet:Subnet": {"dnsLabel": _DNS_LABEL, "displayName": _NAME},
    "oci:Core/routeTable:RouteTable": {
        "routeRules[].destinationType": OneOf(_CIDR_OR_SERVICE, "RouteRule.DESTINATION_TYPE"),
        "routeRules[].routeType": OneOf(("STATIC",)),
    },
    "oci:Core/securityList:SecurityList": {
        **_ports("ingress"),
        **_ports("egress"),
        "ingressSecurityRules[].sourceType": OneOf(_CIDR_OR_SERVICE, "IngressSecurityRule.SOURCE_TYPE"),
        "egressSecurityRules[].destinationType": OneOf(_CIDR_OR_SERVICE, "EgressSecurityRule.DESTINATION_TYPE"),
    },
    "oci:Core/dhcpOptions:DhcpOptions": {
        "options[].type": OneOf(("DomainNameServer", "SearchDomain")),
        "options[].serverType": OneOf(("VcnLocal", "VcnLocalPlusInternet", "CustomDnsServer"), "DhcpDnsOption.SERVER_TYPE"),
        "domainNameType": OneOf(("SUBNET_DOMAIN", "VCN_DOMAIN", "CUSTOM_DOMAIN"), "CreateDhcpDetails.DOMAIN_NAME_TYPE"),
    },
    "oci:Core/instance:Instance": {
        **_LAUNCH,
        "createVnicDetails.assignPublicIp": OneOf(("true", "false")),
        "hostnameLabel": _HOSTNAME,
    },
    "oci:Core/instanceConfiguration:InstanceConfiguration": {
        **{f"{_POOL_LAUNCH}.{path}": rule for path, rule in _LAUNCH.items()},
        f"{_POOL_LAUNCH}.launchMode": OneOf(
            ("NATIVE", "EMULATED", "PARAVIRTUALIZED", "ACCELERATEDPV", "CUSTOM"),
            "InstanceConfigurationLaunchInstanceDetails.LAUNCH_MODE",
        ),
        f"{_POOL_LAUNCH}.preferredMaintenanceAction": OneOf(
            ("LIVE_MIGRATE", "REBOOT"), "InstanceConfigurationLaunchInstanceDetails.PREFERRED_MAINTENANCE_ACTION"
        ),
        "instanceDetails.instanceType": OneOf(("compute",)),
        "source": OneOf(("NONE",)),
    },
    "oci:Core/clusterNetwork:ClusterNetwork": {
        "displayName": _NAME,
        "instancePools[].size": Between(0, 1000),
        "placementConfiguration.placementConstraint": OneOf(
            ("SINGLE_TIER", "SINGLE_BLOCK", "PACKED_DISTRIBUTION_MULTI_BLOCK"),
            "ClusterNetworkPlacementConfigurationDetails.PLACEMENT_CONSTRAINT",
        ),
    },
    "oci:FileStorage/fileSystem:FileSystem": {
        "displayName": _NAME,
        "cloneAttachStatus": OneOf(("DETACH", "ATTACH"), "file_storage:CreateFileSystemDetails.CLONE_ATTACH_STATUS"),
    },
    "oci:FileStorage/mountTarget:MountTarget": {
        "displayName": _NAME,
        "hostnameLabel": _HOSTNAME,
        "idmapType": OneOf(("LDAP", "NONE"), "file_storage:MountTarget.IDMAP_TYPE"),
        # The values are in Gb/s (docs.oracle.com/iaas/Content/File/Tasks/managingmounttargets.htm#performance).
        "requestedThroughput": OneOf(("1", "20", "40", "80")),
    },
    "oci:FileStorage/export:Export": {
        # Export in the SDK: "Paths may not end in a slash"; no element is `.` or `..`; each element has at most 255 bytes.
        "path": Matches(r"/|(/(?!\.{1,2}(/|$))[^/]{1,255})+", "an absolute path without empty, . or .. elements"),
        "exportOptions[].access": OneOf(("READ_WRITE", "READ_ONLY"), "file_storage:ClientOptions.ACCESS"),
        "exportOptions[].identitySquash": OneOf(("NONE", "ROOT", "ALL"), "file_storage:ClientOptions.IDENTITY_SQUASH"),
        "exportOptions[].allowedAuths[]": OneOf(("SYS", "KRB5", "KRB5I", "KRB5P"), "file_storage:ClientOptions.ALLOWED_AUTH"),
    },
    "oci:Lustre/fileStorageLustreFileSystem:FileStorageLustreFileSystem": {
        "displayName": _NAME,
        "fileSystemName": Matches(r"[A-Za-z0-9_]{1,8}", "letters, digits and underscores, at most 8"),
        "performanceTier": OneOf(
            ("MBPS_PER_TB_125", "MBPS_PER_TB_250", "MBPS_PER_TB_500", "MBPS_PER_TB_1000"),
            "lustre_file_storage:CreateLustreFileSystemDetails.PERFORMANCE_TIER",
        ),
        "rootSquashConfiguration.identitySquash": OneOf(
            ("NONE", "ROOT"), "lustre_file_storage:RootSquashConfiguration.IDENTITY_SQUASH"
        ),
    },
    "oci:Identity/dynamicGroup:DynamicGroup": {"name": _IAM_NAME, "description": _DESCRIPTION},
    "oci:Identity/policy:Policy": {"name": _IAM_NAME, "description": _DESCRIPTION},
}

_LAUNCH_NOT_PLAYED = (
    "capacityReservationId", "clusterPlacementGroupId", "computeClusterId", "createVnicDetails.nsgIds[]",
    "createVnicDetails.privateIpId", "createVnicDetails.subnetCidr", "dedicatedVmHostId", "ipxeScript",
    "licensingConfigs", "placementConstraintDetails", "preemptibleInstanceConfig",
)  # fmt: skip

#: Type token -> properties that the vendor accepts but the rehearsal does not support. The rehearsal refuses these properties;
#: otherwise nobody would notice that they have no effect.
NOT_PLAYED: Mapping[str, tuple[str, ...]] = {
    "oci:Core/vcn:Vcn": ("byoipv6cidrDetails[]", "ipv6privateCidrBlocks[]", "isIpv6enabled"),
    "oci:Core/subnet:Subnet": ("ipv6cidrBlock", "ipv6cidrBlocks[]"),
    "oci:Core/internetGateway:InternetGateway": ("routeTableId",),
    "oci:Core/natGateway:NatGateway": ("routeTableId", "publicIpId"),
    "oci:Core/serviceGateway:ServiceGateway": ("routeTableId",),
    "oci:Core/instance:Instance": (
        *_LAUNCH_NOT_PLAYED, "createVnicDetails.vlanId", "instanceConfigurationId", "launchVolumeAttachments[]",
    ),
    "oci:Core/instanceConfiguration:InstanceConfiguration": (
        *(f"{_POOL_LAUNCH}.{path}" for path in _LAUNCH_NOT_PLAYED), "gmcConfigs", "instanceId",
        "instanceDetails.blockVolumes[]", "instanceDetails.options[]", "instanceDetails.secondaryVnics[]",
    ),
    "oci:Core/clusterNetwork:ClusterNetwork": (
        "clusterConfiguration", "instancePools[].loadBalancers[]", "placementConfiguration.secondaryVnicSubnets[]",
    ),
    "oci:FileStorage/fileSystem:FileSystem": (
        "areQuotaRulesEnabled", "filesystemSnapshotPolicyId", "kmsKeyId", "locks[]", "sourceSnapshotId",
    ),
    "oci:FileStorage/mountTarget:MountTarget": ("kerberos", "ldapIdmap", "locks[]", "nsgIds[]"),
    "oci:FileStorage/export:Export": ("isIdmapGroupsForSysAuth", "locks[]"),
    "oci:Lustre/fileStorageLustreFileSystem:FileStorageLustreFileSystem": (
        "clusterPlacementGroupId", "kmsKeyId", "maintenanceWindow", "nsgIds[]", "overrideMaintenanceTrigger",
    ),
}  # fmt: skip


def broken(token: str, inputs: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield a problem for each value that RULES or NOT_PLAYED refuses; unknown values pass."""
    for pattern, rule in RULES.get(token, {}).items():
        for path, value in each(inputs, pattern):
            allowed = rule.refuses(value)
            if allowed is not None:
                yield Problem(path, f"{path} is {value!r}, but must be {allowed}.")
    for pattern in NOT_PLAYED.get(token, ()):
        for path, value in each(inputs, pattern):
            if value is not False:
                yield Problem(
                    path, f"{path} is given, but the rehearsal cannot simulate it: leave it out.", 501, "NotRehearsed"
                )
