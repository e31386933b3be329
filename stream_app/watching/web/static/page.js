// The page: listens to the engine's events and draws what they say. Asks no other server than this engine.

import { drawAnswer } from "./answer.js";
import { drawMap, kindOf } from "./map.js";
import { describePeople, startPeople, unlock } from "./people.js";
import { openPlans, startPlans, wishPlans } from "./plans.js";
import { FULL_BITS, chooseSensors, meanBits } from "./sensors.js";
import { choose, drawSpread, drawTime, startTime } from "./time.js";
import { drawWeek, startWeek } from "./week.js";
import { bits, element, hourOfWeek, number, numberOf, table, twoDigits } from "./words.js";

const SILENCE_MS = 12000; // two heartbeats missed: the engine is lost, whatever the connection says
const HIDES_WELL = 8; // people of noise: the fullest colour of what the crowd hides
const by = (id) => document.getElementById(id);
let heardAt = Date.now();
let phase = "starting";
let latest = null; // the state that was drawn last
let shown = null; // the past step that is shown; null: the latest
let newest = null; // a state that is not drawn yet

function listen() {
  const events = new EventSource("events");
  events.addEventListener("state", (event) => {
    heard();
    if (newest === null) setTimeout(drawNewest); // of those that came while one was drawn, the last
    newest = event.data;
  });
  events.addEventListener("heartbeat", heard);
  events.addEventListener("error", () => {
    lose();
    if (events.readyState === EventSource.CLOSED) {
      events.close();
      setTimeout(listen, 3000);
    }
  });
}

function drawNewest() {
  const text = newest;
  newest = null;
  draw(JSON.parse(text));
}

function heard() {
  heardAt = Date.now();
  document.body.classList.remove("lost");
  if (by("state").dataset.state === "lost") by("state").textContent = "Connected again";
}

function lose() {
  if (phase === "stopped" || phase === "failed") return;
  document.body.classList.add("lost");
  tell("lost", `Disconnected: the figures are those of ${new Date(heardAt).toLocaleTimeString("en-GB")}`);
}

function tell(state, text) {
  by("state").dataset.state = state;
  if (by("state").textContent !== text) by("state").textContent = text;
}

function draw(state) {
  latest = state;
  phase = state.phase === "stopped" && state.reason.startsWith("failure") ? "failed" : state.phase;
  const words = { starting: "Starting", running: "Live", stopped: "Ended", failed: "Failed" }[phase];
  tell(phase, `${words}: ${state.reason}`);
  const hasNoPeople = state.phase !== "starting" && state.people === 0;
  for (const part of document.querySelectorAll("[data-people]")) part.hidden = hasNoPeople;
  for (const part of document.querySelectorAll("[data-crowd]")) part.hidden = hasNoPeople || !state.crowd;
  drawSetting(state);
  drawCondition(state);
  drawTime(state);
  drawStep();
  drawPrivacy(state);
  by("basis").hidden = !state.note;
  by("basis").textContent = state.note ? `Note: ${state.note}.` : "";
  describePeople(state);
  drawAnswer(state);
  openLink(state);
}

let isOpened = false;

