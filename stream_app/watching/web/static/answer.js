// The answer on top, and of each plan: three states that differ in word, form and colour.

import { element } from "./words.js";

const WORDS = { yes: "Yes", no: "No", "not shown": "Not shown", "no rule": "No rule" };
const FORMS = { yes: "yes", no: "no", "not shown": "open", "no rule": "none" };
const by = (id) => document.getElementById(id);

export function showState(part, state) {
  part.dataset.state = FORMS[state] ?? "open";
  return WORDS[state] ?? state;
}

export function drawAnswer(state) {
  if (!state.has_answer) {
    by("answer").dataset.state = "none";
    by("verdict-word").textContent = "No answer here";
    by("sentence").textContent = "This process holds no records of a run; its report has the answer.";
    return;
  }
  const found = state.answer;
  if (!found) {
    if (!state.next_step && state.phase !== "stopped") by("verdict-word").textContent = "Nothing published yet";
    return; // else the records of a run that goes on are being read
  }
  by("verdict-word").textContent = showState(by("answer"), found.state);
  by("sentence").textContent = found.sentence;
  by("rule").textContent = found.rule;
  by("change").textContent = found.change;
  const later = found.steps < state.next_step ? " What came since is being read." : "";
  by("covers").textContent = `${found.covers}${later}${found.record ? ` Record ${found.record.slice(0, 12)}…` : ""}`;
}

// A plan as a card: its answer, what it is, figures.
export function drawPlan(part, name, plan) {
  const word = showState(part, plan.pending ? "not shown" : plan.state);
  const fast = `By the fast bound, while you choose; ${plan.nearest ? `for ${plan.nearest}, the nearest that is ready; ` : ""}refined when you rest.`;
  const figures = plan.figures ? [
    ["Over the limit, at most", plan.most_over === null || plan.allowed === null ? "–" : `${plan.most_over.toLocaleString("en")} of ${plan.people.toLocaleString("en")}; ${plan.allowed.toLocaleString("en")} may be`],
    ...plan.figures.filter((each) => each.value !== null).map((each) => [each.label, each.shown]),
    ["Counts published", `${plan.published.toLocaleString("en")} of ${plan.counts.toLocaleString("en")}, ${plan.raw.toLocaleString("en")} of them raw`],
    ["Each", plan.error],
  ] : [];
  part.replaceChildren(
    element("h3", {}, name),
    element("p", { class: "verdict" }, element("span", { class: "sign", "aria-hidden": "true" }), " ", element("strong", {}, plan.pending ? "Being decided" : word)),
    element("p", {}, `${plan.plan.slice(0, 1).toUpperCase()}${plan.plan.slice(1)}.${plan.rule ? ` ${plan.rule}.` : ""}`),
    element("p", {}, plan.sentence ?? ""),
    element("p", { class: "note" }, plan.pending ? "" : `${plan.refined ? "By the refined bound." : fast} ${plan.change ?? ""}`),
    element("dl", { class: "facts" }, ...figures.map(([term, text]) => element("div", {}, element("dt", {}, term), element("dd", {}, text)))),
  );
}
