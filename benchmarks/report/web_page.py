"""Writes one self-contained page of a measurement, without scripts and links, from the stack's outputs.

    python -m benchmarks.report.web_page OUTPUTS.json FOLDER [LAST.json]

writes `report.html`, `busbw.png` and, if pairs were searched, `pairs.png` into FOLDER. OUTPUTS.json is what
`pulumi stack output --json` prints.
"""

from __future__ import annotations

import json
import sys
from html import escape
from pathlib import Path
from typing import Any

from benchmarks.report import plot
from benchmarks.report.outputs import flat

_CSS = """
:root { --ink: #1c1c1e; --soft: #6b6b70; --line: #e3e3e6; --pass: #1a7f37; --short: #c1121f; --unknown: #9a6700; }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); max-width: 62rem; margin: 2.5rem auto; padding: 0 1.25rem; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: .2rem 0 .4rem; } h2 { font-size: 1.05rem; margin: 2.2rem 0 .6rem; }
p.lead { color: var(--soft); margin: 0 0 1.4rem; }
.badge { display: inline-block; padding: .1rem .7rem; border-radius: 1rem; color: #fff; font-weight: 600; }
.pass { background: var(--pass); } .short { background: var(--short); }
.unknown, .skipped { background: var(--unknown); }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .88rem; }
th, td { text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--line); }
th { color: var(--soft); font-weight: 600; } td.n, th.n { text-align: right; }
figure { margin: 0; } svg { max-width: 100%; height: auto; } code { font-size: .85rem; overflow-wrap: anywhere; }
summary { cursor: pointer; color: var(--soft); padding: .25rem 0; } ul { padding-left: 1.2rem; margin: .3rem 0; }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(10rem, 1fr)); gap: .8rem; margin: 1.2rem 0; }
.facts div { border-top: 2px solid var(--line); padding-top: .35rem; } .facts b { display: block; font-size: 1.25rem; }
.facts span { color: var(--soft); font-size: .82rem; }
"""


def html(outputs: dict[str, Any], past: dict[str, Any] | None = None, changes: tuple[str, ...] = ()) -> str:
    """Return the page of `outputs`; `past` is the record of the last run of its kind, `changes` what is different since."""
    verdict = str(outputs["verdict"])
    pairs = plot.matrix(outputs)
    parts = [
        f'<p><span class="badge {escape(verdict)}">{escape(verdict)}</span></p>',
        f"<h1>{escape(_headline(outputs))}</h1>",
        f'<p class="lead">{escape(_lead(outputs))}</p>',
        _facts(outputs),
        _list("Why", outputs["reasons"]),
        _list("Since the last run", changes),
        f"<h2>Bandwidth over message size</h2><figure>{plot.svg(plot.curves(outputs, past))}</figure>",
        f"<h2>Pairs of nodes</h2><figure>{plot.svg(pairs)}</figure>" if pairs else "",
        _checks(outputs),
        _results(outputs),
        _versions(outputs),
    ]
    title = escape(f"busbar: {verdict}, {len(outputs['nodes'])} x {outputs['shape']}")
    body = "\n".join(part for part in parts if part)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{title}</title><style>{_CSS}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


def write(
    outputs: dict[str, Any], folder: Path, past: dict[str, Any] | None = None, changes: tuple[str, ...] = ()
) -> tuple[Path, ...]:
    """Write page and pictures into `folder`; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {"report.html": html(outputs, past, changes).encode(), "busbw.png": plot.png(plot.curves(outputs, past))}
    pairs = plot.matrix(outputs)
    if pairs:
        files["pairs.png"] = plot.png(pairs)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return tuple(folder / name for name in files)


def _headline(outputs: dict[str, Any]) -> str:
    gate = outputs["gate"]
    if outputs["busbw_gb_s"] is None:
        return "No bus bandwidth was measured"
    return f"{gate['collective']}: {outputs['busbw_gb_s']:.4g} GB/s of bus bandwidth at {plot.size(gate['size_bytes'])}"


def _lead(outputs: dict[str, Any]) -> str:
    rehearsed = f" Rehearsed: every wire was slowed down by {outputs['scale']}." if outputs["rehearsed"] else ""
    return f"{len(outputs['nodes'])} x {outputs['shape']}, target {outputs['target']}. {outputs['gate']['why']}.{rehearsed}"


def _facts(outputs: dict[str, Any]) -> str:
    limit = outputs["gate"]["limit_gb_s"]
    efficiency = outputs["wire_efficiency"]
    facts = (
        ("of the wire", None if efficiency is None else f"{efficiency:.1%}"),
        ("gate, GB/s", None if limit is None else f"{limit:.4g}"),
        ("peak, GB/s", _number(outputs["peak_busbw_gb_s"])),
        ("latency, us", _number(outputs["latency_us"])),
    )
    cells = "".join(f"<div><b>{escape(value or 'none')}</b><span>{escape(name)}</span></div>" for name, value in facts)
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
    return f"<h2>Checks</h2><table><tr><th>check</th><th>state</th><th>why</th></tr>{rows}</table>"


def _results(outputs: dict[str, Any]) -> str:
    blocks = []
    for name, rows in outputs["results"].items():
        lines = "".join(_row(row) for row in rows)
        opened = " open" if name == outputs["gate"]["collective"] else ""
        blocks.append(
            f"<details{opened}><summary>{escape(name)}</summary><table><tr><th class=n>size</th><th class=n>time, us</th>"
            "<th class=n>algbw</th><th class=n>busbw</th><th class=n>wrong</th><th class=n>in place: time, us</th>"
            f"<th class=n>busbw</th><th class=n>wrong</th></tr>{lines}</table></details>"
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
        f"<p>Whole transcript on the head node: <code>{escape(str(evidence['path']))}</code>, sha256 of its text "
        f"<code>{escape(str(evidence['sha256']))}</code></p>"
        if evidence
        else ""
    )
    return f"<h2>Versions and evidence</h2><table>{rows}</table>{kept}"


def _number(value: Any) -> str:
    return "-" if value is None else f"{value:.5g}"


def main(argv: list[str]) -> int:
    """Render from files; return the exit status."""
    if len(argv) not in {2, 3}:
        sys.stderr.write(f"{__doc__}\n")
        return 2
    stack, *past = (json.loads(Path(path).read_text()) for path in (argv[0], *argv[2:]))
    outputs = flat(stack["expected"], stack["measured"]) | {"target": stack["target"], "nodes": stack["nodes"]}
    for path in write(outputs, Path(argv[1]), past[0] if past else None):
        sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
