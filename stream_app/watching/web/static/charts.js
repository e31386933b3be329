// Two charts as SVG: lines over time and bars by risk. Colours come with a dash or a fill of their own.

import { ceilingInWords, element, inAHundred, number, stepName } from "./words.js";

const WIDTH = 560, HEIGHT = 260, LEFT = 44, RIGHT = 12, TOP = 26, BOTTOM = 34;

export function overTime(figure, history, about) {
  const most = Math.max(0.01, ...history.map((line) => Math.max(line.mean_risk, line.mean_baseline)));
  const scale = axis(most);
  const x = (index) => LEFT + (index * (WIDTH - LEFT - RIGHT)) / Math.max(history.length - 1, 1);
  const y = (value) => HEIGHT - BOTTOM - (value * (HEIGHT - TOP - BOTTOM)) / scale.top;
  const path = (key) => history.map((line, index) => `${x(index).toFixed(1)},${y(line[key]).toFixed(1)}`);
  const [risk, guess] = [path("mean_risk"), path("mean_baseline")];
  const attacks = runs(history.map((line, index) => line.attack && [x(index), ...line.attack.map(y)]));
  const crowd = history.every((line) => line.mean_crowd === null) ? [] : [shape("polyline", { class: "crowd", points: history.flatMap((line, index) => (line.mean_crowd === null ? [] : [`${x(index).toFixed(1)},${y(line.mean_crowd).toFixed(1)}`])).join(" ") })];
  const first = history[0], last = history[history.length - 1];
  draw(figure, `Mean ceiling ${ceilingInWords(last.mean_risk)}, mean attack ${last.attack ? inAHundred(last.attack[0]) : "not measured"} and mean guess ${inAHundred(last.mean_baseline)} at step ${last.step}`, [
    ...scale.ticks.flatMap((value) => gridLine(y(value), `${+(100 * value).toPrecision(3)}`)),
    shape("polygon", { class: "added", points: [...risk, ...guess.slice().reverse()].join(" ") }),
    ...attacks.flatMap(attackShapes),
    shape("polyline", { class: "guess", points: guess.join(" ") }),
    shape("polyline", { class: "ceiling", points: risk.join(" ") }),
    ...crowd,
    label(LEFT, HEIGHT - 12, stepName(first.step, about), "start"),
    label(WIDTH - RIGHT, HEIGHT - 12, stepName(last.step, about), "end"),
    label(4, 12, "in 100", "start"),
  ], { ...(crowd.length ? { crowd: "ceiling in the crowd" } : {}), attack: "attack, with its interval" });
}

// Neighbours with a value, together: [x, mean, low, high] each.
function runs(points) {
  const found = [];
  points.forEach((point, index) => {
    if (point && !points[index - 1]) found.push([]);
    if (point) found[found.length - 1].push(point);
  });
  return found;
}

function attackShapes(points) {
  const along = (part) => points.map((point) => `${point[0].toFixed(1)},${point[part].toFixed(1)}`);
  return [
    shape("polygon", { class: "interval", points: [...along(3), ...along(2).reverse()].join(" ") }),
    shape("polyline", { class: "attack", points: along(1).join(" ") }),
  ];
}

export function spread(figure, distribution) {
  const bins = distribution.risk.length;
  const scale = axis(Math.max(1, ...distribution.risk, ...distribution.baseline));
  const width = (WIDTH - LEFT - RIGHT) / bins;
  const y = (value) => HEIGHT - BOTTOM - (value * (HEIGHT - TOP - BOTTOM)) / scale.top;
  const bar = (kind, inset) => (count, bin) =>
    shape("rect", {
      class: kind, x: LEFT + bin * width + inset, width: Math.max(width - 2 * inset, 1),
      y: y(count), height: HEIGHT - BOTTOM - y(count),
    });
  const high = distribution.risk.slice(bins / 2).reduce((sum, count) => sum + count, 0);
  draw(figure, `${number(high)} people have a ceiling of 50 in 100 or more`, [
    ...scale.ticks.flatMap((value) => gridLine(y(value), number(value))),
    ...distribution.risk.map(bar("ceiling", 3)),
    ...distribution.baseline.map((count, bin) => [count, bin]).filter(([count]) => count > 0).map((pair) => bar("guess", 1)(...pair)),
    ...[0, 0.25, 0.5, 0.75, 1].map((share) => label(LEFT + share * (WIDTH - LEFT - RIGHT), HEIGHT - 16, `${100 * share}`, "middle")),
    label(WIDTH - RIGHT, HEIGHT - 1, "chance, in 100", "end"),
    label(4, 12, "people", "start"),
  ]);
}

// A round top and five lines or fewer.
function axis(most) {
  const size = 10 ** Math.floor(Math.log10(most));
  const step = [0.2, 0.5, 1, 2].map((part) => part * size).find((candidate) => most / candidate <= 5) ?? 2 * size;
  const count = Math.max(1, Math.ceil(most / step - 1e-9));
  return { top: count * step, ticks: Array.from({ length: count + 1 }, (_, index) => index * step) };
}

function draw(figure, description, shapes, more = {}) {
  const svg = shape("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": description });
  svg.append(...shapes);
  const legend = element(
    "figcaption", {},
    element("span", { class: "ceiling" }, "ceiling"),
    ...Object.entries(more).map(([name, text]) => element("span", { class: name }, text)),
    element("span", { class: "guess" }, "guess"),
  );
  figure.replaceChildren(svg, legend);
}

function gridLine(y, text) {
  return [
    shape("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y, y2: y }),
    label(LEFT - 6, y + 4, text, "end"),
  ];
}

export function label(x, y, text, anchor) {
  const made = shape("text", { x, y, "text-anchor": anchor });
  made.textContent = text;
  return made;
}

export function shape(name, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}
