// What if: another noise, rule, horizon, other sensors. Answered by the fast bound while a slider moves, refined when
// it rests. Plan A stands still, plan B follows the sliders; the address opens the same two plans again.

import { drawPlan } from "./answer.js";
import { line, lines } from "./charts.js";
import { ask } from "./people.js";
import { element, number } from "./words.js";

const REST_MS = 500, MOST_LISTED = 200;
const by = (id) => document.getElementById(id);
let base = null; // what the sliders began with
let off = new Set();
let planA = {}; // the query of plan A; empty: as it is now
let plans = { a: null, b: null };
let asking = false, again = false, resting = 0, wish = null;
let about = null;

export function startPlans() {
  by("plan-form").addEventListener("input", (event) => {
    delete event.target.dataset.exact;
    if (event.target.id !== "plan-find") moved();
  });
  by("plan-form").addEventListener("submit", (event) => event.preventDefault());
  by("plan-find").addEventListener("input", listSensors);
  by("all-on").addEventListener("click", () => turn([...off], true));
  by("all-off").addEventListener("click", () => turn(listed(), false));
  by("pin").addEventListener("click", pin);
  by("link").addEventListener("click", copyLink);
  by("take-form").addEventListener("submit", take);
}

// What the address says of plans: opened once the token is there.
export function wishPlans(query) {
  wish = query;
}

export async function openPlans(isOpen, state) {
  about = state?.about ?? about;
  if (!isOpen || !state?.has_plans) {
    by("plans").hidden = true;
    return;
  }
  try {
    base = await ask("plan.json?about=1");
  } catch (error) {
    by("people-message").textContent = error.message;
    return;
  }
  by("plans").hidden = false;
  by("sigma").max = base.sigmas.length - 1;
  by("plans-about").textContent = `${base.about.slice(0, 1).toUpperCase()}${base.about.slice(1)}: the same sensors and steps, released otherwise, accounted anew from the first of them. No count is used.`;
  by("take-form").hidden = !base.can_be_taken;
  const rule = base.rule ?? { added: 0.1, risk: null, share: 0.05 };
  fill({ noise: base.noise, horizon: base.horizon, mistakes: base.mistakes, added: rule.added ?? "", risk: rule.risk ?? "", share: rule.share });
  for (const [id, name] of [["plan-a", "Plan A, to compare with"], ["plan-b", "Plan B"]]) drawPlan(by(id), name, { plan: "the figures are being computed", pending: true });
  planA = { noise: base.noise, added: rule.added ?? "", risk: rule.risk ?? "", share: `${rule.share}`, horizon: `${base.horizon}`, mistakes: `${base.mistakes}` };
  if (base.noise === "") choose("sigma"); // else both plans would be the same
  if (wish?.get("a")) planA = Object.fromEntries(new URLSearchParams(wish.get("a")));
  if (wish?.get("b")) fill(Object.fromEntries(new URLSearchParams(wish.get("b"))));
  wish = null;
  listSensors();
  say();
  await compute("a", planA, true);
  moved();
}

function fill(query) {
  const sigma = base.sigmas.findIndex(([each]) => each === Number(query.noise));
  const noiseBy = query.noise === "" || query.noise === "rule" ? query.noise : "sigma";
  choose(noiseBy);
  if (noiseBy === "sigma" && sigma >= 0) by("sigma").value = sigma;
  by("of").value = query.risk ? "risk" : "added";
  place("level", 100, query.risk || query.added || 0.1);
  place("share", 200, query.share ?? 0.05);
  by("horizon").value = query.horizon;
  by("mistakes").max = Math.max(0, Number(query.horizon) - 1);
  by("mistakes").value = query.mistakes;
  off = new Set((query.off ?? "").split(",").filter(Boolean).map((each) => base.sensors[Number(each)]).filter(Boolean));
}

// A slider has round numbers only: until it is moved it stands for the number that it was given.
function place(id, scale, exact) {
  by(id).value = Math.round(scale * Number(exact));
  by(id).dataset.exact = exact;
}

function placed(id, scale) {
  return Number(by(id).dataset.exact ?? by(id).value / scale);
}

function choose(noiseBy) {
  by("plan-form").querySelector(`[name="noise-by"][value="${noiseBy}"]`).checked = true;
}

function query() {
  const by_ = by("plan-form").querySelector('[name="noise-by"]:checked').value, level = `${placed("level", 100)}`;
  const numbers = base.sensors.map((name, index) => (off.has(name) ? index : -1)).filter((index) => index >= 0);
  return {
    noise: by_ === "sigma" ? `${base.sigmas[by("sigma").value][0]}` : by_,
    added: by("of").value === "added" ? level : "", risk: by("of").value === "risk" ? level : "",
    share: `${placed("share", 200)}`, horizon: by("horizon").value, mistakes: by("mistakes").value,
    ...(numbers.length ? { off: numbers.join(",") } : {}),
  };
}

