"""Refuses to plan work on a cluster without a valid busbar certificate; copy this file beside your Pulumi program.

    cp busbar_certificate.py busbar_verify.py your-program/

`busbar_verify.py` is a copy of benchmarks/records/verify.py. Together, the two files need `pulumi` and `cryptography`. The
check works in previews, too, because a preview knows the outputs of another stack.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import busbar_verify
import pulumi


def require_certificate(  # noqa: PLR0913 - each argument is a separate demand
    stack: pulumi.StackReference,
    public_key: str,
    *,
    collective: str | None = None,
    min_busbw_gb_s: float | None = None,
    allow_rehearsed: bool = False,
    inputs_digest: str | None = None,
    asked: str | None = None,
    allow_skipped: frozenset[str] = frozenset({"spread", "looks"}),
) -> pulumi.Output[dict[str, Any]]:
    """Return what the certificate of `stack` attests, or end the program with one sentence.

    Args:
        stack: a busbar stack; its outputs `measured` and `nodes` are read.
        public_key: the key that must have signed the certificate: PEM, or a line `ssh-ed25519 AAAA...`.
        collective: the collective that must have been judged, such as all_reduce.
        min_busbw_gb_s: minimum of the measured busbw, in GB/s on real hardware; for a rehearsal, it is divided by the scale.
        allow_rehearsed: whether to accept the certificate of a rehearsal.
        inputs_digest: digest of the inputs that must have been measured; None accepts any inputs.
        asked: the request that must have been measured: the output `expected.asked` in a preview of `stack`. An update that
            fails before it measures leaves the outputs of the previous update, including the certificate; only a caller that
            knows the request can notice this.
        allow_skipped: checks that may have been skipped. If `transport` was skipped, nobody knows which path the bytes took.

    Raises:
        pulumi.RunError: the key is unusable (raised at once), or a demand is not met (raised when the output is resolved).
    """
    try:
        key = busbar_verify.public_key(public_key)
    except busbar_verify.UnusableError as error:
        raise pulumi.RunError(f"{error}.") from None

    def attested(values: list[Any]) -> dict[str, Any]:
        name, measured, nodes = values
        measured = measured or {}
        envelope = measured.get("certificate")
        if not envelope:
            raise pulumi.RunError(f"stack {name} has no certificate; only an update that passed its gate has one.")
        if measured.get("verdict") != "pass":
            raise pulumi.RunError(f"the verdict of stack {name} is {measured.get('verdict')}, not pass.")
        found = busbar_verify.verify(
            envelope, key, datetime.now(UTC), inputs_digest=inputs_digest, allow_rehearsed=allow_rehearsed
        )
        here = [node for node in nodes or [] if node["pool"] == measured["pool"]]
        why = "; ".join(each.why for each in found.failures) or _unmet(found.predicate, here, collective, min_busbw_gb_s)
        if not why:
            said = found.predicate
            why = (
                _other_stack(said, name) or _skipped(said, allow_skipped) or _other_run(said, measured) or _unasked(said, asked)
            )
        if why:
            raise pulumi.RunError(f"the certificate of stack {name} is not valid: {why}.")
        return found.predicate

    outputs = (stack.get_output("measured"), stack.get_output("nodes"))
    return pulumi.Output.all(stack.name, *outputs).apply(attested)


def _unmet(said: dict[str, Any], nodes: Any, collective: str | None, min_busbw_gb_s: float | None) -> str | None:
    """Return which demand the certificate does not meet; None if it meets all demands."""
    judged = said["gate"]["collective"]
    if collective is not None and judged != collective:
        return f"it attests {judged}, but this work needs {collective}"
    if min_busbw_gb_s is not None and said["busbw_gb_s"] < min_busbw_gb_s / said["scale"]:
        return f"it attests {said['busbw_gb_s']:.4g} GB/s, but this work needs {min_busbw_gb_s / said['scale']:.4g} GB/s"
    here = sorted(node["name"] for node in nodes)
    if here != sorted(said["nodes"]):
        return f"it attests other nodes ({', '.join(sorted(said['nodes']))}) than the stack has now ({', '.join(here)})"
    moved = [node["name"] for node in nodes if not said["nodes"][node["name"]].endswith(f"@{node['address']}")]
    if moved:
        return f"it attests machines with other addresses than the stack now has for {', '.join(sorted(moved))}"
    return None


def _other_stack(said: dict[str, Any], name: str) -> str:
    """Return which other stack the certificate is for; empty if it is for `name` (with or without the organization)."""
    whose = said.get("stack", "")
    if f"/{whose}".endswith(f"/{name}"):
        return ""
    return f"it is for stack {whose}" if whose else "it does not say which stack it is for"


def _other_run(said: dict[str, Any], measured: dict[str, Any]) -> str:
    """Return why the certificate is not for the measurement in the stack's outputs; empty if it is."""
    evidence = measured.get("evidence") or {}
    if said["run_id"] != measured.get("run"):
        return f"it is for run {said['run_id']}, but the stack's outputs are from run {measured.get('run')}"
    if said["transcript_sha256"] != evidence.get("sha256"):
        return "its transcript is not the evidence that the stack's outputs name"
    return ""


def _unasked(said: dict[str, Any], asked: str | None) -> str:
    """Return why the certificate is not for the request `asked`; empty if it is."""
    if asked is None or said.get("asked") == asked:
        return ""
    named = f"the request {said['asked']}" if "asked" in said else "an unnamed request"
    return f"it is for {named}, not for {asked}"


def _skipped(said: dict[str, Any], allowed: frozenset[str]) -> str:
    """Return which checks were skipped although `allowed` lacks them, or that the certificate lists no checks."""
    if "checks" not in said:
        return "it does not say which checks were made"
    skipped = sorted(name for name, state in said["checks"].items() if state == "skipped" and name not in allowed | {"history"})
    return f"these checks were skipped: {', '.join(skipped)}" if skipped else ""
