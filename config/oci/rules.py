"""All rules for clusters on OCI, by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from config.oci import rules_container, rules_existing, rules_network, rules_pools, rules_slurm, rules_storage, rules_tags
from config.oci.facts import Facts
from config.oci.model import Oci
from config.rule import ERROR, Breach, Finding, check, collected, rule

if TYPE_CHECKING:
    from config.stack import Stack

RULES = collected(rules_container, rules_existing, rules_network, rules_pools, rules_slurm, rules_storage, rules_tags)


def findings(wanted: Oci, _region: str | None) -> tuple[Finding, ...]:
    """Return what is wrong with the cluster, as far as that is visible without a query of the account."""
    return check(RULES, wanted, Facts(), wanted.suppress)


@rule("image-compiler", ERROR, "NVIDIA/nccl-tests: c2cb96f (-std=c++14 since 2.16.9), 365b92a (GCC 5)", guard=True)
def image_compiler(stack: Stack, _facts: None) -> Iterator[Breach]:
    """A measured pool of static nodes with an image whose compiler cannot build NVIDIA's nccl-tests.

    This rule judges nothing if ranks run in a container. It also judges nothing if nccl-tests come from the user's own archive,
    because the archive may have another version.
    """
    wanted: Any = stack.wanted
    if wanted.container is not None or not stack.measure.nccl_tests.is_url:
        return
    for path, pool in wanted.located:
        if pool.nodes and pool.family.compiler and stack.measure.pool in {None, pool.name}:
            yield Breach(
                f"{path}.imageFamily",
                f"is {pool.image_family}, whose compiler is {pool.family.compiler}, but nccl-tests since 2.16.9 needs GCC 5 or "
                "later (C++14); use ol8 or later",
            )


#: Rules that need other groups of the stack file besides `oci`.
STACK_RULES = {image_compiler.id: image_compiler}
