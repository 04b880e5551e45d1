"""The data sources of OCI's provider."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rehearsal.oci import network_lookups
from rehearsal.oci.errors import Problem, not_found
from rehearsal.oci.images import IMAGES, Image, compatible
from rehearsal.oci.launch import INSTANCE, used
from rehearsal.oci.netplan import subnet_cidr
from rehearsal.oci.ocids import sibling_ocid
from rehearsal.oci.places import AVAILABILITY_DOMAINS, COMPARTMENT, COMPARTMENTS, REGION, REGION_KEY, SERVICES, TENANCY
from rehearsal.oci.shapes import GIGA, SHAPES, Shape, limit
from rehearsal.plugin.errors import ServiceError
from rehearsal.plugin.store import Database, Record
from rehearsal.plugin.wire import UNKNOWN

Answer = dict[str, Any]
Lookup = Callable[[Mapping[str, Any], Database], Answer]
_GB = 10**9
_MIB_PER_GIB = 1024


def answer(token: str, args: Mapping[str, Any], database: Database) -> Answer:
    """Return the result of a data source: the arguments of the request, and the properties that were found for them.

    Raises:
        KeyError: this cloud has no such data source.
        ServiceError: the service refused the arguments.
    """
    name = token.rpartition(":")[2]
    found = LOOKUPS[token](args, database)
    # A few data sources set `id` to the OCID of the resource that they found; for all other data sources, `id` is arbitrary.
    return {"id": f"{name}-{REGION}", **args, **found}


def _refused(problem: Problem, service: str) -> ServiceError:
    return ServiceError(problem, service, "Read")


def _needed(args: Mapping[str, Any], name: str, service: str) -> str:
    value = args.get(name)
    if value is None or value is UNKNOWN:
        raise _refused(Problem(name, f"{name} is missing, but the request needs it.", code="MissingParameter"), service)
    return str(value)


def _filtered(items: Iterable[Answer], args: Mapping[str, Any]) -> list[Answer]:
    """Return the items that match every filter; a filter has a property's name (`operating_system`) and values or patterns."""
    kept = list(items)
    for one in args.get("filters") or []:
        head, *rest = str(one["name"]).split("_")
        name = head + "".join(part.title() for part in rest)
        wanted = [str(value) for value in one["values"]]
        if one.get("regex"):
            kept = [item for item in kept if any(re.search(value, str(item.get(name, ""))) for value in wanted)]
        else:
            kept = [item for item in kept if str(item.get(name, "")) in wanted]
    return kept


def _compartment(args: Mapping[str, Any], service: str) -> str:
    ocid = _needed(args, "compartmentId", service)
    if ocid not in COMPARTMENTS:
        raise _refused(not_found("compartmentId", ocid), service)
    return ocid


def _domain(args: Mapping[str, Any], service: str) -> str | None:
    domain = args.get("availabilityDomain")
    if domain is not None and domain not in AVAILABILITY_DOMAINS:
        raise _refused(not_found("availabilityDomain", str(domain)), service)
    return domain


def _services(args: Mapping[str, Any], database: Database) -> Answer:  # noqa: ARG001
    services = [{"id": ocid, "name": name, "cidrBlock": short, "description": name} for ocid, (name, short) in SERVICES.items()]
    return {"services": _filtered(services, args)}


def _domains(args: Mapping[str, Any], database: Database) -> Answer:  # noqa: ARG001
    compartment = _compartment(args, "Identity")
    listed = [
        {"id": f"ocid1.availabilitydomain.oc1..rehearsed-{number}", "name": name, "compartmentId": compartment}
        for number, name in enumerate(AVAILABILITY_DOMAINS, 1)
    ]
    return {"availabilityDomains": _filtered(listed, args)}


def _one_domain(args: Mapping[str, Any], database: Database) -> Answer:
    domains = _domains({"compartmentId": args.get("compartmentId")}, database)["availabilityDomains"]
    for number, domain in enumerate(domains, 1):
        if args.get("adNumber") == number or (args.get("id") == domain["id"] and "adNumber" not in args):
            return {**domain, "adNumber": number}
    raise _refused(
        Problem("adNumber", f"adNumber is {args.get('adNumber')}, but must be from 1 to {len(domains)}."), "Identity"
    )


