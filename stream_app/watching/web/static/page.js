// The live page: listens to the engine's events and draws what they say. Asks no other server than this engine.

import { overTime, spread } from "./charts.js";
import { drawMap } from "./map.js";
import { describePeople, startPeople } from "./people.js";
import { chooseSensors, meanBits } from "./sensors.js";
import { EXACT, attackInWords, bits, ceilingInWords, element, inAHundred, number, stepName, table, twoDigits } from "./words.js";

const SILENCE_MS = 12000; // two heartbeats missed: the engine is lost, whatever the connection says
const HIDES_WELL = 8; // people of noise: the fullest colour of what the crowd hides
const by = (id) => document.getElementById(id);
let heardAt = Date.now();
let phase = "starting";
let latest = null; // the state that was drawn last

function listen() {
  const events = new EventSource("/events");
  events.addEventListener("state", (event) => {
    heard();
    draw(JSON.parse(event.data));
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
  drawSetting(state);
  drawCondition(state);
  drawFigures(state);
  if (state.history.length) overTime(by("over-time"), state.history, state.about);
  if (state.distribution) spread(by("spread"), state.distribution);
  if (state.summary) drawLevels(state.summary, state.about?.is_raised);
  const hasNoPeople = state.phase !== "starting" && state.people === 0;
  drawMap(by("map"), state.sensors, state.releases, hasNoPeople);
  drawLists(state);
  drawPrivacy(state);
  for (const part of document.querySelectorAll("[data-people]")) part.hidden = hasNoPeople;
  for (const part of document.querySelectorAll("[data-crowd]")) part.hidden = hasNoPeople || !state.crowd;
  by("question").hidden = hasNoPeople;
  by("basis").hidden = !state.note;
  by("basis").textContent = state.note ? `Note: ${state.note}.` : "";
  by("not-reached").hidden = !state.not_reached;
  by("not-reached").textContent = state.not_reached ? `Note: ${state.not_reached}.` : "";
  by("decision").hidden = !state.decision;
  by("decision").textContent = state.decision ? `Reason: ${state.decision}` : "";
  describePeople(state);
}

function drawSetting({ about }) {
  if (!about) return;
  by("deployment").textContent = about.deployment;
  by("question").textContent =
    `Could somebody who sees everything published, knows a person's habits and where everybody else is, tell where that person was in ` +
    `${about.mistakes ? `at least ${about.horizon - about.mistakes}` : "each"} of the last ${about.horizon} steps?`;
}

// The condition beside each ceiling. Where the priors were refuted, the page does not say what releases added.
function drawCondition({ about }) {
  if (!about) return;
  for (const part of document.querySelectorAll("[data-condition]")) part.textContent = about.condition;
  for (const part of document.querySelectorAll("[data-raised]")) part.hidden = (part.dataset.raised === "yes") !== about.is_raised;
}

function drawFigures({ people, next_step: next, lag_steps: lag, rejected, summary, about }) {
  const behind = lag ? ` (${lag} behind)` : "";
  const figures = {
    people: number(people),
    step: next ? stepName(next - 1, about) + behind : "none yet",
    rejected: number(rejected),
    "mean-attack": summary ? attackInWords(summary.attack) : "–",
    "mean-risk": summary ? ceilingInWords(summary.mean_risk) : "–",
    "mean-baseline": summary ? inAHundred(summary.mean_baseline) : "–",
    "mean-added": summary ? ceilingInWords(summary.mean_added) : "–",
    "mean-crowd": summary?.crowd ? ceilingInWords(summary.crowd.mean_risk) : "–",
    "most-added": summary ? ceilingInWords(summary.most_added) : "–",
  };
  for (const [id, text] of Object.entries(figures)) by(id).textContent = text;
  document.title = next ? `tallyguard: step ${next - 1}` : "tallyguard";
}

function drawPrivacy({ spent, about }) {
  by("privacy").hidden = !spent;
  const groups = Object.entries(spent ?? {});
  const rows = groups.length === 2 ? groups.filter(([group]) => group === "all") : groups; // one group is all
  const head = ["Sensors", about ? `Epsilon of the whole log at delta ${about.delta.toExponential()}` : "Epsilon of the whole log"];
  by("epsilon").replaceChildren(...table("Differential privacy spent", head, rows));
}

function drawLevels(summary, isRaised) {
  const crowd = summary.crowd;
  const rows = Object.entries(summary.at_risk).map(([level, count]) => [
    `${inAHundred(Number(level), EXACT)} or more`, number(count), ...(crowd ? [number(crowd.at_risk[level] ?? 0)] : []), number(summary.at_baseline[level]),
    isRaised ? "not known" : number(count - summary.at_baseline[level]), number(summary.at_added_risk[level] ?? 0),
  ]);
  const head = ["Level", "People by ceiling", ...(crowd ? ["People by ceiling in the crowd"] : []), "People by guess", "More because of releases", "People by added risk"];
  by("levels").replaceChildren(...table("People at or above each risk", head, rows));
}

// What has a line for each sensor.
function drawLists({ sensors, releases, crowd, hidden, phase, people }) {
  const choose = chooseSensors(sensors);
  const most = Math.max(1e-12, ...sensors.map(meanBits));
  drawSensors(choose(sensors, "name"), most, phase !== "starting" && people === 0);
  drawReleases(choose(releases, "sensor"));
  drawCrowd(crowd, choose(hidden, "sensor"));
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

function drawSensors(sensors, most, hasNoPeople) {
  const columns = [...groupBy(sensors)].map(([group, lines]) => {
    const tiles = lines.sort((a, b) => meanBits(b) - meanBits(a)).map((line) => tile(line, meanBits(line), most, hasNoPeople));
    return element("div", {}, element("h3", {}, group), element("ul", {}, ...tiles));
  });
  by("sensors").replaceChildren(...columns);
}

function groupBy(sensors) {
  const groups = new Map();
  for (const line of sensors) groups.set(line.group, [...(groups.get(line.group) ?? []), line]);
  return groups;
}

function tile(line, mean, most, hasNoPeople) {
  const fill = element("i");
  fill.style.width = `${(100 * mean) / most}%`;
  const releases = line.releases === 1 ? "1 release" : `${number(line.releases)} releases`;
  const revealed = [element("span", {}, bits(mean)), element("span", { class: "bar", "aria-hidden": "true" }, fill)];
  return element(
    "li", { class: "tile" },
    element("span", {}, line.name), ...(hasNoPeople ? [] : revealed), // without people it is not computed, not 0
    element("small", {}, releases),
  );
}

// With tiers, the error of what each recipient reads; the value beside it is the public one.
function errorsInWords({ error, tiers }) {
  const own = Object.entries(tiers).map(([tier, each]) => `${tier} ± ${twoDigits(each)}`);
  return own.length ? `${own.join(", ")} people` : `± ${twoDigits(error)} people`;
}

function drawReleases(releases) {
  const rows = releases.map((line) => [
    line.sensor,
    [line.mechanism, ...Object.entries(line.parameters).filter(() => line.value !== null).map(([key, value]) => `${key} ${+Number(value).toPrecision(3)}`)].join(", "),
    line.value === null ? "nothing" : number(line.value),
    line.error === null ? "–" : line.error === 0 ? "exact" : errorsInWords(line),
  ]);
  by("releases").replaceChildren(...table("Published in the last step", ["Sensor", "Mechanism", "Published", "Expected error"], rows));
}

startPeople();
listen();
by("find").addEventListener("input", () => latest && drawLists(latest));
by("find-form").addEventListener("submit", (event) => event.preventDefault());
setInterval(() => Date.now() - heardAt > SILENCE_MS && lose(), 2000);
