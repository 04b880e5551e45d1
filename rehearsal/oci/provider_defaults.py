"""Defaults in the provider's schema: they become part of the inputs, so they appear in previews and states, too.

Sources: each resource's `Default` in oracle/terraform-provider-oci 8.23.0 (internal/service/core), and previews of Pulumi's
plugin, which is built from that provider.
"""

from __future__ import annotations

from collections.abc import Mapping

#: Type -> path of a property -> the property's default value.
DEFAULTS: Mapping[str, Mapping[str, str | int | bool]] = {
    # core_internet_gateway_resource.go
    "oci:Core/internetGateway:InternetGateway": {"enabled": True},
    # core_security_list_resource.go: -1 means every ICMP code; the provider does not send -1.
    "oci:Core/securityList:SecurityList": {
        "egressSecurityRules[].icmpOptions.code": -1,
        "ingressSecurityRules[].icmpOptions.code": -1,
        "ingressSecurityRules[].stateless": False,
    },
    # core_instance_resource.go
    "oci:Core/instance:Instance": {"createVnicDetails.assignPublicIp": "true"},
    # core_instance_configuration_resource.go
    "oci:Core/instanceConfiguration:InstanceConfiguration": {
        "instanceDetails.launchDetails.createVnicDetails.assignPrivateDnsRecord": True,
        "instanceDetails.secondaryVnics[].createVnicDetails.assignPrivateDnsRecord": True,
    },
}
