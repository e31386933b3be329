// Small pieces of the page. Chances come in words from the engine; what is only drawn or counted is said here.

export function number(value) {
  return value.toLocaleString("en");
}

export function numberOf(value, one, many = `${one}s`) {
  return `${number(value)} ${value === 1 ? one : many}`;
}

// Never in powers of ten: "130", "0.85".
export function twoDigits(value) {
  return value.toLocaleString("en", { maximumSignificantDigits: 2 });
}

export function bits(value) {
  if (value === 0) return "0 bits";
  return value < 0.001 ? "under 0.001 bits" : `${value.toPrecision(2)} bits`;
}

// Releases known before Unix time is set count steps only; a real origin gives a time by the deployment's clock.
export function stepName(step, about) {
  const time = clock(step, about);
  if (!time) return `step ${number(step)}`;
  return `${time.year}-${time.month}-${time.day} ${time.hour}:${time.minute} ${time.zone} (step ${number(step)})`;
}

// The day that a step begins in, for an axis.
export function dayName(step, about) {
  const time = clock(step, about);
  return time ? `${time.weekday} ${Number(time.day)}.${Number(time.month)}.` : number(step);
}

// Whether a step is the first of a day; without an origin no step is.
export function isDayStart(step, about) {
  const time = clock(step, about);
  return Boolean(time) && Number(time.hour) * 3600 + Number(time.minute) * 60 < Math.min(86400, about.step_seconds);
}

// The hour of the week that a step begins in, from Monday.
export function hourOfWeek(step, about) {
  const time = clock(step, about);
  return time ? 24 * ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"].indexOf(time.weekday) + Number(time.hour) : step % 168;
}

const FORMS = new Map();

function clock(step, about) {
  if (!about || about.origin_seconds === 0) return null;
  const offset = /^[+-]/.test(about.timezone ?? "") ? about.timezone : ""; // of the origin, where no zone is named
  const timeZone = offset ? "UTC" : about.timezone ?? "UTC";
  const ahead = offset ? (offset[0] === "-" ? -60 : 60) * (60 * Number(offset.slice(1, 3)) + Number(offset.slice(4, 6))) : 0;
  if (!FORMS.has(timeZone)) {
    const parts = { year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", weekday: "short", timeZoneName: "short", hourCycle: "h23" };
    FORMS.set(timeZone, new Intl.DateTimeFormat("en-GB", { timeZone, ...parts }));
  }
  const found = Object.fromEntries(FORMS.get(timeZone).formatToParts(new Date((about.origin_seconds + ahead + step * about.step_seconds) * 1000)).map((part) => [part.type, part.value]));
  return { ...found, zone: offset ? `UTC${offset}` : found.timeZoneName.replace("GMT", "UTC").replace(/^UTC([+-])(\d)$/, "UTC$10$2") };
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
