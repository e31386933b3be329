// Sensors where they stand: a larger circle reveals more; its form says whether it was raw, noised or silent at the
// step shown. Streets come from the deployment's own server, where the settings name one. Sensors of rooms stand on a
// plan of the floors. The list below says the same.

import { bits, element, number, numberOf } from "./words.js";
import { label, shape } from "./charts.js";
import { FULL_BITS, meanBits } from "./sensors.js";

const MARGIN = 34, SMALL = 4, LARGE = 17, NAMED = 8, LETTER = 6.4, LINE = 14, TILE = 256;
const MOST_CIRCLES = 500; // that can be pointed at; the others are drawn in a path a size and form
let width = 640; // of the picture: as wide as its place, so that letters stay large enough
const KINDS = { raw: "raw", noised: "noised", silent: "silent or not counting" };

export function kindOf(release) {
  if (!release || release.value === null) return "silent";
  return release.error === 0 ? "raw" : "noised";
}

export function drawMap(figure, sensors, releases, hasNoPeople, tiles = "") {
  const placed = sensors.filter((line) => line.position);
  figure.hidden = false;
  width = Math.max(300, Math.min(640, Math.floor(figure.getBoundingClientRect().width) || 640));
  const project = projection(placed.flatMap(corners));
  const rooms = placed.filter((line) => line.size);
  figure.hidden = project === null;
  if (project === null) return;
  const kinds = new Map(releases.map((line) => [line.sensor, kindOf(line)]));
  const spots = placed
    .map((line) => {
      const [x, y] = project.at(line.position);
      const part = Math.sqrt(Math.min(1, meanBits(line) / FULL_BITS));
      return { line, x, y, bitsPerRelease: meanBits(line), radius: SMALL + (LARGE - SMALL) * part, kind: kinds.get(line.name) ?? "silent" };
    })
    .sort((a, b) => b.bitsPerRelease - a.bitsPerRelease);
  const first = spots.filter((spot) => spot.bitsPerRelease > 0).slice(0, 3).map((spot) => `${spot.line.name}, ${bits(spot.bitsPerRelease)}`);
  const said = first.length ? ` Revealing most: ${first.join("; ")}.` : "";
  const svg = shape("svg", {
    viewBox: `0 0 ${width} ${project.height}`, role: "img",
    "aria-label": `Map of ${numberOf(placed.length, "sensor")}.${said} The list below names them.`,
  });
  svg.append(
    ...streets(tiles, project),
    ...plan(rooms, project),
    ...dots(spots.slice(MOST_CIRCLES)),
    ...spots.slice(0, MOST_CIRCLES).map((spot) => circle(spot, hasNoPeople)),
    ...(rooms.length ? [] : [...names(spots.slice(0, NAMED), spots, project.height), label(width - 4, 14, "north ↑", "end")]),
  );
  figure.replaceChildren(svg, legend(sensors.length - placed.length));
}

// South-west and north-east of a room; of any other sensor its point.
function corners({ position: [x, y], size }) {
  const [broad, deep] = size ?? [0, 0];
  return [[x - broad / 2, y - deep / 2], [x + broad / 2, y + deep / 2]];
}

// Rooms with their names, where these fit, and each floor's name above it.
function plan(rooms, project) {
  const floors = new Map();
  const made = rooms.flatMap((line) => {
    const [[left, bottom], [right, top]] = corners(line).map(project.at);
    const [west, north] = floors.get(line.group) ?? [left, top];
    floors.set(line.group, [Math.min(west, left), Math.min(north, top)]);
    const own = shape("rect", { class: "room", x: left, y: top, width: right - left, height: bottom - top });
    return LETTER * line.name.length < right - left ? [own, label(left + 3, top + 11, line.name, "start")] : [own];
  });
  return [...made, ...[...floors].map(([name, [west, north]]) => label(west, north - 6, name, "start"))];
}

