// Sensors where they stand: a larger circle reveals more, a filled one released a count in the last step.
// The bars below the map say the same in words, for reading aloud and by keyboard.

import { bits, element, number } from "./words.js";
import { label, shape } from "./charts.js";
import { meanBits } from "./sensors.js";

const WIDTH = 640, MARGIN = 34, SMALL = 4, LARGE = 17, NAMED = 8, LETTER = 6.4, LINE = 14;

export function drawMap(figure, sensors, releases, hasNoPeople) {
  const placed = sensors.filter((line) => line.position);
  const project = projection(placed.map((line) => line.position));
  figure.hidden = project === null;
  if (project === null) return;
  const most = Math.max(1e-12, ...placed.map(meanBits));
  const active = new Set(releases.filter((line) => line.value !== null).map((line) => line.sensor));
  const spots = placed
    .map((line) => {
      const [x, y] = project.at(line.position);
      return { line, x, y, bitsPerRelease: meanBits(line), radius: SMALL + (LARGE - SMALL) * Math.sqrt(meanBits(line) / most) };
    })
    .sort((a, b) => b.bitsPerRelease - a.bitsPerRelease);
  const first = spots.filter((spot) => spot.bitsPerRelease > 0).slice(0, 3).map((spot) => `${spot.line.name}, ${bits(spot.bitsPerRelease)}`);
  const said = first.length ? ` Revealing most: ${first.join("; ")}.` : "";
  const svg = shape("svg", {
    viewBox: `0 0 ${WIDTH} ${project.height}`, role: "img",
    "aria-label": `Map of ${number(placed.length)} sensors.${said} The list below names them.`,
  });
  svg.append(
    ...spots.map((spot) => circle(spot, active.has(spot.line.name), hasNoPeople)),
    ...names(spots.slice(0, NAMED), spots, project.height),
    label(WIDTH - 4, 14, "north ↑", "end"),
  );
  figure.replaceChildren(svg, legend(sensors.length - placed.length));
}

// From the plane to the picture, both axes alike; null where there is nothing to see.
function projection(positions) {
  const [east, north] = [0, 1].map((axis) => positions.map((position) => position[axis]));
  const [left, bottom] = [Math.min(...east), Math.min(...north)];
  const [width, tall] = [Math.max(...east) - left, Math.max(...north) - bottom];
  if (positions.length < 2 || Math.max(width, tall) === 0) return null;
  const inner = WIDTH - 2 * MARGIN;
  const scale = Math.min(inner / Math.max(width, 1e-9), (0.75 * inner) / Math.max(tall, 1e-9));
  const height = Math.max(120, tall * scale + 2 * MARGIN);
  return {
    height,
    at: ([x, y]) => [
      WIDTH / 2 + (x - left - width / 2) * scale,
      height / 2 - (y - bottom - tall / 2) * scale,
    ],
  };
}

function circle({ line, x, y, bitsPerRelease, radius }, isActive, hasNoPeople) {
  const made = shape("circle", { class: isActive ? "sensor active" : "sensor", cx: x.toFixed(1), cy: y.toFixed(1), r: radius.toFixed(1) });
  const title = shape("title", {});
  title.textContent = `${line.name}: ${hasNoPeople ? "" : `${bits(bitsPerRelease)} a release, `}${number(line.releases)} releases`;
  made.append(title);
  return made;
}

// Names of those that tell most, right or left of their circle, where there is room.
function names(chosen, spots, height) {
  const taken = spots.map(({ x, y, radius }) => box(x - radius, y - radius, 2 * radius, 2 * radius));
  const made = [];
  for (const spot of chosen) {
    const width = LETTER * spot.line.name.length;
    for (const [start, anchor] of [[spot.x + spot.radius + 4, "start"], [spot.x - spot.radius - 4 - width, "end"]]) {
      const own = box(start, spot.y - LINE / 2, width, LINE);
      const fits = own.left >= 0 && own.right <= WIDTH && own.top >= 0 && own.bottom <= height;
      if (!fits || taken.some((other) => overlap(own, other))) continue;
      taken.push(own);
      made.push(label(anchor === "start" ? start : start + width, spot.y + 4, spot.line.name, anchor));
      break;
    }
  }
  return made;
}

function box(left, top, width, height) {
  return { left, top, right: left + width, bottom: top + height };
}

function overlap(a, b) {
  return a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
}

function legend(missing) {
  const rest = missing ? [element("span", {}, `${number(missing)} without a position are in the list only`)] : [];
  return element(
    "figcaption", { class: "spots" },
    element("span", { class: "active" }, "released in the last step"),
    element("span", {}, "not released"),
    element("span", { class: "size" }, "the larger, the more it reveals"),
    ...rest,
  );
}
