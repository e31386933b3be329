// Single people and suspected devices, behind the access token. The token stays in this page's memory and is sent to this engine only.

import { EXACT, bits, ceilingInWords, changeInAHundred, element, inAHundred, number, stepName, table } from "./words.js";

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
    by("threshold").replaceChildren(...levels.map((level) => element("option", { value: level }, inAHundred(Number(level), EXACT))));
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
  try {
    list(await ask(`/people.json?threshold=${by("threshold").value}`));
    listDevices(await ask("/devices.json"));
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
  const rest = shown < found.reached ? ` The ${number(shown)} with the highest added risk are listed.` : "";
  say(`${number(found.reached)} people have a ceiling of ${inAHundred(found.threshold, EXACT)} or more${until}, those with the highest added risk first.${rest}`);
  const inCrowd = found.people.some((person) => person.crowd !== null);
  const rows = found.people.map((person) => [
    element("code", { title: person.person }, person.person.slice(0, 12)),
    whyButton(person.person),
    ceilingInWords(person.added), ceilingInWords(person.risk), ...(inCrowd ? [ceilingInWords(person.crowd)] : []), inAHundred(person.baseline),
    ceilingInWords(person.most_added), stepName(person.most_added_step, about),
  ]);
  const head = ["Pseudonym", "Which release did it", "Added risk now", "Ceiling", ...(inCrowd ? ["Ceiling in the crowd"] : []), "Guess", "Highest added risk so far", "At step"];
  by("exposed").replaceChildren(element("table", {}, ...table("Most exposed people", head, rows)));
  by("exposed").hidden = shown === 0;
}

function listDevices(found) {
  const rows = found.devices.map((device) => [device.sensor, device.suspicion, stepName(device.since, about)]);
  by("devices").replaceChildren(element("h3", {}, "Devices that seem broken"), element("table", {}, ...table("Devices that seem broken", ["Device", "Seems", "Since"], rows)));
  by("devices").hidden = rows.length === 0;
}

function whyButton(person) {
  const button = element("button", { type: "button", "aria-label": `Why is ${person.slice(0, 12)} exposed` }, "Why");
  button.addEventListener("click", () => explain(person, button.closest("tr")));
  return button;
}

async function explain(person, row) {
  say("Computing what each release revealed.");
  try {
    reason(await ask(`/why.json?person=${encodeURIComponent(person)}`), row);
    say("");
  } catch (error) {
    say(error.message);
  }
}

// The answer opens right below the row that asked.
function reason(found, row) {
  const all = found.information_bits || 1;
  const rows = found.shares.map((share) => [
    share.sensor, stepName(share.step, about), share.mechanism, bits(share.information_bits),
    `${Math.round((100 * share.information_bits) / all)} %`,
    changeInAHundred(-share.certified_drop),
  ]);
  const head = ["Sensor", "Step", "Mechanism", "Revealed", "Share", "Without it, the ceiling changes by"];
  const nothing = "No release of these steps concerns this person.";
  by("why")?.closest("tr").remove();
  const why = element("div", { id: "why", tabindex: "-1" },
    element("h3", {}, "Which release did it: ", element("code", {}, found.person.slice(0, 12))),
    element("p", {}, `${stepName(found.steps[0], about)} to ${stepName(found.steps[1], about)} alone, without what earlier releases revealed: ceiling ${ceilingInWords(found.certified)}, guess ${inAHundred(found.baseline)}, ${bits(found.information_bits)} revealed in all.`),
    element("p", {}, hindsight(found)),
    rows.length ? element("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Releases by what they revealed" }, element("table", {}, ...table("Releases by what they revealed", head, rows))) : element("p", {}, nothing),
  );
  row.after(element("tr", {}, element("td", { colspan: row.cells.length }, why)));
  why.focus();
}

function hindsight(found) {
  const past = found.hindsight;
  if (!past) return `In hindsight, the steps with this person's highest added risk: ${found.no_hindsight}.`;
  const then = `when the last was released ${ceilingInWords(past.then)}`;
  const now = `with everything released until ${stepName(past.until_step, about)} ${ceilingInWords(past.now)}`;
  return `${stepName(past.first_step, about)} to ${stepName(past.last_step, about)}, the steps with this person's highest added risk, ${about?.condition ?? "if habits are as assumed"}: ceiling ${then}, ${now}; guess ${inAHundred(past.baseline)}. Both ceilings come from slower, mostly tighter bounds than the running one: compare them with each other.`;
}

function forget() {
  token = "";
  by("token").value = "";
  by("exposed").replaceChildren();
  by("exposed").hidden = true;
  by("devices").replaceChildren();
  by("devices").hidden = true;
  by("forget").hidden = true;
  say("");
}

function say(text) {
  by("people-message").textContent = text;
}
