// Which sensors the page lists where there are too many: those that reveal most, or those that are looked for.

import { number } from "./words.js";

const MOST_LISTED = 50; // a list of thousands is not read, and hides what is below it
export const FULL_BITS = 0.1; // of a release: a full bar and the largest circle, in every city and at every time
const by = (id) => document.getElementById(id);

// How many bits one release of a sensor has revealed on average.
export function meanBits(line) {
  return line.releases ? line.total_bits / line.releases : 0;
}

// A function that chooses from lines, each of the sensor that its ``key`` names; beside each list it says what is left out.
export function chooseSensors(sensors) {
  const isCut = sensors.length > MOST_LISTED;
  by("find-form").hidden = !isCut;
  for (const note of document.querySelectorAll("[data-cut]")) note.hidden = !isCut;
  if (!isCut) return (lines) => [...lines];
  const wanted = by("find").value.trim().toLowerCase();
  const found = sensors.filter((line) => line.name.toLowerCase().includes(wanted));
  const rank = new Map(found.sort((a, b) => meanBits(b) - meanBits(a)).map((line, place) => [line.name, place]));
  const first = found.some((line) => meanBits(line) > 0) ? ", those first that reveal most" : ""; // else no people are known here
  const some = wanted ? `${number(found.length)} of ${number(sensors.length)} sensors ${found.length === 1 ? "has" : "have"} “${wanted}” in their name` : `There are ${number(sensors.length)} sensors`;
  for (const note of document.querySelectorAll("[data-cut]")) note.textContent = `${some}; at most ${MOST_LISTED} are listed${first}.`;
  return (lines, key) =>
    lines.filter((line) => rank.has(line[key])).sort((a, b) => rank.get(a[key]) - rank.get(b[key])).slice(0, MOST_LISTED);
}
