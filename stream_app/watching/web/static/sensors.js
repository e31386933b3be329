// Which sensors the page lists where there are too many: those that reveal most, or those that are looked for.

import { number } from "./words.js";

const MOST_LISTED = 50; // of thousands nobody reads the list, and what stands below it is out of reach
const by = (id) => document.getElementById(id);

// How many bits one release of a sensor has revealed on average.
export function meanBits(line) {
  return line.releases ? line.total_bits / line.releases : 0;
}

// A function that chooses from lines, each of the sensor that its ``key`` names; it says above them what it left out.
export function chooseSensors(sensors) {
  by("find-form").hidden = sensors.length <= MOST_LISTED;
  by("found").hidden = by("find-form").hidden;
  if (by("find-form").hidden) return (lines) => [...lines];
  const wanted = by("find").value.trim().toLowerCase();
  const found = sensors.filter((line) => line.name.toLowerCase().includes(wanted));
  const rank = new Map(found.sort((a, b) => meanBits(b) - meanBits(a)).map((line, place) => [line.name, place]));
  const shown = Math.min(MOST_LISTED, found.length);
  by("found").textContent = wanted
    ? `${number(found.length)} of ${number(sensors.length)} sensors have it in their name. Lists show ${shown} at most, those that reveal most first.`
    : `There are ${number(sensors.length)} sensors. Lists show ${shown} at most, those that reveal most first.`;
  return (lines, key) =>
    lines.filter((line) => rank.has(line[key])).sort((a, b) => rank.get(a[key]) - rank.get(b[key])).slice(0, MOST_LISTED);
}
