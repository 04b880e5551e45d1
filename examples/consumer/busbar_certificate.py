"""Refuses to plan work on a cluster without a valid busbar certificate; copy this file beside your Pulumi program.

    cp busbar_certificate.py busbar_verify.py your-program/

`busbar_verify.py` is benchmarks/records/verify.py. Needs `pulumi` and `cryptography`. It works at preview too: outputs of
another stack are known then.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import busbar_verify
import pulumi


def require_certificate(  # noqa: PLR0913 - each is a demand of its own
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
        public_key: who may have signed: PEM, or a line `ssh-ed25519 AAAA...`.
        collective: the collective that must have been judged, such as all_reduce.
        min_busbw_gb_s: what must have been measured, GB/s of real hardware; a rehearsal's scale is applied.
        allow_rehearsed: accept a rehearsal.
        inputs_digest: the inputs that must have been measured, where the caller knows them.
        asked: the request that must have been answered, as `expected.asked` of a preview of `stack` says it. An update that
            breaks off before it has an answer leaves the outputs of the update before it, certificate included: only who
            knows the request can tell.
        allow_skipped: checks that may have been skipped; without `transport` nobody knows which way the bytes went.

    Raises:
        pulumi.RunError: at once for an unusable key; from the output for everything else.
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
    """Return what is demanded and not attested."""
    judged = said["gate"]["collective"]
    if collective is not None and judged != collective:
        return f"it is about {judged}, and this work needs {collective}"
    if min_busbw_gb_s is not None and said["busbw_gb_s"] < min_busbw_gb_s / said["scale"]:
        return f"it attests {said['busbw_gb_s']:.4g} GB/s, and this work needs {min_busbw_gb_s / said['scale']:.4g} GB/s"
    here = sorted(node["name"] for node in nodes)
    if here != sorted(said["nodes"]):
        return f"it is about other nodes ({', '.join(sorted(said['nodes']))}) than the stack has now ({', '.join(here)})"
    moved = [node["name"] for node in nodes if not said["nodes"][node["name"]].endswith(f"@{node['address']}")]
    if moved:
        return f"it is about machines with other addresses than {', '.join(sorted(moved))} of the stack now"
    return None


def _other_stack(said: dict[str, Any], name: str) -> str:
    """Return whose certificate it is where that is not the stack `name`, which may be given without its organization."""
    whose = said.get("stack", "")
    if f"/{whose}".endswith(f"/{name}"):
        return ""
    return f"it is of stack {whose}" if whose else "it does not say which stack it is of"


def _other_run(said: dict[str, Any], measured: dict[str, Any]) -> str:
    """Return why the certificate is not of the measurement beside it."""
    evidence = measured.get("evidence") or {}
    if said["run_id"] != measured.get("run"):
        return f"it is of run {said['run_id']}, and the stack's outputs are of run {measured.get('run')}"
    if said["transcript_sha256"] != evidence.get("sha256"):
        return "its transcript is not the evidence of the stack's outputs"
    return ""


def _unasked(said: dict[str, Any], asked: str | None) -> str:
    """Return why the certificate does not answer the request `asked`."""
    if asked is None or said.get("asked") == asked:
        return ""
    return f"it answers the request {said.get('asked', 'that it does not name')}, and {asked} was asked"


def _skipped(said: dict[str, Any], allowed: frozenset[str]) -> str:
    """Return which checks were skipped that must not be; a certificate that does not say so says nothing of them."""
    if "checks" not in said:
        return "it does not say which checks were made"
    skipped = sorted(name for name, state in said["checks"].items() if state == "skipped" and name not in allowed | {"history"})
    return f"these checks were skipped: {', '.join(skipped)}" if skipped else ""