// The address may hold the token, the step and the plans of a view; the token is taken out of it.
function openLink(state) {
  if (isOpened || state.phase === "starting") return;
  isOpened = true;
  const wanted = new URLSearchParams(location.hash.slice(1));
  wishPlans(wanted);
  if (wanted.get("step")) choose(Number(wanted.get("step")));
  const token = wanted.get("token");
  if (!token) return;
  wanted.delete("token");
  history.replaceState(null, "", `${location.pathname}${wanted.size ? `#${wanted}` : ""}`);
  unlock(token);
}

function drawSetting({ about, runs, name }) {
  by("runs").hidden = !runs?.length;
  if (runs?.length) by("runs").replaceChildren(...runs.map((each) => element("a", { href: `/${encodeURIComponent(each)}/`, ...(each === name ? { "aria-current": "page" } : {}) }, each)));
  if (!about) return;
  by("deployment").textContent = about.deployment;
  by("question").textContent = about.question;
}

// The condition beside each ceiling. Where the priors were refuted, the page does not say what releases added.
function drawCondition({ about }) {
  if (!about) return;
  for (const part of document.querySelectorAll("[data-condition]")) part.textContent = about.condition;
  for (const part of document.querySelectorAll("[data-raised]")) part.hidden = (part.dataset.raised === "yes") !== about.is_raised;
}

// What is shown of one step: the latest, or the one that the cursor stands on.
function atStep() {
  return shown ? { ...latest, ...shown } : latest;
}

function drawStep() {
  const state = atStep();
  const { people, rejected, levels, distribution, decision } = state;
  const named = new Map(state.figures.map((each) => [each.name, each]));
  const said = (name) => named.get(name)?.shown ?? "–";
  const figures = {
    people: number(people),
    rejected: number(rejected),
    "mean-attack": said("last.attack"),
    "mean-risk": said("last.ceiling"),
    "mean-baseline": said("last.guess"),
    "mean-added": said("last.added"),
    "mean-crowd": said("last.crowd"),
    "most-added": said("most.added"),
    "over-now": named.has("people.now") ? `${said("people.now")}; ${said("people.allowed")} may be` : "no rule counts",
  };
  for (const [id, text] of Object.entries(figures)) by(id).textContent = text;
  by("over-now").classList.toggle("too-many", named.get("people.now")?.value > named.get("people.allowed")?.value);
  by("headline").textContent = headline(latest.figures ?? []);
  document.title = latest.next_step ? `tallyguard: step ${latest.next_step - 1}` : "tallyguard";
  if (distribution) drawSpread(distribution);
  by("spread").hidden = !distribution;
  if (levels) by("levels").replaceChildren(...table("People at or above each risk", levels.head, levels.rows));
  const { questions } = state;
  by("several").hidden = !questions;
  if (questions) by("questions").replaceChildren(...table("The headline of each question", questions.head, questions.rows));
  by("questions-note").textContent = questions?.note ?? "";
  by("not-reached").hidden = !latest.not_reached || Boolean(shown);
  by("not-reached").textContent = latest.not_reached ? `Note: ${latest.not_reached}.` : "";
  by("decision").hidden = !decision;
  by("decision").textContent = decision ? `Reason: ${decision}` : "";
  drawLists(state);
}

// The figures that terminal, report and metrics begin with, and what they are over.
function headline(all) {
  const figures = all.filter(({ name }) => name.startsWith("headline."));
  return figures.length ? `${figures.map(({ label, shown: said }) => `${label} ${said}`).join(", ")}, ${figures[0].where}.` : "–";
}

function drawPrivacy({ spent, about }) {
  by("privacy").hidden = !spent;
  const groups = Object.entries(spent ?? {});
  const rows = groups.length === 2 ? groups.filter(([group]) => group === "all") : groups; // one group is all
  const head = ["Sensors", about ? `Epsilon of the whole log at delta ${about.delta.toExponential()}` : "Epsilon of the whole log"];
  by("epsilon").replaceChildren(...table("Differential privacy spent", head, rows));
}

// What has a line for each sensor.
function drawLists(state, hasMap = true) {
  const { sensors, releases, crowd, hidden, phase: now, people, next_step: next, about } = state;
  const hasNoPeople = now !== "starting" && people === 0;
  const at = shown ? shown.step : next - 1;
  const own = shown ? sensors.map((line) => ({ ...line, last_bits: shown.bits?.[line.name] ?? 0 })) : sensors;
  const choose_ = chooseSensors(own);
  if (hasMap) drawMap(by("map"), own, releases, hasNoPeople, about?.tiles ?? "");
  const listed = choose_(own, "name");
  drawSensors(listed, new Map(releases.map((line) => [line.sensor, line])), hasNoPeople);
  drawReleases(choose_(releases, "sensor"));
  drawCrowd(crowd, choose_(hidden, "sensor"));
  if (next > 0) drawWeek(listed.slice(0, 50), sensors, hasNoPeople, hourOfWeek(at, about));
}

// When ceilings in the crowd hold, and what it hides: a row a sensor, a column an hour that has come.
function drawCrowd(crowd, hidden) {
  for (const id of ["crowd-condition", "hidden-condition", "crowd-words"]) by(id).textContent = crowd ?? "";
  by("hidden").hidden = !crowd || !hidden.length;
  if (by("hidden").hidden) return;
  const hours = hidden[0].sigmas.map((_, hour) => hour).filter((hour) => hidden.some((line) => line.sigmas[hour] !== null));
  const rows = hidden.map((line) => [line.sensor, ...hours.map((hour) => heat(line.sigmas[hour]))]);
  by("hidden-map").replaceChildren(...table("Noise that would hide as much", ["Sensor", ...hours.map((hour) => `${hour} h`)], rows));
}

// Noise that would hide as much as the crowd does: rounded down, so that it promises no more.
function hiddenInWords(sigma) {
  return sigma >= 10 ? `${Math.floor(sigma)}` : (Math.floor(10 * sigma + 1e-9) / 10).toFixed(sigma === 0 ? 0 : 1);
}

function heat(sigma) {
  if (sigma === null) return "";
  const cell = element("span", { class: "heat" }, hiddenInWords(sigma));
  cell.style.setProperty("--share", `${Math.round(100 * Math.min(1, sigma / HIDES_WELL))}%`);
  return cell;
}

function drawSensors(sensors, released, hasNoPeople) {
  by("scale").textContent = bits(FULL_BITS);
  const columns = [...groupBy(sensors)].map(([group, lines]) => {
    const tiles = lines.sort((a, b) => meanBits(b) - meanBits(a)).map((line) => tile(line, kindOf(released.get(line.name)), hasNoPeople));
    return element("div", {}, element("h3", {}, group), element("ul", {}, ...tiles));
  });
  by("sensors").replaceChildren(...columns);
}

function groupBy(sensors) {
  const groups = new Map();
  for (const line of sensors) groups.set(line.group, [...(groups.get(line.group) ?? []), line]);
  return groups;
}

function tile(line, kind, hasNoPeople) {
  const fill = element("i"), mean = meanBits(line);
  fill.style.width = `${100 * Math.min(1, mean / FULL_BITS)}%`;
  const revealed = [element("span", {}, bits(mean)), element("span", { class: "bar", "aria-hidden": "true" }, fill)];
  return element(
    "li", { class: `tile ${kind}` },
    element("span", {}, line.name), ...(hasNoPeople ? [] : revealed), // without people it is not computed, not 0
    element("small", {}, `${numberOf(line.releases, "release")}; ${kind} at this step`),
  );
}

// With tiers, the error of what each recipient reads; the value beside it is the public one.
function errorsInWords({ off, tiers }) {
  const own = Object.entries(tiers).map(([tier, each]) => `${tier} off by ${twoDigits(each)}`);
  return own.length ? `${own.join(", ")} people on average` : off;
}

// Where the count is, as far as the noise tells; no count is below 0. Of what was not published nothing is known.
function between({ value, width }) {
  return value === null ? "not known" : [...new Set([value - width, value + width].map((end) => number(Math.max(0, end))))].join(" to ");
}

function drawReleases(releases) {
  const rows = releases.map((line) => [
    line.steps > 1 ? `${line.sensor}, over ${number(line.steps)} steps` : line.sensor,
    [line.mechanism, ...Object.entries(line.parameters).filter(() => line.value !== null).map(([key, value]) => `${key} ${+Number(value).toPrecision(3)}`)].join(", "),
    line.value === null ? "nothing" : number(line.value),
    between(line),
    line.error === null ? "–" : line.error === 0 ? "exact" : errorsInWords(line),
  ]);
  const often = `Count, ${+(100 * (latest.about?.confidence ?? 0.95)).toFixed(2)} times in 100`;
  by("releases").replaceChildren(...table("Published at this step", ["Sensor", "Mechanism", "Published", often, "Expected error"], rows));
}

startPeople((isOpen) => openPlans(isOpen, latest));
startPlans();
startWeek();
startTime((past) => {
  shown = past?.error ? { step: past.step, releases: [], figures: [], questions: null, levels: null, distribution: null, decision: past.error, bits: {} } : past;
  drawStep();
});
listen();
by("find").addEventListener("input", () => latest && drawLists(atStep(), false));
by("find-form").addEventListener("submit", (event) => event.preventDefault());
setInterval(() => Date.now() - heardAt > SILENCE_MS && lose(), 2000);