def _one_compartment(args: Mapping[str, Any], database: Database) -> Answer:  # noqa: ARG001
    ocid = _needed(args, "id", "Identity Compartment")
    if ocid not in COMPARTMENTS:
        raise _refused(not_found("id", ocid), "Identity Compartment")
    return {
        "id": ocid, "name": COMPARTMENTS[ocid], "compartmentId": TENANCY if ocid == COMPARTMENT else "",
        "description": COMPARTMENTS[ocid], "state": "ACTIVE", "inactiveState": "", "isAccessible": True,
        "timeCreated": "2020-01-01 00:00:00 +0000 UTC", "definedTags": {}, "freeformTags": {},
    }  # fmt: skip


def _region_subscriptions(args: Mapping[str, Any], database: Database) -> Answer:  # noqa: ARG001
    if _needed(args, "tenancyId", "Identity Region Subscription") != TENANCY:
        raise _refused(not_found("tenancyId", str(args["tenancyId"])), "Identity Region Subscription")
    here = {"regionName": REGION, "regionKey": REGION_KEY.upper(), "isHomeRegion": True, "state": "READY"}
    return {"regionSubscriptions": _filtered([here], args)}


def _shape(shape: Shape) -> Answer:
    flexible = shape.flexible
    return {
        "name": shape.name, "ocpus": shape.ocpus, "memoryInGbs": shape.memory_gib, "processorDescription": shape.processor,
        "gpus": shape.gpus, "gpuDescription": shape.gpu, "isFlexible": flexible is not None, "quotaNames": [shape.quota],
        "rdmaPorts": len(shape.ports), "rdmaBandwidthInGbps": shape.port_rate_bits_per_s // GIGA,
        "localDisks": len(shape.nvme_bytes), "localDisksTotalSizeInGbs": sum(shape.nvme_bytes) / _GB,
        "localDiskDescription": "NVMe SSD Storage" if shape.nvme_bytes else "",
        "networkingBandwidthInGbps": shape.front_gbit_s, "networkPorts": 1, "maxVnicAttachments": 2, "billingType": "PAID",
        "isBilledForStoppedInstance": shape.bare_metal, "isLiveMigrationSupported": not shape.bare_metal,
        "isSubcore": False, "baselineOcpuUtilizations": [], "resizeCompatibleShapes": [],
        "platformNames": [], "recommendedAlternatives": [], "supportedResourceManagements": [],
        "platformConfigOptions": [{"type": kind} for kind in shape.platforms],
        "ocpuOptions": [{"min": flexible.ocpus[0], "max": flexible.ocpus[1]}] if flexible else [],
        "memoryOptions": [
            {
                "minInGbs": flexible.memory_gib_per_ocpu[0], "maxInGbs": flexible.memory_gib_max,
                "minPerOcpuInGbs": flexible.memory_gib_per_ocpu[0], "maxPerOcpuInGbs": flexible.memory_gib_per_ocpu[1],
            }
        ] if flexible else [],
    }  # fmt: skip


def _shapes(args: Mapping[str, Any], database: Database) -> Answer:  # noqa: ARG001
    _compartment(args, "Core Shape")
    domain, ocid, name = _domain(args, "Core Shape"), args.get("imageId"), args.get("shape")
    if ocid is not None and ocid not in IMAGES:
        raise _refused(not_found("imageId", ocid), "Core Shape")
    fitting = SHAPES.values() if ocid is None else compatible(IMAGES[ocid])
    listed = [
        _shape(shape)
        for shape in fitting
        if (domain is None or domain in shape.offered_in) and (name is None or shape.name == name)
    ]
    return {"shapes": _filtered(listed, args)}


def _image_answer(image: Image) -> Answer:
    return {
        "id": image.id, "displayName": image.display_name, "operatingSystem": image.operating_system,
        "operatingSystemVersion": image.version, "sizeInMbs": str(image.size_gib * _MIB_PER_GIB),
        "billableSizeInGbs": str(image.size_gib), "state": "AVAILABLE", "launchMode": "NATIVE", "listingType": "",
        "compartmentId": "", "baseImageId": "", "createImageAllowed": True, "timeCreated": "2025-05-20 00:00:00 +0000 UTC",
        "agentFeatures": [{"isManagementSupported": True, "isMonitoringSupported": True}], "launchOptions": [],
        "definedTags": {}, "freeformTags": {},
    }  # fmt: skip


