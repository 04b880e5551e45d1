"""Draws one measurement: busbw over size for every collective, and the matrix of pairs if the cause was searched for."""

from __future__ import annotations

import io
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

mpl.use("Agg")  # no display is needed

#: The deciding collective is prominent; the others have Okabe and Ito's hues, which people with any colour vision can tell
#: apart.
_DECIDING = "#0b5394"
_OTHERS = ("#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a800", "#7a7a7a", "#8c564b", "#5b5bd6")
_CEILING, _GATE, _PAST = "#444444", "#c1121f", "#b5b5b5"
_WIDTH_IN, _HEIGHT_IN, _DPI = 9.6, 5.4, 144
_STYLE: Any = {
    "font.size": 10,
    "font.family": "DejaVu Sans",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "busbar",  # the same numbers give the same bytes
    "svg.fonttype": "none",
}


def curves(outputs: dict[str, Any], past: dict[str, Any] | None = None) -> Figure:
    """Return busbw (GB/s) over message size for every collective, with ceiling, gate, prediction and the last run in grey."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(_WIDTH_IN, _HEIGHT_IN), layout="constrained")
        axes = figure.subplots()
        gate = outputs["gate"]
        if past and past.get("rows"):
            axes.plot(*_points(past["rows"]), color=_PAST, linewidth=4, solid_capstyle="round", label="last run", zorder=1)
        hues = iter(_OTHERS * 2)
        for name, rows in outputs["results"].items():
            if not rows:
                continue
            deciding = name == gate["collective"]
            axes.plot(
                *_points(rows),
                color=_DECIDING if deciding else next(hues),
                linewidth=2.6 if deciding else 1.3,
                marker="o" if deciding else None,
                markersize=4,
                label=name,
                zorder=4 if deciding else 3,
            )
        _bounds(axes, outputs)
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(lambda value, _position: size(int(value)))
        axes.set_ylim(bottom=0)
        axes.set_xlabel("message size")
        axes.set_ylabel("bus bandwidth, GB/s, out of place")
        axes.grid(visible=True, axis="y", color="#e6e6e6", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.set_title(_title(outputs), loc="left", fontsize=11, fontweight="bold")
        figure.legend(loc="outside right upper", frameon=False, fontsize=9)
    return figure


def matrix(outputs: dict[str, Any]) -> Figure | None:
    """Return the matrix of the pairs that a search measured (GB/s), None if nothing was searched."""
    search = outputs.get("search") or {}
    pairs = [pair for pair in search.get("pairs") or [] if len(pair) == 3]  # noqa: PLR2004 - two nodes and a number
    if not pairs:
        return None
    names = [node["name"] for node in outputs["nodes"]]
    grid = [[float("nan")] * len(names) for _ in names]
    for one, other, busbw_gb_s in pairs:
        measured = 0.0 if busbw_gb_s is None else float(busbw_gb_s)
        for row, column in ((one, other), (other, one)):
            # A pair that was measured twice shows its worse side.
            known = grid[row][column]
            grid[row][column] = measured if known != known else min(known, measured)  # noqa: PLR0124 - nan is not itself
    with mpl.rc_context(_STYLE):
        side = min(4.0 + 0.28 * len(names), 12)
        figure = Figure(figsize=(side + 1.6, side), layout="constrained")
        axes = figure.subplots()
        top = search.get("healthy_gb_s") or max(float(pair[2] or 0) for pair in pairs)
        image = axes.imshow(grid, cmap="RdYlBu", vmin=0, vmax=top, interpolation="nearest")
        if len(names) <= 32:  # noqa: PLR2004 - more labels cover each other
            axes.set_xticks(range(len(names)), names, rotation=60, ha="right", fontsize=8)
            axes.set_yticks(range(len(names)), names, fontsize=8)
        if len(names) <= 16:  # noqa: PLR2004 - more numbers cover each other
            for row, column, value in ((r, c, grid[r][c]) for r in range(len(names)) for c in range(len(names))):
                if value == value:  # noqa: PLR0124 - nan is not itself
                    ink = "black" if 0.2 < value / top < 0.8 else "white"  # the map's ends are dark  # noqa: PLR2004
                    axes.text(column, row, f"{value:.3g}", ha="center", va="center", fontsize=7, color=ink)
        axes.set_title("all_reduce of pairs, GB/s; blank: not measured", loc="left", fontsize=11, fontweight="bold")
        figure.colorbar(image, ax=axes, label="bus bandwidth, GB/s", shrink=0.8)
    return figure


def png(figure: Figure) -> bytes:
    """Return `figure` as a PNG file."""
    target = io.BytesIO()
    figure.savefig(target, format="png", dpi=_DPI, metadata={"Software": None})
    return target.getvalue()


def svg(figure: Figure) -> str:
    """Return `figure` as an SVG element for a page."""
    target = io.StringIO()
    with mpl.rc_context(_STYLE):
        figure.savefig(target, format="svg", metadata={"Date": None, "Creator": None})
    text = target.getvalue()
    return text[text.index("<svg") :]


def size(size_bytes: int) -> str:
    """Return `size_bytes` as an axis shows it."""
    for unit, factor in (("Gi", 1024**3), ("Mi", 1024**2), ("Ki", 1024)):
        if size_bytes >= factor:
            return f"{size_bytes / factor:g} {unit}B"
    return f"{size_bytes} B"


def _points(rows: list[dict[str, Any]]) -> tuple[list[int], list[float]]:
    return [row["size_bytes"] for row in rows], [row["out_of_place"]["busbw_gb_s"] for row in rows]


def _bounds(axes: Axes, outputs: dict[str, Any]) -> None:
    """Draw what the wire allows, what a healthy run was predicted to give, and the gate at its size."""
    gate, scale = outputs["gate"], outputs["scale"]
    measured, efficiency = outputs["busbw_gb_s"], outputs["wire_efficiency"]
    if measured is not None and efficiency:
        ceiling = measured / efficiency
        axes.axhline(ceiling, color=_CEILING, linewidth=1, linestyle=(0, (6, 3)), label=f"ceiling {ceiling:.4g}", zorder=2)
    predicted = outputs.get("predicted_results") or []
    if predicted and scale == 1:
        axes.plot(
            [point["size_bytes"] for point in predicted],
            [point["busbw_gb_s"] for point in predicted],
            color=_CEILING,
            linewidth=1,
            linestyle=(0, (1, 2)),
            label="predicted",
            zorder=2,
        )
    limit, at = gate["limit_gb_s"], gate["size_bytes"]
    if limit is not None:
        axes.plot([at / 2, at], [limit, limit], color=_GATE, linewidth=2.4, label=f"gate {limit:.4g} at {size(at)}", zorder=5)
        axes.plot([at], [limit], color=_GATE, marker=9, markersize=7, zorder=5)


def _title(outputs: dict[str, Any]) -> str:
    nodes = len(outputs["nodes"])
    rehearsed = f", rehearsed at 1/{outputs['scale']}" if outputs["rehearsed"] else ""
    several = f"{nodes} x " if nodes > 1 else ""
    return f"{several}{outputs['shape']}: {outputs['verdict']}{rehearsed}"
