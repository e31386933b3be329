// Single people and suspected devices, behind the access token. The token stays in this page's memory and is sent to this engine only.

import { bits, element, number, numberOf, stepName, table } from "./words.js";

const PAGE = 25; // people on a page
const by = (id) => document.getElementById(id);
let token = "";
let about = null;
let first = 0;
let onToken = () => {};

export function startPeople(unlocked) {
  onToken = unlocked;
  by("token-form").addEventListener("submit", (event) => {
    event.preventDefault();
    unlock(by("token").value);
  });
  by("people-form").addEventListener("submit", (event) => event.preventDefault());
  by("threshold").addEventListener("change", () => show(0));
  by("person").addEventListener("input", () => show(0));
  by("forget").addEventListener("click", forget);
  by("earlier").addEventListener("click", () => show(Math.max(0, first - PAGE)));
  by("later").addEventListener("click", () => show(first + PAGE));
}

export function describePeople(state) {
  about = state.about;
  by("token-form").hidden = !state.has_people;
  if (!state.has_people) by("exposed-note").textContent = "What-if and single people are not available: this deployment has set no access token.";
  const levels = about ? about.levels : [[0.5, "50 in 100"]];
  if (by("threshold").options.length !== levels.length) {
    by("threshold").replaceChildren(...levels.map(([level, said]) => element("option", { value: level }, said)));
    by("threshold").value = levels[levels.length - 1][0];
  }
}

export async function ask(path, options = {}) {
  const answer = await fetch(path, { ...options, headers: { Authorization: `Bearer ${token}` } });
  const body = await answer.json();
  if (!answer.ok) throw new Error(answer.status === 401 ? "This is not the access token." : body.error);
  return body;
}

export async function unlock(given) {
  token = given;
  if (!(await show(0))) return;
  by("token").value = "";
  by("forget").hidden = false;
  onToken(true);
}

async function show(from) {
  if (!token) return false;
  say("");
  try {
    const query = new URLSearchParams({ threshold: by("threshold").value || "0.5", find: by("person").value, first: from, size: PAGE });
    list(await ask(`people.json?${query}`));
    listDevices(await ask("devices.json"));
    by("exposed-section").hidden = false;
    return true;
  } catch (error) {
    forget();
    say(error.message);
    return false;
  }
}

function list(found) {
  const shown = found.people.length;
  first = found.first;
  const until = found.step === null ? "" : ` at ${stepName(found.step, about)}`;
  const rest = shown < found.listed ? ` Of ${number(found.listed)}, numbers ${number(first + 1)} to ${number(first + shown)} are listed.` : "";
  const recorded = found.people.some((person) => person.as_of !== null), so = recorded ? " so far" : "";
  by("exposed-said").textContent = `${numberOf(found.reached, "person has", "people have")} a ceiling of ${found.said} or more${until}, those with the highest added risk${so} first.${rest}`;
  const inCrowd = found.people.some((person) => person.crowd !== null);
  const rows = found.people.map(({ person, said, most_added_step: step, as_of: latest }) => [
    element("code", { title: person }, person.slice(0, 12)),
    whyButton(person),
    said.added, said.risk, ...(inCrowd ? [said.crowd] : []), said.baseline, ...(recorded ? [stepName(latest, about)] : []),
    said.most_added, stepName(step, about),
  ]);
  const head = ["Pseudonym", "Which release did it", recorded ? "Added risk as recorded" : "Added risk now", "Ceiling", ...(inCrowd ? ["Ceiling in the crowd"] : []), "Guess", ...(recorded ? ["Recorded at step"] : []), "Highest added risk so far", "At step"];
  by("exposed").replaceChildren(element("table", {}, ...table("Most exposed people", head, rows)));
  by("exposed").hidden = shown === 0;
  by("pages").hidden = shown === found.listed;
  by("earlier").disabled = first === 0;
  by("later").disabled = first + shown >= found.listed;
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
  by("why-said").textContent = "Computing what each release revealed.";
  try {
    const found = await ask(`why.json?person=${encodeURIComponent(person)}`);
    if (row.isConnected) reason(found, row); // else other people are listed by now
    by("why-said").textContent = "";
  } catch (error) {
    by("why-said").textContent = error.message;
  }
}

// The answer opens right below the row that asked.
function reason(found, row) {
  const all = found.information_bits || 1;
  const rows = found.shares.map((share) => [
    share.sensor, `${stepName(share.step, about)}${share.step > found.steps[1] ? ", not published yet" : ""}`,
    share.mechanism, bits(share.information_bits),
    `${Math.round((100 * share.information_bits) / all)} %`,
    share.said.certified_drop,
  ]);
  const head = ["Sensor", "Step", "Mechanism", "Revealed", "Share", "Without it, the ceiling changes by"];
  const nothing = "No release of these steps concerns this person.";
  by("why")?.closest("tr").remove();
  const why = element("div", { id: "why", tabindex: "-1" },
    element("h3", {}, "Which release did it: ", element("code", {}, found.person.slice(0, 12))),
    element("p", {}, `${stepName(found.steps[0], about)} to ${stepName(found.steps[1], about)} alone, without what earlier releases revealed: ceiling ${found.said.certified}, guess ${found.said.baseline}, ${bits(found.information_bits)} revealed in all.`),
    element("p", {}, hindsight(found)),
    rows.length ? element("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Releases by what they revealed" }, element("table", {}, ...table("Releases by what they revealed", head, rows))) : element("p", {}, nothing),
  );
  row.after(element("tr", {}, element("td", { colspan: row.cells.length }, why)));
  why.focus();
}

function hindsight(found) {
  const past = found.hindsight;
  if (!past) return `In hindsight, the steps with this person's highest added risk: ${found.no_hindsight}.`;
  const then = `when the last was released ${past.said.then}`;
  const now = `with everything released until ${stepName(past.until_step, about)} ${past.said.now}`;
  return `${stepName(past.first_step, about)} to ${stepName(past.last_step, about)}, the steps with this person's highest added risk, ${about?.condition ?? "if habits are as assumed"}: ceiling ${then}, ${now}; guess ${past.said.baseline}. Both ceilings come from slower, mostly tighter bounds than the running one: compare them with each other.`;
}

function forget() {
  token = "";
  by("token").value = "";
  for (const id of ["exposed", "devices"]) by(id).replaceChildren();
  for (const id of ["exposed", "devices", "forget", "exposed-section"]) by(id).hidden = true;
  say("");
  onToken(false);
}

function say(text) {
  by("people-message").textContent = text;
}
