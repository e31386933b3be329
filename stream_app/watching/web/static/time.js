// The time line, and the step that the whole page shows: the latest one, or the one the cursor stands on.

import { bars, line, lines } from "./charts.js";
import { dayName, isDayStart, number, numberOf, stepName } from "./words.js";

const by = (id) => document.getElementById(id);
let chosen = null; // null: the latest
let known = null; // the state drawn last
let onChange = () => {};
let asked = 0;

export function startTime(changed) {
  onChange = changed;
  by("at").addEventListener("input", () => choose(Number(by("at").value)));
  by("latest").addEventListener("click", () => choose(null));
  by("at-form").addEventListener("submit", (event) => event.preventDefault());
}

export function chosenStep() {
  return chosen;
}

export function choose(step) {
  const last = known ? known.next_step - 1 : null;
  chosen = step === last ? null : step;
  if (known) drawTime(known);
  const mine = ++asked;
  setTimeout(async () => {
    if (mine !== asked) return; // the cursor has moved on
    onChange(chosen === null ? null : await past(chosen), chosen);
  }, 60);
}

async function past(step) {
  const answer = await fetch(`step.json?step=${step}`);
  return answer.ok ? answer.json() : { error: (await answer.json()).error, step };
}

const inHundreds = (value) => `${+(100 * value).toPrecision(3)}`;

export function drawTime(state) {
  known = state;
  const { history, about, next_step: next } = state;
  const last = next - 1, at = chosen ?? last;
  by("at").min = Math.max(state.first_kept ?? 0, history[0]?.step ?? 0);
  by("at").max = Math.max(last, 0);
  by("at").value = at;
  by("at").disabled = last < 1;
  const lag = state.lag_steps && chosen === null ? ` (${state.lag_steps} behind)` : "";
  by("step").textContent = next ? stepName(at, about) + lag : "none yet";
  by("at").setAttribute("aria-valuetext", by("step").textContent);
  by("latest").disabled = chosen === null;
  if (!history.length) return;
  const steps = history.map((each) => each.step), days = steps.filter((step) => isDayStart(step, about));
  const newest = history[history.length - 1];
  const said = (name) => state.figures.find((each) => each.name === `last.${name}`)?.shown ?? "not known";
  const attack = (part) => history.map((each) => (each.attack ? each.attack[part] : null));
  const hasAttack = history.some((each) => each.attack);
  const hasCrowd = history.some((each) => each.mean_crowd !== null);
  const axes = { days, x: (step) => dayName(step, about), y: inHundreds, label: "in 100" };
  lines(by("over-time"), steps, [
    ...(hasAttack ? [
      line("attack, with its interval", "attack", attack(2), { width: 0, quiet: true }),
      line("attack", "attack", attack(1), { width: 0, quiet: true, band: "attack" }),
    ] : []),
    line("ceiling", "ceiling", history.map((each) => each.mean_risk)),
    ...(hasCrowd ? [line("ceiling in the crowd", "ceiling", history.map((each) => each.mean_crowd), { dash: "crowd" })] : []),
    ...(hasAttack ? [line("attack, with its interval", "attack", attack(0))] : []),
    line("guess", "guess", history.map((each) => each.mean_baseline)),
  ], {
    ...axes, at, onClick: () => hovered !== null && choose(hovered), onCursor: (step) => (hovered = step),
    describe: `Mean ceiling ${said("ceiling")}, mean attack ${said("attack")} and mean guess ${said("guess")} at step ${newest.step}; ${numberOf(steps.length, "step is", "steps are")} drawn`,
  });
  const moved = (of, part) => history.map((each) => each[of][part] ?? null);
  if (history.every((each) => each.risk.length)) lines(by("movement"), steps, [
    line("highest ceiling", "ceiling", moved("risk", 2), { dash: "highest" }),
    line("9 in 10 at or below", "ceiling", moved("risk", 1), { dash: "crowd" }),
    line("half at or below", "ceiling", moved("risk", 0)),
    line("half, guess", "guess", moved("baseline", 0)),
  ], { ...axes, at, title: "How ceilings and guesses moved", describe: `Half of the people have a ceiling of ${state.spread[0]} or less at step ${newest.step}, nine in ten of ${state.spread[1]} or less` });
}

let hovered = null;

export function drawSpread(distribution) {
  const { risk, baseline } = distribution, count = risk.length;
  const edges = Array.from({ length: count + 1 }, (_, index) => index / count);
  const high = risk.slice(count / 2).reduce((sum, each) => sum + each, 0);
  bars(by("spread"), edges, { ceiling: risk, guess: baseline }, {
    splits: [0, 0.25, 0.5, 0.75, 1], x: (value) => `${Math.round(100 * value)}`, y: (value) => number(value), label: "people",
    title: "People by chance, in 100", describe: `${numberOf(high, "person has", "people have")} a ceiling of 50 in 100 or more`,
  });
}
