// Pictures: lines and bars by uPlot, shapes of the map as SVG. A colour means one thing: ceiling, guess or attack;
// each has a dash of its own, too. A picture says in words what it shows, and is drawn again in other colours.

import { element } from "./words.js";

const HEIGHT = 250;
const DASH = { ceiling: [], guess: [7, 4], attack: [2, 3], highest: [1, 3], crowd: [9, 4], b: [10, 3] };
const drawn = new Map(); // figures, with how to draw each again

export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

// A line of a chart: ``look`` names its colour; ``values`` may have gaps. ``band`` fills down to the line before it.
export function line(label, look, values, more = {}) {
  return { label, look, values, ...more };
}

// Draw lines over steps. ``options``: describe, axis (of the values), format, onCursor, days (steps that begin one).
export function lines(figure, steps, series, options = {}) {
  redraw(figure, () => {
    const made = {
      width: width(figure), height: HEIGHT, legend: { show: false }, padding: [10, 12, 0, 0],
      cursor: { drag: { x: false, y: false }, points: { size: 7 } },
      scales: { x: { time: false }, y: { range: (_, low, high) => [0, Math.max(options.least ?? 0.01, high) * 1.05] } },
      axes: [axisX(options), axisY(options)],
      series: [{}, ...series.map(seriesOf)],
      bands: series.flatMap((each, index) => (each.band ? [{ series: [index + 1, index], fill: colour(`${each.band}-area`) }] : [])),
      hooks: { draw: [(plot) => marks(plot, options)], ...(options.onCursor ? { setCursor: [(plot) => plot.cursor.idx != null && plot.cursor.event && options.onCursor(steps[plot.cursor.idx])] } : {}) },
    };
    return { made, data: [steps, ...series.map((each) => each.values)], series };
  }, options);
}

// Draw bars: ``counts`` by name over ``edges`` (one more than bars).
export function bars(figure, edges, counts, options = {}) {
  redraw(figure, () => {
    const middles = edges.slice(1).map((edge, index) => (edge + edges[index]) / 2);
    const names = Object.keys(counts);
    const paths = (index) => window.uPlot.paths.bars({ size: [0.42, 60], align: index === 0 ? 1 : -1, gap: 0 });
    const series = names.map((name) => line(options.names?.[name] ?? name, name, counts[name]));
    const made = {
      width: width(figure), height: HEIGHT, legend: { show: false }, padding: [10, 12, 0, 0], cursor: { show: false },
      scales: { x: { time: false, range: () => [edges[0], edges[edges.length - 1]] }, y: { range: (_, low, high) => [0, Math.max(1, high) * 1.05] } },
      axes: [axisX(options), axisY(options)],
      series: [{}, ...series.map((each, index) => ({ label: each.label, stroke: colour(each.look), fill: index === 0 ? colour(each.look) : colour(`${each.look}-area`), width: 2, paths: paths(index), points: { show: false } }))],
    };
    return { made, data: [middles, ...series.map((each) => each.values)], series };
  }, options);
}

function seriesOf(each) {
  return {
    label: each.label, stroke: each.width === 0 ? "transparent" : colour(each.look), width: each.width ?? 2.5, dash: DASH[each.dash ?? each.look] ?? [], spanGaps: false,
    points: { show: each.values.length < 3, size: 6 },
  };
}

function axisX({ x = (value) => value, days, splits }) {
  return {
    stroke: colour("quiet"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line") }, font: "12px system-ui",
    ...(splits ? { splits: () => splits } : days?.length ? { splits: (plot) => days.filter((_, index) => index % Math.max(1, Math.ceil(days.length / Math.max(2, plot.bbox.width / devicePixelRatio / 90))) === 0) } : {}),
    values: (_, values) => values.map(x),
  };
}

function axisY({ y = (value) => value, label }) {
  return {
    stroke: colour("quiet"), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false }, size: 48, font: "12px system-ui",
    values: (_, values) => values.map(y), ...(label ? { label, labelSize: 16, labelFont: "12px system-ui" } : {}),
  };
}

// The step that the page shows, as a line of its own.
function marks(plot, { at }) {
  if (at === undefined || at === null) return;
  const x = plot.valToPos(at, "x", true);
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.strokeStyle = colour("ink");
  ctx.lineWidth = 1.5 * devicePixelRatio;
  ctx.beginPath();
  ctx.moveTo(x, bbox.top);
  ctx.lineTo(x, bbox.top + bbox.height);
  ctx.stroke();
  ctx.restore();
}

function width(figure) {
  return Math.max(240, Math.floor(figure.getBoundingClientRect().width || 560));
}

function redraw(figure, make, options) {
  const draw = () => {
    if (!figure.getBoundingClientRect().width) return; // not on the page now
    const { made, data, series } = make();
    const target = element("div", { role: "img", "aria-label": options.describe ?? "" });
    const legend = element("figcaption", {}, ...series.filter((each) => !each.quiet).map((each) => element("span", { class: each.dash ?? each.look, "data-look": each.look }, each.label)));
    figure.replaceChildren(...(options.title ? [element("p", { class: "chart-title" }, options.title)] : []), target, legend);
    new window.uPlot(made, data, target);
    if (options.onClick) target.addEventListener("click", options.onClick);
  };
  drawn.set(figure, draw);
  draw();
}

export function redrawAll() {
  for (const draw of drawn.values()) draw();
}

for (const query of ["(prefers-color-scheme: dark)", "print"]) matchMedia(query).addEventListener("change", redrawAll);
let resizing = 0;
let wide = window.innerWidth;
addEventListener("resize", () => {
  if (window.innerWidth === wide) return; // a phone's bar that comes and goes
  wide = window.innerWidth;
  clearTimeout(resizing);
  resizing = setTimeout(redrawAll, 150);
});

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
