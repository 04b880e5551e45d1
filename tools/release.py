"""Show what a destroy has left in a stack, and delete it on request.

pulumi stack export | python -m tools.release [delete] ENGINE-WORD...

Without `delete` nothing is changed. With `delete`, the data are unprotected, and everything left in the stack is destroyed,
data included. The ENGINE-WORDs are the arguments of `pulumi destroy` that name the stack and the stack file. A stack that has
machines is refused: destroy it first. Resources that the destroy retained are in the account but in no state, so they are not
shown.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from catalogue.prices import HOURLY_USD, HOURS_PER_MONTH, LUSTRE_USD_PER_GB_MONTH
from tools.stack_commands import RefusedError, Run, ended, shown

#: Kinds of resources that are machines, or create them.
_MACHINES = frozenset({"Instance", "ClusterNetwork", "Fleet"})


#: Kinds that cost nothing by themselves, on both clouds.
_FREE = frozenset(
    {
        *("Vpc", "Subnet", "SecurityGroup", "SecurityGroupIngressRule", "SecurityGroupEgressRule", "RouteTable", "Route"),
        *("RouteTableAssociation", "InternetGateway", "PlacementGroup", "LaunchTemplate", "KeyPair", "Role", "InstanceProfile"),
        *("RolePolicy", "RolePolicyAttachment", "Vcn", "SecurityList", "ServiceGateway", "InstanceConfiguration"),
        *("AppCatalogSubscription", "Export", "ExportSet", "DataRepositoryAssociation", "ConsoleHistory"),
        *("VpcIpv4CidrBlockAssociation", "BucketPublicAccessBlock", "BucketOwnershipControls", "Parameter"),
    }
)


def left(state: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the resources of an exported state that exist at a vendor, protected resources first."""
    resources = state["deployment"].get("resources") or []
    own = [
        one
        for one in resources
        if one.get("custom") and not one.get("external") and not one["type"].startswith(("pulumi:", "command:"))
    ]
    return sorted(own, key=lambda one: not one.get("protect"))


def lines(state: dict[str, Any]) -> list[str]:
    """Return the report: each resource with its id, and what deletes it."""
    found = left(state)
    held = [one for one in found if one.get("protect")]
    if not found:
        return ["nothing is left in this stack"]
    return [
        f"{len(found)} resources are left, {len(held)} of them protected, because they contain data:",
        *(
            f"  {_name(one)} ({one['type'].rpartition(':')[2]}): {one.get('id')}"
            f"{', protected' * one.get('protect', False)}{_bill(one)}"
            for one in found
        ),
        *_sum(found),
        "to delete all these resources, data included: make release DATA=delete",
    ]


def _bill(resource: dict[str, Any]) -> str:
    """Return in words the billed size, if there is one, and the price, which may be unknown; empty if the resource is free."""
    if _free(resource):
        return ""
    size_gib, usd = _size_gib(resource), _usd_per_hour(resource)
    billed = ", billed" if size_gib is None else f", billed for {size_gib:g} GiB"
    return (
        f"{billed} at an unknown price" if usd is None else f"{billed}, about {usd:.3g} USD an hour (list price in us-east-1)"
    )


def _free(resource: dict[str, Any]) -> bool:
    """Tell whether a resource costs nothing by itself."""
    known = resource.get("outputs") or {}
    match resource["type"].rpartition(":")[2]:
        case "MountTarget":  # only a faster mount target than the standard one is billed (docs/oci.md)
            return str(known.get("requestedThroughput") or 1) == "1"
        case "VpcEndpoint":  # sources: zacfukuda.com and usage.ai
            return bool(known.get("vpcEndpointType", "Gateway") == "Gateway")
        case kind:
            return kind in _FREE


def _size_gib(resource: dict[str, Any]) -> float | None:
    known = resource.get("outputs") or {}
    size_gib = known.get("storageCapacity") or known.get("capacityInGbs")
    return size_gib if isinstance(size_gib, int | float) else None


def _usd_per_hour(resource: dict[str, Any]) -> float | None:
    """Return the list price of a resource that is billed, or None if no two sources agree on the price."""
    size_gib = _size_gib(resource)
    if resource["type"].endswith(":LustreFileSystem") and size_gib is not None:
        rate = LUSTRE_USD_PER_GB_MONTH.get((resource.get("outputs") or {}).get("perUnitStorageThroughput", 0))
        return None if rate is None else size_gib * rate / HOURS_PER_MONTH
    return HOURLY_USD.get(resource["type"])


def _sum(found: list[dict[str, Any]]) -> list[str]:
    """Return the line with the total cost; none if nothing is billed."""
    prices = [_usd_per_hour(one) for one in found if not _free(one)]
    known, unknown = [usd for usd in prices if usd is not None], prices.count(None)
    more = f"{unknown} at an unknown price: see your bill" if unknown else ""
    total = f"about {sum(known):.3g} USD an hour (list prices in us-east-1)" if known else ""
    return [f"in all: {', and '.join(filter(None, [total, more]))}"] if prices else ["none of these resources is billed"]


def release(state: dict[str, Any], where: list[str], run: Run) -> None:
    """Unprotect the data of the exported `state` and destroy the stack; `run` runs a command.

    Raises:
        RefusedError: the stack still has machines, so nothing was destroyed.
    """
    machines = [_name(one) for one in left(state) if one["type"].rpartition(":")[2] in _MACHINES]
    if machines:
        raise RefusedError(f"the stack still has machines ({', '.join(machines)}); destroy it first: make down")
    stack = where[where.index("--stack") + 1] if "--stack" in where else None
    named = ["--stack", stack] if stack else []
    for one in left(state):
        if one.get("protect"):
            run(["pulumi", "state", "unprotect", "--yes", *named, one["urn"]])
    run(["pulumi", "destroy", "--yes", "--skip-preview", *where])


def _name(resource: dict[str, Any]) -> str:
    return str(resource["urn"].rpartition("::")[2])


def main(argv: list[str]) -> int:
    """Show the remaining resources, or destroy them; return an exit status."""
    if argv and not argv[0].startswith("-") and argv[0] != "delete":
        sys.stderr.write(f"release: DATA is {argv[0]!r}; it must be delete, or be left out to see what remains\n")
        return 2
    state = json.load(sys.stdin)
    sys.stdout.write("".join(f"{line}\n" for line in lines(state)))
    sys.stdout.flush()
    if argv[:1] != ["delete"]:
        return 0
    return ended("release", lambda: release(state, argv[1:], shown))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
