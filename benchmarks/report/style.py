"""The style sheet of the report page: for screens, phones and paper."""

from __future__ import annotations

CSS = """
:root { --ink: #1c1c1e; --soft: #6b6b70; --line: #e3e3e6; --pass: #1a7f37; --short: #c1121f; --unknown: #9a6700; }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); max-width: 62rem; margin: 2.5rem auto; padding: 0 1.25rem; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: .2rem 0 .4rem; } h2 { font-size: 1.05rem; margin: 2.2rem 0 .6rem; }
p.lead { color: var(--soft); margin: 0 0 1.4rem; }
.badge { display: inline-block; padding: .1rem .7rem; border-radius: 1rem; color: #fff; font-weight: 600; }
.pass { background: var(--pass); } .short { background: var(--short); }
.unknown { background: var(--unknown); } .skipped { background: var(--soft); }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .88rem; }
th, td { text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--line); }
th { color: var(--soft); font-weight: 600; } td.n, th.n { text-align: right; } td.n { white-space: nowrap; }
figure, .wide { margin: 0; overflow-x: auto; } svg { display: block; max-width: 100%; height: auto; }
code { font-size: .85rem; overflow-wrap: anywhere; }
summary { cursor: pointer; color: var(--soft); padding: .25rem 0; } ul { padding-left: 1.2rem; margin: .3rem 0; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1.2rem; margin: 0 0 1.6rem; font-size: .9rem; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(7rem, 1fr)); gap: .8rem; margin: 1.2rem 0; }
.facts div { border-top: 2px solid var(--line); padding-top: .35rem; } .facts b { display: block; font-size: 1.25rem; }
.facts span { color: var(--soft); font-size: .82rem; }
.culprit { border: 1px solid var(--line); border-left: 5px solid var(--short); padding: .7rem 1rem; margin: 1rem 0; }
.culprit h3 { font-size: 1.1rem; margin: 0; } .culprit p { margin: .3rem 0; } .culprit .blamed td { font-weight: 600; }
.culprit td { border: 0; padding: .12rem .8rem .12rem 0; } .culprit td.bar { width: 45%; }
.bar i { display: block; height: .7rem; margin-top: .4rem; background: #7fa8cf; } .blamed .bar i { background: var(--short); }
.sort label { cursor: pointer; color: var(--soft); font-weight: 600; } input.by { position: absolute; opacity: 0; }
.grid { display: grid; font-variant-numeric: tabular-nums; font-size: .88rem; }
.grid > div { display: grid; border-bottom: 1px solid var(--line); padding: .3rem 0;
  grid-template-columns: minmax(9rem, 1.6fr) minmax(6rem, 1fr) repeat(auto-fit, minmax(5rem, 1fr)); column-gap: .8rem; }
.grid .n { text-align: right; } .grid .is-blamed { color: var(--short); font-weight: 600; } .grid .sort { order: -1; }
@media (max-width: 40rem) {
  body { margin: 1.2rem auto; } dl { grid-template-columns: 1fr; gap: 0; } dd { margin: 0 0 .4rem; }
  figure svg { max-width: none; width: 42rem; } figure.pairs svg { width: 100%; } .wide table { min-width: 34rem; }
  .culprit { padding: .6rem .7rem; } .culprit .wide table { min-width: 0; font-size: .8rem; } .culprit td.bar { width: 25%; }
  .checks tr { display: grid; grid-template-columns: 1fr max-content; border-bottom: 1px solid var(--line); }
  .checks td { border: 0; padding-bottom: .2rem; } .checks td:last-child { grid-column: 1 / -1; padding-top: 0; }
  .checks tr:first-child { display: none; }
}
@media print {
  body { font-size: 10.5pt; margin: 0; max-width: none; padding: 0; } h2 { break-after: avoid; }
  .badge { color: var(--ink); background: none; border: 2px solid var(--ink); } .short.badge { text-decoration: underline; }
  .bar i { border: 1px solid var(--ink); box-sizing: border-box; } .blamed .bar i { border-width: 3px; }
  h1 { font-size: 15pt; } h2 { font-size: 11pt; margin: 1rem 0 .3rem; } dl, .lead, .facts { margin: .4rem 0; }
  table, .grid { font-size: 8pt; line-height: 1.2; } th, td, .grid > div { padding-top: .1rem; padding-bottom: .1rem; }
  details td, details th { font-size: 7.5pt; line-height: 1.1; padding-top: 0; padding-bottom: 0; }
  .culprit { padding: .3rem .8rem; margin: .4rem 0; } .culprit td { padding-top: 0; padding-bottom: 0; }
  .bar i { height: .5rem; margin-top: .1rem; } .badge { padding: 0 .5rem; border-width: 1.5px; }
  figure, .wide { overflow: visible; } figure, tr, .grid > div, details { break-inside: avoid; } summary { break-after: avoid; }
  figure svg { width: auto; max-width: 6.4in; max-height: 4.3in; } .grid { min-width: 0 !important; }
  details::details-content { content-visibility: visible; block-size: auto; } summary { list-style: none; }
}
"""
