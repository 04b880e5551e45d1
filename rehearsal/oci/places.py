"""The rehearsed OCI's region, availability and fault domains, tenancy, compartments and services network."""

from __future__ import annotations

REGION = "us-rehearsed-1"
REGION_KEY = "rhs"

TENANCY = "ocid1.tenancy.oc1..rehearsed"
COMPARTMENT = "ocid1.compartment.oc1..rehearsed"
#: OCID -> name of every compartment; the tenancy is its own root compartment.
COMPARTMENTS = {TENANCY: "rehearsed", COMPARTMENT: "clusters"}

AVAILABILITY_DOMAINS = ("Uocm:REHEARSED-AD-1", "Uocm:REHEARSED-AD-2", "Uocm:REHEARSED-AD-3")
FAULT_DOMAINS = ("FAULT-DOMAIN-1", "FAULT-DOMAIN-2", "FAULT-DOMAIN-3")

# In a real region, core.get_services lists these two services; their names contain the region's three-letter key.
ALL_SERVICES = f"all-{REGION_KEY}-services-in-oracle-services-network"
OBJECT_STORAGE = f"oci-{REGION_KEY}-objectstorage"
#: OCID -> (name for people, name that routes and security rules use).
SERVICES = {
    f"ocid1.service.oc1.{REGION_KEY}.rehearsed-all": (
        f"All {REGION_KEY.upper()} Services In Oracle Services Network",
        ALL_SERVICES,
    ),
    f"ocid1.service.oc1.{REGION_KEY}.rehearsed-objectstorage": (
        f"OCI {REGION_KEY.upper()} Object Storage",
        OBJECT_STORAGE,
    ),
}

#: The addresses of the rehearsed Oracle services network.
SERVICES_NETWORK = "240.0.0.0/4"
