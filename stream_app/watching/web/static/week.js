// The week as a table of colours: a row a sensor, a column an hour; by keyboard and read aloud as a table.

import { bits, element, numberOf, twoDigits } from "./words.js";

const DAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const KINDS = ["silent", "noised", "raw"], SIGNS = ["–", "~", "="];
const FULL = { bits: 0.1, errors: 10 }; // where a colour is at its fullest: the same in every city
const by = (id) => document.getElementById(id);
let shown = null;

export function startWeek() {
  by("measure").addEventListener("change", () => shown && draw());
  by("week-form").addEventListener("submit", (event) => event.preventDefault());
}

// ``sensors`` are those listed, ``all`` their order in the state.
export async function drawWeek(...wanted) {
  if (isAsking) {
    next = wanted;
    return;
  }
  isAsking = true;
  next = null;
  try {
    await askWeek(...wanted);
  } catch {
    // the engine is lost, which the page says elsewhere
  }
  isAsking = false;
  if (next) drawWeek(...next);
}

let isAsking = false, next = null;

async function askWeek(sensors, all, hasNoPeople, hour) {
  const places = new Map(all.map((each, index) => [each.name, index]));
  const answer = await fetch(`week.json?sensors=${sensors.map((each) => places.get(each.name)).join(",")}`);
  if (!answer.ok) return;
  shown = { ...(await answer.json()), hour };
  by("week-section").hidden = shown.sensors.length === 0;
  if (hasNoPeople && by("measure").value === "bits") by("measure").value = "kinds";
  by("measure").options[0].disabled = hasNoPeople;
  draw();
}

function draw() {
  const measure = by("measure").value, { sensors, kinds, hour } = shown;
  const hours = Array.from({ length: 168 }, (_, index) => index).filter((each) => kinds.some((row) => row[each] >= 0));
  const head = element("tr", {}, element("th", { scope: "col" }, "Sensor"), ...hours.map((each) => {
    const isDay = each % 24 === 0 || each === hours[0];
    const short = isDay ? DAYS[Math.floor(each / 24)] : each % 6 === 0 ? `${each % 24}` : "";
    return element("th", { scope: "col", class: isDay ? "day" : "" }, element("span", { "aria-hidden": "true" }, short), element("span", { class: "skip" }, said(each)));
  }));
  const rows = sensors.map((name, row) => element("tr", {}, element("th", { scope: "row" }, name), ...hours.map((each) => cell(measure, row, each, hour))));
  by("week").replaceChildren(element("caption", { class: "skip" }, by("measure").selectedOptions[0].textContent), element("thead", {}, head), element("tbody", {}, ...rows));
  by("week-said").textContent = `${numberOf(sensors.length, "sensor")}, ${numberOf(hours.length, "hour")} that had a release.`;
  by("week-legend").replaceChildren(...legend(measure));
}

function cell(measure, row, hour, now) {
  const kind = shown.kinds[row][hour];
  const place = hour === now ? " now" : "";
  if (kind < 0) return element("td", { class: `none${place}` });
  const value = measure === "kinds" ? null : shown[measure][row][hour];
  const words = measure === "kinds" ? KINDS[kind] : value === null ? "silent" : measure === "bits" ? bits(value) : `${twoDigits(value)} people`;
  const made = element("td", { class: `${measure === "kinds" ? KINDS[kind] : measure}${place}`, title: `${shown.sensors[row]}, ${said(hour)}: ${KINDS[kind]}, ${words}` });
  if (measure === "kinds") made.textContent = SIGNS[kind];
  else if (value === null) made.textContent = SIGNS[0];
  else made.style.setProperty("--share", `${Math.round(100 * Math.min(1, value / FULL[measure]))}%`);
  made.append(element("span", { class: "skip" }, words));
  return made;
}

function said(hour) {
  return `${DAYS[Math.floor(hour / 24)]} ${hour % 24}:00`;
}

function legend(measure) {
  if (measure === "kinds") return KINDS.map((kind, index) => element("span", {}, element("i", { class: kind }, SIGNS[index]), ` ${kind}`));
  const unit = measure === "bits" ? "bits" : "people";
  return [0, 0.5, 1].map((part) => {
    const box = element("i", { class: measure });
    box.style.setProperty("--share", `${100 * part}%`);
    return element("span", {}, box, ` ${part === 1 ? "at least " : ""}${part * FULL[measure]} ${unit}`);
  });
}
