"""Writes one self-contained page about a measurement, without scripts or links, from the stack's outputs.

    python -m benchmarks.report.web_page OUTPUTS.json FOLDER [LAST.json]

This command writes into FOLDER: `report.html`; `busbw.png`, if a size was measured; `pairs.png`, if pairs were measured.
OUTPUTS.json is what `pulumi stack output --json` prints. These outputs do not contain the stack's name, so the page does not
show the name. LAST.json is the record of an earlier run, whose curve is drawn, too.
"""

from __future__ import annotations

import json
import sys
from html import escape
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from benchmarks.report import cards, nodes, pairs, plot
from benchmarks.report.outputs import flat
from benchmarks.report.style import CSS

_PICTURES = {"busbw.png", "pairs.png"}
_PAIRS = (
    "Red: below the limit. Blue: from the limit to the ceiling. Hatched: not measured. Outlined: pairs of a blamed node or "
    "link, and slow pairs of nodes that are blamed together."
)


def html(outputs: dict[str, Any], past: dict[str, Any] | None = None, changes: tuple[str, ...] = ()) -> str:
    """Return the page for `outputs`; `past` is the last comparable run's record, `changes` says what changed since that run."""
    return _page(outputs, _figures(outputs, past), changes)


def _figures(outputs: dict[str, Any], past: dict[str, Any] | None) -> dict[str, Figure]:
    """Return the pictures that have something to show, by file name."""
    drawn = {"busbw.png": plot.curves(outputs, past) if plot.has_rows(outputs) else None, "pairs.png": pairs.matrix(outputs)}
    return {name: figure for name, figure in drawn.items() if figure}


def _page(outputs: dict[str, Any], figures: dict[str, Figure], changes: tuple[str, ...]) -> str:
    verdict = str(outputs["verdict"])
    parts = [
        cards.top(outputs),
        f'<p><span class="badge {escape(verdict)}">{escape(verdict)}</span></p>',
        f"<h1>{escape(_headline(outputs))}</h1>",
        f'<p class="lead">{escape(_lead(outputs))}</p>',
        _facts(outputs),
        cards.cards(outputs),
        _list("Why", cards.other_reasons(outputs)),
        _list("Since the last run", changes),
        _picture("Bandwidth and time over message size", figures.get("busbw.png")),
        _picture("Pairs of nodes", figures.get("pairs.png"), _PAIRS, "pairs"),
        nodes.table(outputs) if outputs["nodes"] else "",
        _checks(outputs),
        _results(outputs),
        _versions(outputs),
    ]
    title = escape(f"busbar: {verdict}, {len(outputs['nodes'])} x {outputs['shape']}")
    body = "\n".join(part for part in parts if part)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{title}</title><style>{CSS}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


