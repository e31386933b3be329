// Numbers in the words people use, as in stream_app/watching/wording.py, and small pieces of the page.

const FINEST = 0.01; // in 100: what is smaller, or nearer to 100, is said as this

export function inAHundred(probability) {
  const part = 100 * probability;
  if (part <= 0 || part >= 100) return `${part <= 0 ? 0 : 100} in 100`;
  if (part < 0.95) return `${Number(Math.max(part, FINEST).toPrecision(1))} in 100`;
  if (part < 99.5) return `${Math.round(part)} in 100`;
  const missing = Number(Math.max(100 - part, FINEST).toPrecision(1));
  return `${(100 - missing).toFixed(-Math.floor(Math.log10(missing)))} in 100`;
}

export function attackInWords(attack) {
  if (!attack) return "not measured";
  const [low, high] = [attack.low, attack.high].map((end) => inAHundred(end).replace(" in 100", ""));
  return `${inAHundred(attack.success)} (${low} to ${high})`;
}

// How a chance changes: "−3.1 in 100"; what is rounded to nothing has no sign.
export function changeInAHundred(difference) {
  const part = (100 * Math.abs(difference)).toFixed(1);
  if (part === "0.0") return difference === 0 ? "0 in 100" : "under 0.1 in 100";
  return `${difference < 0 ? "−" : "+"}${part} in 100`;
}

export function number(value) {
  return value.toLocaleString("en");
}

export function bits(value) {
  if (value === 0) return "0 bits";
  return value < 0.001 ? "under 0.001 bits" : `${value.toPrecision(2)} bits`;
}

// Releases known before Unix time is set count steps only; a real origin gives a time of day.
export function stepName(step, about) {
  if (!about || about.origin_seconds === 0) return `step ${number(step)}`;
  const start = new Date((about.origin_seconds + step * about.step_seconds) * 1000);
  return `${start.toISOString().slice(0, 16).replace("T", " ")} UTC (step ${number(step)})`;
}

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

export function table(caption, head, rows) {
  const cells = head.map((text) => element("th", { scope: "col" }, text));
  const lines = rows.map((row) => element("tr", {}, ...row.map((cell) => element("td", {}, cell))));
  return [
    element("caption", { class: "skip" }, caption),
    element("thead", {}, element("tr", {}, ...cells)),
    element("tbody", {}, ...lines),
  ];
}
