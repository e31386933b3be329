// Numbers in the words people use, as in stream_app/wording.py, and small pieces of the page.

const WHOLES = [100, 1000, 10000, 100000, 1000000];

export function inAHundred(probability) {
  if (probability <= 0) return "0 in 100";
  if (probability >= 0.995 && probability < 1) return "over 99 in 100";
  const whole = WHOLES.find((size) => probability * size >= 0.95);
  if (whole === undefined) return "under 1 in 10⁶";
  return `${number(Math.round(probability * whole))} in ${number(whole)}`;
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
  return `step ${number(step)}, ${start.toISOString().slice(0, 16).replace("T", " ")} UTC`;
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