def _image(args: Mapping[str, Any], database: Database) -> Answer:  # noqa: ARG001
    ocid = _needed(args, "imageId", "Core Image")
    if ocid not in IMAGES:
        raise _refused(not_found("imageId", ocid), "Core Image")
    return _image_answer(IMAGES[ocid]) | {"instanceId": "", "imageSourceDetails": []}


def _images(args: Mapping[str, Any], database: Database) -> Answer:  # noqa: ARG001
    _compartment(args, "Core Image")
    shape = SHAPES.get(str(args.get("shape")))
    listed = [
        answered
        for image in IMAGES.values()
        if not image.listing  # a compartment's list does not contain Marketplace images
        if (args.get("shape") is None or (shape is not None and image.fits(shape)))
        for answered in [_image_answer(image)]
        if all(
            args.get(name) in {None, answered[name]}
            for name in ("displayName", "operatingSystem", "operatingSystemVersion", "state")
        )
    ]
    return {"images": _filtered(listed, args)}


def _image_shapes(args: Mapping[str, Any], database: Database) -> Answer:
    ocid = _image(args, database)["id"]
    listed = [
        {"imageId": ocid, "shape": shape.name, "memoryConstraints": [], "ocpuConstraints": []}
        for shape in compatible(IMAGES[ocid])
    ]
    return {"imageShapeCompatibilities": _filtered(listed, args)}


def _find(database: Database, args: Mapping[str, Any], name: str, token: str, service: str) -> Record:
    ocid = _needed(args, name, service)
    record = database.find(ocid, token)
    if record is None:
        raise _refused(not_found(name, ocid), service)
    return record


def _cluster_networks(args: Mapping[str, Any], database: Database) -> Answer:
    compartment = _compartment(args, "Core Cluster Network")
    listed = []
    for one in database.of("oci:Core/clusterNetwork:ClusterNetwork"):
        outputs = {**one.outputs(), "state": one.state}
        if compartment != outputs["compartmentId"] or args.get("displayName") not in {None, outputs.get("displayName")}:
            continue
        plain = {name: value for name, value in outputs.items() if name != "placementConfiguration"}
        # The provider leaves these lists empty (terraform-provider-oci, core_cluster_networks_data_source.go, SetData).
        lists: dict[str, Any] = {"placementConfigurations": [], "clusterConfigurations": []}
        listed.append({"definedTags": {}, "freeformTags": {}, **plain, **lists, "id": one.id})
    return {"clusterNetworks": _filtered(listed, args)}


def _members(args: Mapping[str, Any], database: Database) -> Answer:
    _compartment(args, "Core Cluster Network")
    owner = _find(database, args, "clusterNetworkId", "oci:Core/clusterNetwork:ClusterNetwork", "Core Cluster Network")
    listed = [
        {
            "id": one.id, "displayName": one.inputs["displayName"], "state": one.state.title(), "region": REGION,
            "availabilityDomain": one.computed["availabilityDomain"], "compartmentId": one.inputs["compartmentId"],
            "faultDomain": one.computed["faultDomain"], "shape": one.inputs["shape"], "loadBalancerBackends": [],
            "instanceConfigurationId": one.computed["instanceConfigurationId"], "timeCreated": one.computed["timeCreated"],
        }
        for one in sorted(database.of(INSTANCE), key=lambda one: int(one.private["index"]))
        if one.parent == owner.id and args.get("displayName") in {None, one.inputs["displayName"]}
    ]  # fmt: skip
    return {"instances": _filtered(listed, args)}


def _instance(args: Mapping[str, Any], database: Database) -> Answer:
    return _listed_instance(_find(database, args, "instanceId", INSTANCE, "Core Instance"))


def _listed_instance(record: Record) -> Answer:
    outputs = {**record.outputs(), "state": record.state}
    # In this data source, each nested object of the resource is a list with one element; without the object, the list is empty.
    listed = {
        "agentConfigs": "agentConfig",
        "createVnicDetails": "createVnicDetails",
        "instanceOptions": "instanceOptions",
        "shapeConfigs": "shapeConfig",
        "sourceDetails": "sourceDetails",
        "platformConfigs": "platformConfig",
        "launchOptions": "launchOptions",
        "availabilityConfigs": "availabilityConfig",
    }
    objects = {plural: [outputs[one]] if one in outputs else [] for plural, one in listed.items()}
    plain = {name: value for name, value in outputs.items() if name not in listed.values()}
    return {"metadata": {}, "definedTags": {}, "freeformTags": {}, **plain, **objects, "id": record.id}


