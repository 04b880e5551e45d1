"""Every rule of OCI by its name."""

from __future__ import annotations

from collections.abc import Iterator

from config.measure import Measure
from config.oci import rules_container, rules_existing, rules_network, rules_pools, rules_storage
from config.oci.facts import Facts
from config.oci.model import Oci
from config.rule import ERROR, Finding, check, collected
from config.rules import pool_chosen

RULES = collected(rules_container, rules_existing, rules_network, rules_pools, rules_storage)


def findings(wanted: Oci, measure: Measure) -> tuple[Finding, ...]:
    """Return what is wrong with a stack without asking its account."""
    own = check(RULES, wanted, Facts(), wanted.suppress, "oci.suppress")
    return (*own, *pool_chosen(measure, wanted.sizes, "oci.pools"), *_too_old_to_build(wanted, measure))


def _too_old_to_build(wanted: Oci, measure: Measure) -> Iterator[Finding]:
    """Yield the family of the measured pool if its compiler cannot build NVIDIA's nccl-tests; an own archive may be another."""
    if wanted.container is not None or not measure.nccl_tests.is_url:
        return
    for path, pool in wanted.located:
        if pool.nodes and pool.family.compiler and measure.pool in {None, pool.name}:
            yield Finding(
                "image-compiler",
                ERROR,
                f"{path}.imageFamily",
                f"is {pool.image_family}, whose compiler is {pool.family.compiler}, and nccl-tests need GCC 5 since 2.16.9 "
                "(C++14); use ol8 or later",
            )
