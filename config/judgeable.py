"""Refuses settings with which a measurement could not be judged.

Such settings are, for example, GPUs that NVIDIA does not make, NVLink between nodes, or an algorithm that the gate does not
assume.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from catalogue import Shape, gpus
from config.rule import ERROR, Breach, rule
from config.units import MESSAGE

if TYPE_CHECKING:
    from config.accept import Accept
    from config.measure import Measure
    from config.stack import Stack

_GIB = 1024**3
#: nccl-tests keeps 1 GiB free, and allocates three buffers of the message's size if values are checked (src/common.cu). If
#: memory is short, nccl-tests measures smaller messages than requested, so a size that does not fit is refused.
_FREE_BYTES, _BUFFERS = _GIB, 3
#: Variables of NCCL, each with the only value that it may have unless the user sets a gate. None: the variable must not be set.
#: The default gate assumes the ring algorithm, with the protocol that NCCL chooses. With an algorithm that reduces in switches,
#: for example, the rails carry only half as many bytes.
_OTHER_WAYS = {
    "NCCL_ALGO": "Ring",
    "NCCL_PROTO": None,
}


@rule("judgeable", ERROR, "busbar measures only what it can judge", guard=True)
def judgeable(stack: Stack, _facts: None) -> Iterator[Breach]:
    """A pool that cannot be judged, because of its machines or of the variables set for ranks."""
    yield from exports(stack.measure, stack.accept)
    if stack.measure.pool not in {None, *stack.sizes}:
        return  # the rule `pool` refuses the name of a pool that does not exist
    path, shape, nodes = measured(stack)
    if shape:
        yield from machine(path, shape, stack.measure, nodes)
        yield from in_network(shape, stack.measure, stack.accept)


def measured(stack: Stack) -> tuple[str, Shape | None, int]:
    """Return the path of the key that names the measured machines, their row of the catalogue, and their number.

    If a job starts the machines, the number is the number of nodes of the test job. If the machines report their own hardware,
    the row is None and the number is 0. The number is also 0 if nothing could be measured.
    """
    wanted: Any = stack.wanted
    nodes = stack.sizes.get(stack.pool) or stack.startable.get(stack.pool, 0)
    if stack.target == "oci":
        return next((f"{path}.shape", pool.row, nodes) for path, pool in wanted.located if pool.name == stack.pool)
    if stack.target == "aws":
        return next((f"{path}.type", one.row, nodes) for path, key, one in wanted.located if key == stack.pool)
    if stack.target == "kubernetes":
        return "kubernetes.nodes", None, 0
    return "hosts.shape", wanted.row, len(wanted.machines) if wanted.row else 0


def exports(measure: Measure, accept: Accept) -> Iterator[Breach]:
    """Yield why the gate does not apply with the variables set for ranks."""
    path = "measure.exports"
    for name, value in measure.exports.items():
        if name.startswith("NCCL_TESTS_"):
            yield Breach(path, f"has {name}, which changes what nccl-tests measures; only the keys of measure may do this")
        if name == "NCCL_IB_DISABLE" and value != "0":
            yield Breach(
                path, f"has {name}={value}, which disables the rails, but the gate is for the rails; remove the variable"
            )
        if name in _OTHER_WAYS and value != _OTHER_WAYS[name] and accept.gate_gb_s is None:
            yield Breach(
                path,
                f"has {name}={value}, but the default gate is for NCCL's ring with the protocol that NCCL chooses; "
                "set accept.gate to the busbw that you expect, or remove the variable",
            )


def in_network(shape: Shape, measure: Measure, accept: Accept) -> Iterator[Breach]:
    """Yield a setting that lets switches reduce, if no gate for such runs on `shape` is known or set in the stack file."""
    value = measure.exports.get("NCCL_COLLNET_ENABLE", "0")
    if value != "0" and accept.gate_gb_s is None and gpus.in_network_share(shape.gpu) is None:
        yield Breach(
            "measure.exports",
            f"has NCCL_COLLNET_ENABLE={value}, which lets switches reduce, but no source publishes the busbw that a healthy "
            f"run on {shape.name} then reaches; set accept.gate to the busbw that you expect, or remove the variable",
        )


def machine(path: str, shape: Shape, measure: Measure, nodes: int = 0) -> Iterator[Breach]:
    """Yield why `measure` cannot judge machines of `shape`, which the key at `path` names; `nodes` is 0 if unknown."""
    if shape.gpu and not gpus.is_nvidia(shape.gpu):
        yield Breach(
            path, f"is {shape.name}, which has {shape.gpu} GPUs; busbar builds and measures NCCL, which needs NVIDIA's GPUs"
        )
    if gpus.spans_nodes(shape.gpu) and measure.exports.get("NCCL_MNNVL_ENABLE") != "0":
        yield from _rack(path, shape, measure, nodes)
    memory = gpus.memory_gb(shape.gpu)
    most = int((memory * 1e9 - _FREE_BYTES) / _BUFFERS) if memory else None
    if most is not None and measure.end_bytes > most:
        yield Breach(
            "measure.sizes.to",
            f"is {MESSAGE.show(measure.end_bytes)}, but three messages of this size do not fit on {shape.name}'s {shape.gpu} "
            f"with {memory:g} GB; it may be {most // _GIB}G at most",
        )


def _rack(path: str, shape: Shape, measure: Measure, nodes: int) -> Iterator[Breach]:
    """Yield why a measurement over NVLink between nodes cannot be judged; nothing for a single node."""
    if nodes == 1:
        return
    instead = 'set measure.exports.NCCL_MNNVL_ENABLE to "0" to measure and judge only the rails'
    which = f"is {shape.name}, whose NVLink joins nodes"
    if measure.collective not in gpus.RACK_SHARES:
        yield Breach(path, f"{which}, but busbar knows no gate for {measure.collective} over NVLink between nodes; {instead}")
    if nodes * shape.gpus > gpus.RACK:
        rack = f"only inside a rack, of at most {gpus.RACK // shape.gpus} nodes"
        yield Breach(path, f"{which} {rack}, but {nodes} are requested; {instead}")
    told = [f"{name}={measure.exports[name]}" for name in ("NCCL_ALGO", "NCCL_NVLS_ENABLE") if name in measure.exports]
    if told and told != ["NCCL_NVLS_ENABLE=1"]:
        yield Breach(path, f"{which}, but the gate assumes that switches reduce, which {', '.join(told)} may change; {instead}")
