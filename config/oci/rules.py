"""Every rule of OCI by its name."""

from __future__ import annotations

from config.measure import Measure
from config.oci import rules_container, rules_existing, rules_network, rules_pools, rules_storage
from config.oci.facts import Facts
from config.oci.model import Oci
from config.rule import Finding, check, collected
from config.rules import pool_chosen

RULES = collected(rules_container, rules_existing, rules_network, rules_pools, rules_storage)


def findings(wanted: Oci, measure: Measure) -> tuple[Finding, ...]:
    """Return what is wrong with a stack without asking its account."""
    own = check(RULES, wanted, Facts(), wanted.suppress, "oci.suppress")
    return (*own, *pool_chosen(measure, wanted.sizes, "oci.pools"))