def _instances(args: Mapping[str, Any], database: Database) -> Answer:
    compartment = _compartment(args, "Core Instance")
    listed = []
    for one in database.of(INSTANCE):
        found = {**one.outputs(), "state": one.state}
        asked_for = (args.get(name) in {None, found.get(name)} for name in ("displayName", "availabilityDomain", "state"))
        if found["compartmentId"] == compartment and all(asked_for):
            listed.append(_listed_instance(one))
    return {"instances": _filtered(listed, args)}


def _vnic_of(record: Record) -> str:
    return sibling_ocid(record.id, "vnic")


def _attachments(args: Mapping[str, Any], database: Database) -> Answer:
    _compartment(args, "Core Vnic Attachment")
    listed = [
        {
            "id": sibling_ocid(one.id, "vnicattachment"), "instanceId": one.id, "vnicId": _vnic_of(one), "nicIndex": 0,
            "subnetId": one.private["subnet"], "state": "ATTACHED", "availabilityDomain": one.computed["availabilityDomain"],
            "compartmentId": one.inputs["compartmentId"], "displayName": "", "createVnicDetails": [], "vlanId": "",
            "vlanTag": 0, "timeCreated": one.computed["timeCreated"],
        }
        for one in database.of(INSTANCE)
        if args.get("instanceId") in {None, one.id}
        and args.get("vnicId") in {None, _vnic_of(one)}
        and args.get("availabilityDomain") in {None, one.computed["availabilityDomain"]}
    ]  # fmt: skip
    return {"vnicAttachments": _filtered(listed, args)}


def _vnic(args: Mapping[str, Any], database: Database) -> Answer:
    ocid = _needed(args, "vnicId", "Core Vnic")
    for one in database.of(INSTANCE):
        if _vnic_of(one) == ocid:
            return {
                "id": ocid, "state": "AVAILABLE", "isPrimary": True, "displayName": one.outputs()["displayName"],
                "hostnameLabel": one.private["hostname"], "privateIpAddress": one.computed["privateIp"],
                "publicIpAddress": one.computed["publicIp"], "subnetId": one.private["subnet"], "nsgIds": [],
                "availabilityDomain": one.computed["availabilityDomain"], "compartmentId": one.inputs["compartmentId"],
                "macAddress": f"00:00:17:{one.short[:2]}:{one.short[2:4]}:{one.short[4:6]}", "skipSourceDestCheck": False,
                "timeCreated": one.computed["timeCreated"], "vlanId": "", "routeTableId": "", "ipv6addresses": [],
                "definedTags": {}, "freeformTags": {},
            }  # fmt: skip
    raise _refused(not_found("vnicId", ocid), "Core Vnic")


def _addresses_of(record: Record) -> list[tuple[str, bool]]:
    """Return the private addresses of an instance or a file system's server; a flag marks the primary address of a VNIC."""
    if record.token == INSTANCE:
        return [(record.computed["privateIp"], True)]
    return [(address, at == 0) for at, address in enumerate(record.private.get("addresses", ()))]


def _private_ips(args: Mapping[str, Any], database: Database) -> Answer:
    if args.get("subnetId") is None and args.get("vnicId") is None:
        raise _refused(Problem("subnetId", "subnetId or vnicId is needed.", code="MissingParameter"), "Core Private Ip")
    listed = [
        {
            "id": sibling_ocid(one.id, "privateip") + ("" if primary else address), "ipAddress": address,
            "vnicId": _vnic_of(one), "subnetId": one.private["subnet"], "isPrimary": primary,
            "hostnameLabel": one.private.get("hostname", ""),
            "displayName": one.outputs()["displayName"], "compartmentId": one.inputs["compartmentId"],
            "availabilityDomain": one.private["domain"], "timeCreated": one.computed["timeCreated"],
            "ipState": "ASSIGNED", "lifetime": "EPHEMERAL", "isReserved": False, "vlanId": "", "routeTableId": "",
            "ipv4subnetCidrAtCreation": subnet_cidr(database.records[one.private["subnet"]]),
            "definedTags": {}, "freeformTags": {},
        }
        for one in database.records.values()
        if one.state != "TERMINATING"
        for address, primary in _addresses_of(one)
        if args.get("subnetId") in {None, one.private["subnet"]}
        and args.get("vnicId") in {None, _vnic_of(one)}
        and args.get("ipAddress") in {None, address}
    ]  # fmt: skip
    return {"privateIps": _filtered(listed, args)}


