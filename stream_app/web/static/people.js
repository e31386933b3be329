// Single people, behind the access token. The token stays in this page's memory and is sent to this engine only.

import { bits, element, inAHundred, number, stepName, table } from "./words.js";

const by = (id) => document.getElementById(id);
let token = "";
let about = null;

export function startPeople() {
  by("token-form").addEventListener("submit", (event) => {
    event.preventDefault();
    token = by("token").value;
    show();
  });
  by("threshold").addEventListener("change", () => token && show());
  by("forget").addEventListener("click", forget);
}

export function describePeople(state) {
  about = state.about;
  by("token-form").hidden = !state.has_people;
  if (!state.has_people) by("exposed-note").textContent = "Not available: this deployment has set no access token.";
  const levels = about ? about.thresholds : [0.5];
  if (by("threshold").options.length !== levels.length) {
    by("threshold").replaceChildren(...levels.map((level) => element("option", { value: level }, inAHundred(level))));
    by("threshold").value = levels[levels.length - 1];
  }
}

async function ask(path) {
  const answer = await fetch(path, { headers: { Authorization: `Bearer ${token}` } });
  const body = await answer.json();
  if (!answer.ok) throw new Error(answer.status === 401 ? "This is not the access token." : body.error);
  return body;
}

async function show() {
  say("");
  by("why").hidden = true;
  try {
    list(await ask(`/people.json?threshold=${by("threshold").value}`));
    by("token").value = "";
    by("forget").hidden = false;
  } catch (error) {
    forget();
    say(error.message);
  }
}

function list(found) {
  const shown = found.people.length;
  const until = found.step === null ? "" : ` at ${stepName(found.step, about)}`;
  const rest = shown < found.reached ? ` The ${number(shown)} most exposed are listed.` : "";
  say(`${number(found.reached)} people have a ceiling of ${inAHundred(found.threshold)} or more${until}.${rest}`);
  const rows = found.people.map((person) => [
    element("code", { title: person.person }, person.person.slice(0, 12)),
    inAHundred(person.baseline), inAHundred(person.risk), inAHundred(person.added), whyButton(person.person),
  ]);
  const head = ["Pseudonym", "Guess", "Ceiling", "Added", "Which release did it"];
  by("exposed").replaceChildren(element("table", {}, ...table("Most exposed people", head, rows)));
  by("exposed").hidden = shown === 0;
}

function whyButton(person) {
  const button = element("button", { type: "button", "aria-label": `Why is ${person.slice(0, 12)} exposed` }, "Why");
  button.addEventListener("click", () => explain(person));
  return button;
}

async function explain(person) {
  say("Taking the last steps apart.");
  try {
    reason(await ask(`/why.json?person=${encodeURIComponent(person)}`));
    say("");
  } catch (error) {
    say(error.message);
  }
}

function reason(found) {
  const told = found.information_bits || 1;
  const rows = found.shares.map((share) => [
    share.sensor, `${share.step}`, share.mechanism, bits(share.information_bits),
    `${Math.round((100 * share.information_bits) / told)} %`,
    `${share.certified_drop < 0 ? "+" : "−"}${Math.abs(100 * share.certified_drop).toFixed(1)} in 100`,
  ]);
  const head = ["Sensor", "Step", "Mechanism", "Told", "Share", "Ceiling without it"];
  const nothing = "No release of these steps concerns this person.";
  by("why").replaceChildren(
    element("h3", {}, "Which release did it: ", element("code", {}, found.person.slice(0, 12))),
    element("p", {}, `Steps ${found.steps[0]} to ${found.steps[1]} alone: ceiling ${inAHundred(found.certified)}, guess ${inAHundred(found.baseline)}, ${bits(found.information_bits)} told in all.`),
    rows.length ? element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Releases by what they told" }, element("table", {}, ...table("Releases by what they told", head, rows))) : element("p", {}, nothing),
  );
  by("why").hidden = false;
  by("why").focus();
}

function forget() {
  token = "";
  by("token").value = "";
  for (const id of ["exposed", "why"]) {
    by(id).replaceChildren();
    by(id).hidden = true;
  }
  by("forget").hidden = true;
  say("");
}

function say(text) {
  by("people-message").textContent = text;
}
