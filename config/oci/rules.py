"""Every rule of OCI by its name."""

from __future__ import annotations

from config.oci import rules_network, rules_pools, rules_storage
from config.rule import collected

RULES = collected(rules_network, rules_pools, rules_storage)
