"""The words of the report that do not depend on a run, and its style sheet."""

from __future__ import annotations

from stream_app.watching.narrow_tables import narrow_style

CHOOSING_A_RULE = (
    "To have the question answered, decide how much risk is acceptable, for how many people, and write it in "
    "the settings file under [release.budget]. With added = 0.05 and share = 0.01, for "
    "instance, the chance of being traced may rise by at most 5 percentage points for 99 people in 100; "
    'risk = 0.5 would limit the ceiling itself. With mechanism = "budget" under [release] every step is then '
    "released with the least noise that keeps the rule; under any other mechanism the report only compares "
    "the run with it. tallyguard plan tries a rule in advance."
)
CONDITION = (
    "Every ceiling holds {condition}, and only then. On real Foursquare check-ins the ceilings "
    "were 29 in 100 on average, and an attack was right on 46 in 100 of the real traces: people were more "
    "regular than the fitted priors said. tallyguard priors fit says how well priors predict."
)
ROUNDED = (
    "Ceilings and what was added are rounded up, guesses to the nearest, so ceiling less guess may differ "
    "from added by 1."
)
LOWERING = (
    "Noise: a larger sigma at the sensors with exact or nearly exact counts, first where few people pass.",
    "Fewer sensors or fewer steps: what is not released costs nobody anything.",
    "Larger areas: one sensor over several locations reveals less about a single person.",
    "Try it: tallyguard run on the same messages with other settings.",
)
LIMITS = (
    "Habits are those of the movement prior. The ceiling does not cover a person whose habits differ from "
    "it, nor an observer who knows more than habits; epsilon is the figure for any observer.",
    "People who move together are each accounted on their own.",
    "Only counts are accounted: images, sounds or radio traces a sensor may take are not.",
    "The ceiling is a bound, not an attack: the best known attack may be far below it.",
    "The running ceiling covers the last steps only, given everything released before and during them. For "
    "the most exposed people the report adds what everything released later reveals about the same steps.",
)
STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif;
  --ink: #16202a; --quiet: #4d5a66; --line: #ccd4dc; --ceiling: #0063a0; --guess: #a84300; --added: #5c6b2f;
  --attack: #7a2d8f; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8edf2; --quiet: #a9b6c2; --line: #38444f;
  --ceiling: #62b8f0; --guess: #f0a04b; --added: #b7c96a; --attack: #d59be8; } body { background: #11171d; } }
body { margin: 0 auto; max-width: 52rem; padding: 1rem; color: var(--ink); }
h1 { font-size: 1.5rem; margin-bottom: 0; } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
.note, figcaption, dd { color: var(--quiet); } figure { margin: 1rem 0; } dd { margin: 0 0 .5rem; }
dt { font-weight: 600; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .25rem .6rem; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child, .facts td { text-align: left; padding-left: 0; } th { color: var(--quiet); }
table.facts { --a2: left; --w1: anywhere; --w2: anywhere; } .facts th { min-width: 6rem; }
p, dd { overflow-wrap: anywhere; }
.dense { font-size: .7rem; } .dense th, .dense td { padding: .1rem .15rem; }
.scroll { overflow-x: auto; }
svg { width: 100%; height: auto; } svg text { fill: var(--quiet); font-size: 12px; }
.grid { stroke: var(--line); } polyline { fill: none; stroke-width: 2.5; }
.ceiling { stroke: var(--ceiling); } .guess { stroke: var(--guess); stroke-dasharray: 7 4; }
.added { stroke: var(--added); stroke-dasharray: 2 4; }
.attack { stroke: var(--attack); stroke-dasharray: 2 3; } svg .name-attack { fill: var(--attack); }
polygon { fill: var(--attack); }
svg .name-ceiling { fill: var(--ceiling); } svg .name-guess { fill: var(--guess); }
svg .name-added { fill: var(--added); }
"""
STYLE += narrow_style("var(--line)")
STYLE += """
@media screen and (max-width: 44rem) { .dense tr { display: flex; flex-wrap: wrap; gap: .2rem .6rem; }
  .dense tr > :first-child { width: 100%; } table.dense td { gap: .3rem; }
  .dense td:empty { display: none; } }
.verdict { border-left: .3rem solid var(--ceiling); padding: .25rem 0 .25rem 1rem; font-size: 1.15rem;
  font-weight: 600; }
@page { size: A4; margin: 18mm 16mm 20mm; @bottom-right { content: counter(page) " of " counter(pages); } }
@media print { :root { font-size: 10.5pt; } body { padding: 0; max-width: none; }
  th, td { padding: 2pt 4pt; font-size: 8.5pt; } .facts th { width: 32%; }
  .dense th, .dense td { padding: 1pt; font-size: 6pt; } .dense th[scope=row] { max-width: 60pt; }
  tr, figure { break-inside: avoid; } h2, dt { break-after: avoid; } p:has(+ .scroll) { break-after: avoid; }
  .scroll { overflow: visible; } }
"""