def write(
    outputs: dict[str, Any], folder: Path, past: dict[str, Any] | None = None, changes: tuple[str, ...] = ()
) -> tuple[Path, ...]:
    """Write page and pictures into `folder`, and remove pictures of an earlier run; return the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    figures = _figures(outputs, past)
    files = {"report.html": _page(outputs, figures, changes).encode()}
    files |= {name: plot.png(figure) for name, figure in figures.items()}
    for name, data in files.items():
        (folder / name).write_bytes(data)
    for name in _PICTURES - files.keys():
        (folder / name).unlink(missing_ok=True)  # a picture of an earlier run does not belong to this page
    return tuple(folder / name for name in files)


def _headline(outputs: dict[str, Any]) -> str:
    gate = outputs["gate"]
    if outputs["busbw_gb_s"] is None:
        return "No bus bandwidth was measured"
    return f"{gate['collective']}: {outputs['busbw_gb_s']:.4g} GB/s of bus bandwidth at {plot.size(gate['size_bytes'])}"


def _picture(title: str, figure: Figure | None, caption: str = "", kind: str = "curves") -> str:
    if figure is None:
        return ""
    text = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f"<h2>{escape(title)}</h2><figure class={kind}>{plot.svg(figure)}{text}</figure>"


def _lead(outputs: dict[str, Any]) -> str:
    rehearsed = f" Rehearsed: every wire was slowed down by a factor of {outputs['scale']}." if outputs["rehearsed"] else ""
    return f"The gate: {outputs['gate']['why']}.{rehearsed}"


def _facts(outputs: dict[str, Any]) -> str:
    limit = outputs["gate"]["limit_gb_s"]
    efficiency = outputs["wire_efficiency"]
    facts = (
        ("of the ceiling", "-" if efficiency is None else f"{efficiency:.1%}"),
        ("ceiling, GB/s", _number(outputs["ceiling_gb_s"])),
        ("gate, GB/s", "no gate" if limit is None else f"{limit:.4g}"),
        ("peak, GB/s", _number(outputs["peak_busbw_gb_s"])),
        ("latency, us", _number(outputs["latency_us"])),
    )
    cells = "".join(f"<div><b>{escape(value)}</b><span>{escape(name)}</span></div>" for name, value in facts)
    return f'<div class="facts">{cells}</div>'


def _list(title: str, sentences: Any) -> str:
    items = "".join(f"<li>{escape(str(sentence))}</li>" for sentence in sentences)
    return f"<h2>{escape(title)}</h2><ul>{items}</ul>" if items else ""


def _checks(outputs: dict[str, Any]) -> str:
    rows = "".join(
        f'<tr><td>{escape(one["name"])}</td><td><span class="badge {escape(one["state"])}">{escape(one["state"])}</span></td>'
        f"<td>{escape('; '.join(one['why']))}</td></tr>"
        for one in outputs["checks"]
    )
    return f"<h2>Checks</h2><table class=checks><tr><th>check</th><th>state</th><th>why</th></tr>{rows}</table>"


def _results(outputs: dict[str, Any]) -> str:
    blocks = []
    for name, rows in outputs["results"].items():
        if not rows:
            continue
        lines = "".join(_row(row) for row in rows)
        opened = " open" if name == outputs["gate"]["collective"] else ""
        blocks.append(
            f"<details{opened}><summary>{escape(name)}</summary><div class=wide><table><tr><th class=n>size</th>"
            "<th class=n>time, us</th><th class=n>algbw, GB/s</th><th class=n>busbw, GB/s</th><th class=n>wrong</th>"
            "<th class=n>in place: time, us</th><th class=n>busbw, GB/s</th><th class=n>wrong</th></tr>"
            f"{lines}</table></div></details>"
        )
    return f"<h2>All rows</h2>{''.join(blocks)}" if blocks else ""


def _row(row: dict[str, Any]) -> str:
    first, second = row["out_of_place"], row["in_place"] or {}
    cells = (
        plot.size(row["size_bytes"]),
        *(_number(first.get(name)) for name in ("time_us", "algbw_gb_s", "busbw_gb_s", "wrong")),
        *(_number(second.get(name)) for name in ("time_us", "busbw_gb_s", "wrong")),
    )
    return "<tr>" + "".join(f"<td class=n>{escape(cell)}</td>" for cell in cells) + "</tr>"


def _versions(outputs: dict[str, Any]) -> str:
    rows = "".join(f"<tr><td>{escape(k)}</td><td>{escape(str(v))}</td></tr>" for k, v in sorted(outputs["versions"].items()))
    evidence = outputs["evidence"]
    kept = (
        f"<p>Complete transcript on the head node: <code>{escape(str(evidence['path']))}</code>, sha256 of its text "
        f"<code>{escape(str(evidence['sha256']))}</code></p>"
        if evidence
        else ""
    )
    return f"<h2>Versions and evidence</h2><table>{rows}</table>{kept}"


def _number(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 1e5 else f"{value:.5g}"  # noqa: PLR2004 - five digits, without an exponent


def main(argv: list[str]) -> int:
    """Write the page from the files that the arguments name; return the exit status."""
    if len(argv) not in {2, 3}:
        sys.stderr.write(f"{__doc__}\n")
        return 2
    stack, *past = (json.loads(Path(path).read_text()) for path in (argv[0], *argv[2:]))
    if stack["measured"]["gate"] is None:
        sys.stderr.write(f"web_page: there is nothing to show: {'; '.join(stack['measured']['reasons'])}\n")
        return 1
    outputs = flat(stack["expected"], stack["measured"]) | {"target": stack["target"], "nodes": stack["nodes"]}
    for path in write(outputs, Path(argv[1]), past[0] if past else None):
        sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