// From the plane to the picture, both axes alike; null where there is nothing to see.
function projection(positions) {
  if (positions.length < 2) return null;
  let [left, bottom] = positions[0], [right, top] = positions[0];
  for (const [x, y] of positions) [left, right, bottom, top] = [Math.min(left, x), Math.max(right, x), Math.min(bottom, y), Math.max(top, y)];
  const [broad, tall] = [right - left, top - bottom];
  if (Math.max(broad, tall) === 0) return null;
  const inner = width - 2 * MARGIN;
  const scale = Math.min(inner / Math.max(broad, 1e-9), (0.75 * inner) / Math.max(tall, 1e-9));
  const height = Math.max(120, tall * scale + 2 * MARGIN);
  return {
    height, scale,
    at: ([x, y]) => [width / 2 + (x - left - broad / 2) * scale, height / 2 - (y - bottom - tall / 2) * scale],
    back: ([x, y]) => [left + broad / 2 + (x - width / 2) / scale, bottom + tall / 2 - (y - height / 2) / scale],
  };
}

// Tiles of a globe unrolled by Mercator's projection: positions are degrees east, and as many to the north.
function streets(address, project) {
  if (!address) return [];
  const zoom = Math.max(0, Math.min(18, Math.ceil(Math.log2((360 * project.scale) / TILE))));
  const count = 2 ** zoom, size = 360 / count;
  const [west, north] = project.back([0, 0]), [east, south] = project.back([width, project.height]);
  const column = (x) => Math.floor((x + 180) / size), row = (y) => Math.floor((180 - y) / size);
  const found = [];
  for (let x = column(west); x <= column(east); x += 1)
    for (let y = Math.max(0, row(north)); y <= Math.min(count - 1, row(south)); y += 1) {
      const [left, top] = project.at([x * size - 180, 180 - y * size]);
      const href = address.replace("{z}", zoom).replace("{x}", ((x % count) + count) % count).replace("{y}", y);
      found.push(shape("image", { href, x: left, y: top, width: size * project.scale, height: size * project.scale, class: "street" }));
    }
  return found.length <= 100 ? found : [];
}

function circle({ line, x, y, bitsPerRelease, radius, kind }, hasNoPeople) {
  const made = shape("circle", { class: `sensor ${kind}`, cx: x.toFixed(1), cy: y.toFixed(1), r: radius.toFixed(1) });
  const title = shape("title", {});
  title.textContent = `${line.name}: ${hasNoPeople ? "" : `${bits(bitsPerRelease)} a release, `}${numberOf(line.releases, "release")}, ${KINDS[kind]} at this step`;
  made.append(title);
  return made;
}

// Thousands of circles would freeze the page; as many in a few paths do not.
function dots(spots) {
  const paths = new Map();
  for (const { x, y, radius, kind } of spots) {
    const key = `${kind} ${Math.round(radius)}`;
    const r = Math.round(radius), at = `M${(x - r).toFixed(1)} ${y.toFixed(1)}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`;
    paths.set(key, `${paths.get(key) ?? ""}${at}`);
  }
  return [...paths].map(([key, d]) => shape("path", { class: `sensor ${key.split(" ")[0]}`, d }));
}

// Names of those that tell most, right or left of their circle, where there is room.
function names(chosen, spots, height) {
  const taken = spots.slice(0, 1000).map(({ x, y, radius }) => box(x - radius, y - radius, 2 * radius, 2 * radius));
  const made = [];
  for (const spot of chosen) {
    const long = LETTER * spot.line.name.length;
    for (const [start, anchor] of [[spot.x + spot.radius + 4, "start"], [spot.x - spot.radius - 4 - long, "end"]]) {
      const own = box(start, spot.y - LINE / 2, long, LINE);
      const fits = own.left >= 0 && own.right <= width && own.top >= 0 && own.bottom <= height;
      if (!fits || taken.some((other) => overlap(own, other))) continue;
      taken.push(own);
      made.push(label(anchor === "start" ? start : start + long, spot.y + 4, spot.line.name, anchor));
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
  const rest = missing ? [element("span", { class: "words" }, `${number(missing)} without a position are in the list only`)] : [];
  return element(
    "figcaption", { class: "spots" },
    ...Object.entries(KINDS).map(([kind, text]) => element("span", { class: kind }, text)),
    element("span", { class: "words" }, "the larger, the more it reveals"),
    ...rest,
  );
}
