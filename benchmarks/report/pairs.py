"""The matrix of pairs: what each pair reached, which pairs were not measured, and which pairs have a culprit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from benchmarks.report.outputs import culprits, tried_pairs
from benchmarks.report.plot import STYLE

#: Colours of pairs below the limit, and colours of pairs from the limit to the ceiling.
_SHORT, _FINE = ("#7f0d17", "#f29a94"), ("#d3e4f3", "#0b5394")
_OUTLINE, _HATCHING = "#000000", "#c9c9c9"
#: A pair below this share of a healthy pair's busbw is slow. If the gate is not for all_reduce, slow pairs are red.
_OF_HEALTHY = 0.9
#: Kinds of culprits that consist of several nodes. Some pairs of these nodes may be fine.
_TOGETHER = frozenset({"group", "between"})
#: The matrix has names only up to the first number of nodes, and numbers only up to the second, because more would overlap.
_MOST_NAMES, _MOST_NUMBERS = 32, 16


@dataclass(frozen=True)
class Pairs:
    """What the matrix shows.

    Attributes:
        names: host names, in the order of rows and columns.
        measured: all_reduce busbw (GB/s) by pair of node indices, the lower index first; 0.0 for a pair without a number.
        ceiling_gb_s: upper end of the colour scale: the ceiling of all_reduce, or what a healthy pair reaches if that ceiling
            is not known.
        limit_gb_s: a pair with a lower busbw is red.
        blamed: pairs that contain a culprit. If several nodes are blamed together, only the slow pairs of these nodes.
    """

    names: tuple[str, ...]
    measured: dict[tuple[int, int], float]
    ceiling_gb_s: float
    limit_gb_s: float
    blamed: frozenset[tuple[int, int]]

    @property
    def short(self) -> frozenset[tuple[int, int]]:
        """Pairs below the limit."""
        return frozenset(pair for pair, busbw_gb_s in self.measured.items() if busbw_gb_s < self.limit_gb_s)


def read(outputs: dict[str, Any]) -> Pairs | None:
    """Return what the matrix of `outputs` shows; None if no pair was measured."""
    search, gate = outputs.get("search") or {}, outputs["gate"]
    measured: dict[tuple[int, int], float] = {}
    for one, other, busbw_gb_s in tried_pairs(search):
        # A pair that was measured twice shows its lower number.
        measured[one, other] = min(measured.get((one, other), float("inf")), busbw_gb_s)
    if not measured:
        return None
    decides = gate["collective"] == "all_reduce"
    healthy = search.get("healthy_gb_s") or max(measured.values()) or 1.0
    ceiling = (outputs.get("ceiling_gb_s") if decides else None) or healthy
    limit = (gate["limit_gb_s"] if decides else None) or _OF_HEALTHY * healthy
    names = tuple(node["name"] for node in outputs["nodes"])
    slow = {pair for pair, busbw_gb_s in measured.items() if busbw_gb_s < max(limit, _OF_HEALTHY * healthy)}
    blamed = frozenset(
        pair
        for pair in measured
        for one in culprits(search)
        if _has(one, {names[each] for each in pair}) and (pair in slow or one.get("kind") not in _TOGETHER)
    )
    return Pairs(names, measured, ceiling, limit, blamed)


def matrix(outputs: dict[str, Any]) -> Figure | None:
    """Return the matrix as a picture; None if no pair was measured."""
    found = read(outputs)
    if found is None:
        return None
    count = len(found.names)
    grid = [[float("nan")] * count for _ in range(count)]
    for (one, other), busbw_gb_s in found.measured.items():
        grid[one][other] = grid[other][one] = busbw_gb_s
    with rc_context(STYLE):
        side = min(4.0 + 0.28 * count, 10)
        figure = Figure(figsize=(side + 1.6, side), layout="constrained")
        axes = figure.subplots()
        axes.add_patch(
            Rectangle((-0.5, -0.5), count, count, facecolor="white", edgecolor=_HATCHING, hatch="////", linewidth=0, zorder=0)
        )
        image = axes.imshow(grid, cmap=_colours(found), vmin=0, vmax=found.ceiling_gb_s, interpolation="nearest", zorder=1)
        for each in range(count):
            axes.add_patch(Rectangle((each - 0.5, each - 0.5), 1, 1, facecolor="white", edgecolor="none", zorder=2))
        _label(axes, found)
        for pair in sorted(found.blamed):
            for row, column in (pair, pair[::-1]):
                axes.add_patch(
                    Rectangle(
                        (column - 0.5, row - 0.5),
                        1,
                        1,
                        fill=False,
                        edgecolor=_OUTLINE,
                        linewidth=2.4 if count <= _MOST_NUMBERS else 0.9,
                        zorder=4,
                    )
                )
        axes.set_title("all_reduce of pairs, GB/s", loc="left", fontsize=11, fontweight="bold")
        bar = figure.colorbar(image, ax=axes, shrink=0.8)
        bar.set_ticks(
            [0, found.limit_gb_s, found.ceiling_gb_s],
            labels=["0", f"{found.limit_gb_s:.4g} limit", f"{found.ceiling_gb_s:.4g} ceiling"],
        )
    return figure


def _has(culprit: dict[str, Any], pair: set[str]) -> bool:
    """Tell whether `pair` contains the blamed node, or a node of the blamed group, or is on a blamed link or path."""
    nodes, kind = set(culprit.get("nodes", [])), culprit.get("kind")
    # A slow rail plane affects every pair, so no pair is marked for it. If the list of nodes is cut, the rest of the nodes is
    # not known, so no pair is marked either.
    if kind == "rail_plane" or any(str(name).startswith("...") for name in nodes):
        return False
    return pair <= nodes if kind in {"link", "between"} else bool(nodes & pair)


def _colours(found: Pairs) -> LinearSegmentedColormap:
    """Return a colour map: red up to the limit and blue above it, so that no pair below the limit looks healthy."""
    at = min(max(found.limit_gb_s / found.ceiling_gb_s, 0.001), 0.999)
    stops = [(0.0, _SHORT[0]), (at, _SHORT[1]), (at, _FINE[0]), (1.0, _FINE[1])]
    return LinearSegmentedColormap.from_list("pairs", stops, N=1024)


def _label(axes: Axes, found: Pairs) -> None:
    """Label rows and columns, and write numbers where there is room."""
    every = 1 if len(found.names) <= _MOST_NAMES else 8
    shown = range(0, len(found.names), every)
    axes.set_xticks(list(shown), [found.names[each] for each in shown], rotation=60, ha="right", fontsize=8)
    axes.set_yticks(list(shown), [found.names[each] for each in shown], fontsize=8)
    if len(found.names) > _MOST_NUMBERS:
        return
    middle = (found.limit_gb_s / 2, (found.limit_gb_s + found.ceiling_gb_s) / 2)
    for (one, other), value in found.measured.items():
        is_dark = value < middle[0] or value > middle[1]
        for row, column in ((one, other), (other, one)):
            text = f"{value:.3g}" if value else "none"
            ink = "white" if is_dark else "black"
            axes.text(column, row, text, ha="center", va="center", fontsize=7, color=ink, zorder=3)
