"""Draws one measurement: busbw and time over message size, for every collective."""

from __future__ import annotations

import io
from typing import IO, Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

mpl.use("Agg")  # no display is needed

#: The deciding collective stands out. The first five of the others have colours of Okabe and Ito, which people with any colour
#: vision can tell apart; further collectives have other colours.
_DECIDING = "#0b5394"
_OTHERS = ("#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a800", "#7a7a7a", "#8c564b", "#5b5bd6")
_CEILING, _GATE, _PAST = "#444444", "#c1121f", "#b5b5b5"
_WIDTH_IN, _HEIGHT_IN, _DPI = 9.6, 7.6, 110
#: The busbw axis ends at this multiple of the ceiling, or higher if the gate or a number of the deciding collective needs more
#: room. Without this limit, the high values that a rehearsal reaches in short bursts would flatten all curves.
_HEADROOM = 1.2
STYLE: Any = {
    "font.size": 10,
    "font.family": "DejaVu Sans",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "busbar",  # a fixed salt, so that the same numbers produce the same bytes
    "svg.fonttype": "none",
}


def curves(outputs: dict[str, Any], past: dict[str, Any] | None = None) -> Figure:
    """Return busbw (GB/s) and time (us) over message size for every collective.

    The figure also has ceiling, gate, prediction (not in a rehearsal) and, in grey, the previous run. The busbw axis ends above
    the ceiling; a triangle at the axis's upper end marks a higher number.
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(_WIDTH_IN, _HEIGHT_IN), layout="constrained")
        bandwidth, time = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
        if past and past.get("rows"):
            bandwidth.plot(*_points(past["rows"]), color=_PAST, linewidth=4, solid_capstyle="round", label="last run", zorder=1)
        top = highest_gb_s(outputs)
        for name, rows, style in _styled(outputs):
            sizes, numbers = _points(rows)
            bandwidth.plot(sizes, numbers, label=name, **style)
            time.plot(sizes, [row["out_of_place"]["time_us"] for row in rows], label=name, **style)
            beyond = [size for size, number in zip(sizes, numbers, strict=True) if top is not None and number > top]
            if beyond and top is not None:
                bandwidth.plot(
                    beyond, [top] * len(beyond), "^", color=style["color"], markersize=6, clip_on=False, label=None, zorder=6
                )
        _bounds(bandwidth, outputs)
        _axes(bandwidth, time, top)
        bandwidth.set_title(_title(outputs), loc="left", fontsize=11, fontweight="bold")
        handles, labels = bandwidth.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside right upper", frameon=False, fontsize=9)
    return figure


def has_rows(outputs: dict[str, Any]) -> bool:
    """Tell whether any size of any collective was measured."""
    return any(outputs["results"].values())


def highest_gb_s(outputs: dict[str, Any]) -> float | None:
    """Return the end of the busbw axis (GB/s), above all numbers of the deciding collective; None if no ceiling is known."""
    ceiling, gate = outputs.get("ceiling_gb_s"), outputs["gate"]
    if not ceiling:
        return None
    deciding = [row["out_of_place"]["busbw_gb_s"] for row in outputs["results"].get(gate["collective"], ())]
    return float(max(_HEADROOM * ceiling, *(1.05 * number for number in [gate["limit_gb_s"] or 0.0, *deciding])))


def _styled(outputs: dict[str, Any]) -> list[tuple[str, list[dict[str, Any]], dict[str, Any]]]:
    """Return each collective that has rows, with its line style; the deciding collective is first."""
    decides = outputs["gate"]["collective"]
    hues = iter(_OTHERS * 2)
    heavy = {"color": _DECIDING, "linewidth": 2.6, "marker": "o", "markersize": 4, "zorder": 4}
    light: dict[str, Any] = {"linewidth": 1.3, "zorder": 3}
    found = sorted(((name, rows) for name, rows in outputs["results"].items() if rows), key=lambda its: its[0] != decides)
    return [(name, rows, heavy if name == decides else light | {"color": next(hues)}) for name, rows in found]


def _axes(bandwidth: Axes, time: Axes, top: float | None) -> None:
    bandwidth.set_ylim(bottom=0, top=top)
    bandwidth.set_ylabel("bus bandwidth, GB/s")
    time.set_ylabel("time, us")
    time.set_yscale("log")
    time.set_xlabel(
        "message size; both plots show out-of-place results" + ("; a triangle marks a value above the axis" if top else "")
    )
    time.set_xscale("log", base=2)
    time.xaxis.set_major_formatter(lambda value, _position: size(int(value)))
    # Labels are plain numbers, and minor ticks have none: drawing powers of ten and minor labels would take most of the time.
    time.yaxis.set_major_formatter(lambda value, _position: f"{value:,.15g}")
    lowest, highest = time.get_ylim()
    time.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if highest < 1000 * lowest else (1,)))
    time.minorticks_off()
    bandwidth.minorticks_off()
    for axes in (bandwidth, time):
        axes.grid(visible=True, axis="y", color="#e6e6e6", linewidth=0.8)
        axes.set_axisbelow(True)


def png(figure: Figure) -> bytes:
    """Return `figure` as a PNG file."""
    target = io.BytesIO()
    _save(figure, target, format="png", dpi=_DPI, metadata={"Software": None})
    return target.getvalue()


def svg(figure: Figure) -> str:
    """Return `figure` as an SVG element for a page."""
    target = io.StringIO()
    with mpl.rc_context(STYLE):
        _save(figure, target, format="svg", metadata={"Date": None, "Creator": None})
    text = target.getvalue()
    return text[text.index("<svg") :]


def _save(figure: Figure, target: IO[Any], **how: Any) -> None:
    figure.savefig(target, **how)
    figure.set_layout_engine("none")  # the layout is finished, and later drawings must keep it


def size(size_bytes: int) -> str:
    """Return `size_bytes` as an axis shows it."""
    for unit, factor in (("Gi", 1024**3), ("Mi", 1024**2), ("Ki", 1024)):
        if size_bytes >= factor:
            return f"{size_bytes / factor:g} {unit}B"
    return f"{size_bytes} B"


def _points(rows: list[dict[str, Any]]) -> tuple[list[int], list[float]]:
    return [row["size_bytes"] for row in rows], [row["out_of_place"]["busbw_gb_s"] for row in rows]


def _bounds(axes: Axes, outputs: dict[str, Any]) -> None:
    """Draw the ceiling, the prediction for a healthy run, and the gate at its size."""
    gate, scale = outputs["gate"], outputs["scale"]
    ceiling = outputs.get("ceiling_gb_s")
    if ceiling:
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