def _console_data(args: Mapping[str, Any], database: Database) -> Answer:
    record = _find(database, args, "consoleHistoryId", "oci:Core/consoleHistory:ConsoleHistory", "Core Console History")
    start = int(args.get("offset") or 0)
    # By default, the service returns at most 10,240 bytes; on request, up to 1 MiB: GetConsoleHistoryContent.
    length = min(int(args.get("length") or 10_240), 1 << 20)
    data = record.private["data"].encode()[start : start + length]
    return {"data": data.decode(errors="replace")}


def _quotas(args: Mapping[str, Any]) -> list[str]:
    if args.get("serviceName") != "compute":
        raise _refused(
            Problem("serviceName", f"serviceName is {args.get('serviceName')!r}, but the rehearsal supports only 'compute'."),
            "Limits",
        )
    return sorted({shape.quota for shape in SHAPES.values()})


def _limit_values(args: Mapping[str, Any], database: Database) -> Answer:  # noqa: ARG001
    _compartment(args, "Limits Limit Value")
    domain = _domain(args, "Limits Limit Value")
    listed = [
        {"name": quota, "scopeType": "AD", "availabilityDomain": one, "value": str(_limit_in(quota, one))}
        for quota in _quotas(args)
        for one in AVAILABILITY_DOMAINS
        if args.get("name") in {None, quota} and domain in {None, one} and args.get("scopeType") in {None, "AD"}
    ]
    return {"limitValues": _filtered(listed, args)}


def _limit_in(quota: str, domain: str) -> int:
    offered = any(domain in shape.offered_in for shape in SHAPES.values() if shape.quota == quota)
    return limit(quota) if offered else 0


def _availability(args: Mapping[str, Any], database: Database) -> Answer:
    service = "Limits Resource Availability"
    _compartment(args, service)
    quota, domain = _needed(args, "limitName", service), _domain(args, service)
    if quota not in _quotas(args):
        raise _refused(not_found("limitName", quota), service)
    if domain is None:
        raise _refused(
            Problem("availabilityDomain", f"availabilityDomain is missing, but {quota} is a limit per domain."), service
        )
    taken, most = used(database, quota, domain), _limit_in(quota, domain)
    return {
        "used": f"{taken:g}",
        "available": f"{most - taken:g}",
        "fractionalUsage": float(taken),
        "fractionalAvailability": float(most - taken),
        "effectiveQuotaValue": float(most),
    }


#: Token of the data source -> the function that answers it.
LOOKUPS: Mapping[str, Lookup] = {
    "oci:Core/getServices:getServices": _services,
    "oci:Core/getShapes:getShapes": _shapes,
    "oci:Core/getImage:getImage": _image,
    "oci:Core/getImages:getImages": _images,
    "oci:Core/getImageShapes:getImageShapes": _image_shapes,
    "oci:Core/getClusterNetworks:getClusterNetworks": _cluster_networks,
    "oci:Core/getClusterNetworkInstances:getClusterNetworkInstances": _members,
    "oci:Core/getInstance:getInstance": _instance,
    "oci:Core/getInstances:getInstances": _instances,
    "oci:Core/getVnicAttachments:getVnicAttachments": _attachments,
    "oci:Core/getVnic:getVnic": _vnic,
    "oci:Core/getPrivateIps:getPrivateIps": _private_ips,
    "oci:FileStorage/getExports:getExports": network_lookups.exports,
    "oci:Core/getSubnet:getSubnet": network_lookups.subnet,
    "oci:Core/getRouteTables:getRouteTables": network_lookups.route_tables,
    "oci:Core/getSecurityLists:getSecurityLists": network_lookups.security_lists,
    "oci:Core/getConsoleHistoryData:getConsoleHistoryData": _console_data,
    "oci:Identity/getAvailabilityDomains:getAvailabilityDomains": _domains,
    "oci:Identity/getAvailabilityDomain:getAvailabilityDomain": _one_domain,
    "oci:Identity/getCompartment:getCompartment": _one_compartment,
    "oci:Identity/getRegionSubscriptions:getRegionSubscriptions": _region_subscriptions,
    "oci:Limits/getLimitValues:getLimitValues": _limit_values,
    "oci:Limits/getResourceAvailability:getResourceAvailability": _availability,
}