function say() {
  by("sigma").disabled = !by("plan-form").querySelector('[value="sigma"]').checked;
  by("sigma-said").textContent = base.sigmas[by("sigma").value][1];
  const inHundred = (id, scale) => `${+(100 * placed(id, scale)).toPrecision(6)}`;
  by("level-said").textContent = `${inHundred("level", 100)} ${by("of").value === "added" ? "percentage points" : "in 100"}`;
  by("share-said").textContent = placed("share", 200) === 0 ? "nobody" : `${inHundred("share", 200)} in 100`;
  by("mistakes").max = Math.max(0, Number(by("horizon").value) - 1);
  by("horizon-said").textContent = by("horizon").value;
  by("mistakes-said").textContent = by("mistakes").value;
  by("on-said").textContent = `${number(base.sensors.length - off.size)} of ${number(base.sensors.length)} on`;
  for (const [id, text] of [["sigma", "sigma-said"], ["level", "level-said"], ["share", "share-said"]]) by(id).setAttribute("aria-valuetext", by(text).textContent);
}

function moved() {
  say();
  clearTimeout(resting);
  resting = setTimeout(() => compute("b", query(), true), REST_MS);
  if (query().noise === "rule") drawPlan(by("plan-b"), "Plan B", { plan: "the rule decides each step's noise", pending: true });
  else if (asking) again = true;
  else follow();
}

// One question at a time; the last one is never left out.
async function follow() {
  asking = true;
  do {
    again = false;
    await compute("b", query(), false);
  } while (again);
  asking = false;
}

async function compute(name, asked, refined) {
  if (by("plans").hidden) return; // the token was taken away meanwhile
  const mine = JSON.stringify(asked);
  try {
    const found = await ask(`plan.json?${new URLSearchParams({ ...asked, ...(refined ? { refined: "1" } : {}) })}`);
    if (name === "b" && mine !== JSON.stringify(query())) return; // the slider has moved on
    if (name === "b" && !refined && plans.b?.asked === mine && plans.b.refined) return;
    plans[name] = { ...found, asked: mine };
    by("plan-message").textContent = "";
    drawPlan(by(`plan-${name}`), name === "a" ? "Plan A, to compare with" : "Plan B", found);
    by(`plan-${name}`).dataset.seconds = found.seconds ?? "";
    draw();
  } catch (error) {
    by("plan-message").textContent = error.message;
  }
}

function draw() {
  const { a, b } = plans;
  if (!a?.steps || !b?.steps) return;
  const on = (plan, key) => a.steps.map((step) => plan[key][plan.steps.indexOf(step)] ?? null);
  lines(by("plan-chart"), a.steps, [
    line("ceiling of plan A", "ceiling", on(a, "ceiling")),
    line("ceiling of plan B", "ceiling", on(b, "ceiling"), { dash: "b" }),
    line("guess", "guess", on(b, "guess")),
  ], { x: (step) => number(step), y: (value) => `${+(100 * value).toPrecision(3)}`, label: "in 100", title: "Mean ceiling of both plans by step",
    describe: `Mean ceilings, at the step where most is added: plan A ${shown(a)}, plan B ${shown(b)}` });
}

function shown(plan) {
  return plan.figures.find((each) => each.name === "headline.ceiling")?.shown ?? "";
}

function listed() {
  const wanted = by("plan-find").value.trim().toLowerCase();
  return base.sensors.filter((name) => name.toLowerCase().includes(wanted));
}

function listSensors() {
  const found = listed();
  by("plan-sensors").replaceChildren(
    ...found.slice(0, MOST_LISTED).map((name) => {
      const box = element("input", { type: "checkbox", ...(off.has(name) ? {} : { checked: "" }) });
      box.addEventListener("change", () => (box.checked ? off.delete(name) : off.add(name)));
      return element("label", {}, box, ` ${name}`);
    }),
    ...(found.length > MOST_LISTED ? [element("p", {}, `and ${number(found.length - MOST_LISTED)} more: look for a part of the name`)] : []),
  );
}

function turn(names, isOn) {
  for (const name of names) isOn ? off.delete(name) : off.add(name);
  listSensors();
  moved();
}

function pin() {
  planA = query();
  compute("a", planA, true);
}

export function planLink() {
  if (!base) return "";
  return new URLSearchParams({ a: new URLSearchParams(planA), b: new URLSearchParams(query()) }).toString();
}

async function copyLink() {
  const address = new URL(location.href);
  address.hash = planLink();
  history.replaceState(null, "", address);
  by("link-said").textContent = "The address above opens this view, to holders of the token.";
  try {
    await navigator.clipboard.writeText(address.href);
    by("link-said").textContent = "Copied; it opens this view, to holders of the token.";
  } catch {
    // the address bar has it
  }
}

async function take(event) {
  event.preventDefault();
  by("taken").textContent = "Writing the plan.";
  try {
    const body = JSON.stringify({ ...query(), by: by("by").value, reason: by("reason").value });
    const found = await ask("take", { method: "POST", body });
    by("taken").textContent = `Taken, entry ${found.entry} of ${found.record}. Its settings are in ${found.settings}: start a run with --config ${found.settings}.`;
  } catch (error) {
    by("taken").textContent = error.message;
  }
}
