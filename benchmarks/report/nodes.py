"""The table of nodes: what each node reached, what it sent, and whether it is to blame."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from statistics import median
from typing import Any

from benchmarks.report.outputs import culprits, tried_pairs

#: Number columns: field, heading. Sorting puts the lowest first.
_NUMBERS = (
    ("inside_gb_s", "inside, GB/s"),
    ("worst_pair_gb_s", "worst pair, GB/s"),
    ("middle_pair_gb_s", "median pair, GB/s"),
    ("sent_gb", "sent by rails, GB"),
    ("least_rail_gb", "least rail, GB"),
)


@dataclass(frozen=True)
class NodeRow:
    """One node of a measurement; a number that was not measured is None.

    Attributes:
        name: its host name.
        address: the address at which the other nodes reach it.
        inside_gb_s: busbw inside the node.
        worst_pair_gb_s: the lowest busbw of its pairs in the search; 0.0 if a pair has no number.
        middle_pair_gb_s: the median busbw of its pairs.
        sent_gb: decimal GB that its rails sent from the start of the measurement to the end of the deciding run.
        least_rail_gb: decimal GB that its least used rail sent in the same time.
        is_blamed: whether the search blames the node, by itself or with other nodes. If a rail is slow on all nodes, or if a
            path that several pairs share is slow, no node is blamed.
    """

    name: str
    address: str
    inside_gb_s: float | None = None
    worst_pair_gb_s: float | None = None
    middle_pair_gb_s: float | None = None
    sent_gb: float | None = None
    least_rail_gb: float | None = None
    is_blamed: bool = False


def rows(outputs: dict[str, Any]) -> list[NodeRow]:
    """Return a row for each node, in the order of the measurement."""
    search, transport = outputs.get("search") or {}, outputs.get("transport") or {}
    named = [one for one in culprits(search) if one.get("kind") not in {"rail_plane", "between"}]
    blamed = {name for one in named for name in one.get("nodes", [])}
    inside = outputs.get("inside_gb_s") or []
    tried = tried_pairs(search)
    found = []
    for index, node in enumerate(outputs["nodes"]):
        pairs = [busbw_gb_s for one, other, busbw_gb_s in tried if index in {one, other}]
        sent = _sent(transport, node["name"])
        found.append(
            NodeRow(
                name=node["name"],
                address=node["address"],
                inside_gb_s=inside[index] if index < len(inside) else None,
                worst_pair_gb_s=min(pairs, default=None),
                middle_pair_gb_s=median(pairs) if pairs else None,
                sent_gb=sum(sent) if sent else None,
                least_rail_gb=min(sent, default=None),
                is_blamed=node["name"] in blamed,
            )
        )
    return found


def table(outputs: dict[str, Any]) -> str:
    """Return the table. A click on a heading sorts the table without a script: each row has its position in every order."""
    found = rows(outputs)
    shown = [(name, heading) for name, heading in _NUMBERS if any(getattr(row, name) is not None for row in found)]
    orders = {"name": _order([row.name for row in found])}
    orders |= {name: _order([_least_first(getattr(row, name)) for row in found]) for name, _ in shown}
    keys = ["given", *orders]
    inputs = "".join(f"<input class=by type=radio name=by id=by-{key}{' checked' if key == 'given' else ''}>" for key in keys)
    rules = "".join(f"#by-{key}:checked ~ .wide .row {{ order: var(--{key}) }}" for key in orders)
    rules += "".join(f"#by-{key}:checked ~ .wide label[for=by-{key}] {{ text-decoration: underline }}" for key in orders)
    rules += "".join(f"#by-{key}:focus-visible ~ .wide label[for=by-{key}] {{ outline: 2px solid }}" for key in orders)
    head = "<label for=by-name>node</label><label for=by-given>address, in rank order</label>"
    head += "".join(f"<label class=n for=by-{name}>{escape(heading)}</label>" for name, heading in shown)
    lines = "".join(
        f'<div role=row class="row{" is-blamed" if row.is_blamed else ""}" '
        f'style="{";".join(f"--{key}:{orders[key][index]}" for key in orders)}">'
        f"<span role=cell>{escape(row.name)}{' (blamed)' if row.is_blamed else ''}</span>"
        f"<span role=cell>{escape(row.address)}</span>"
        + "".join(f"<span role=cell class=n>{_number(getattr(row, name))}</span>" for name, _ in shown)
        + "</div>"
        for index, row in enumerate(found)
    )
    return (
        f"<h2>Nodes</h2><style>{rules}</style>{inputs}"
        f'<div class=wide><div class=grid role=table style="min-width:{17 + 6 * len(shown)}rem">'
        f"<div role=row class=sort>{head}</div>{lines}</div></div>"
    )


def _sent(transport: dict[str, Any], name: str) -> list[float]:
    """Return the GB that each rail of a node sent; empty where nothing was counted."""
    sent = (transport.get("tx_bytes") or {}).get(name) or {}
    return [float(sent[rail]) / 1e9 for rail in transport.get("hcas") or [] if isinstance(sent.get(rail), int | float)]


def _least_first(value: float | None) -> tuple[bool, float]:
    return (value is None, value or 0.0)


def _order(values: list[Any]) -> list[int]:
    """Return the position of each value in sorted order."""
    places = [0] * len(values)
    for place, index in enumerate(sorted(range(len(values)), key=lambda each: values[each])):
        places[index] = place
    return places


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
