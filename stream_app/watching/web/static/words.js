// Numbers in the words people use, as in stream_app/watching/wording.py, and small pieces of the page.

// How a number is shortened: a ceiling, and what is added at most, up; the lower end of an attack down.
export const UP = "up", DOWN = "down", NEAREST = "nearest";

// A threshold that somebody chose is no estimate: it is said as it was chosen.
export const EXACT = "exact";

const FINEST = [1n, 2]; // in 100: what is smaller, or nearer to 100, is said as this

// Decimal numbers [digits, decimals] stand for digits / 10 ** decimals. Behind a value's twelfth significant digit
// stands what floating-point sums leave.
function decimal(value) {
  const [mantissa, exponent] = value.toExponential(11).split("e");
  const digits = mantissa.replace(".", "");
  return rescaled([BigInt(digits), digits.length - 1 - Number(exponent)]);
}

function rescaled([digits, decimals]) {
  return decimals >= 0 ? [digits, decimals] : [digits * 10n ** BigInt(-decimals), 0];
}

function atHundred(probability) {
  const [digits, decimals] = decimal(probability);
  return [digits, decimals - 2];
}

function less(one, other) {
  return one[0] * 10n ** BigInt(other[1]) < other[0] * 10n ** BigInt(one[1]);
}

// Not below 0; `decimals` is not below 0 either.
function rounded([digits, has], decimals, to) {
  if (decimals >= has) return [digits * 10n ** BigInt(decimals - has), decimals];
  const unit = 10n ** BigInt(has - decimals);
  const rest = digits % unit;
  const isMore = to === UP ? rest > 0n : to === DOWN ? false : 2n * rest >= unit;
  return [digits / unit + (isMore ? 1n : 0n), decimals];
}

function oneDigit(number, to) {
  return rounded(number, number[1] - number[0].toString().length + 1, to);
}

function plain([digits, decimals]) {
  const text = digits.toString().padStart(decimals + 1, "0");
  const cut = text.length - decimals;
  return decimals === 0 ? text : `${text.slice(0, cut)}.${text.slice(cut)}`.replace(/\.?0+$/, "");
}

function missingOf([digits, decimals]) {
  return [100n * 10n ** BigInt(decimals) - digits, decimals];
}

export function inAHundred(probability, to = NEAREST) {
  if (to === EXACT) return `${plain(rescaled(atHundred(probability)))} in 100`;
  if (probability <= 0 || probability >= 1) return `${probability <= 0 ? 0 : 100} in 100`;
  const part = rescaled(atHundred(probability));
  if (less(part, [1n, 0])) {
    if (less(part, FINEST)) return `${to === DOWN ? "0" : plain(FINEST)} in 100`;
    return `${plain(oneDigit(part, to))} in 100`;
  }
  const missing = missingOf(part);
  if (less(to === UP ? [1n, 0] : [5n, 1], missing)) return `${plain(rounded(part, 0, to))} in 100`;
  if (less(missing, FINEST)) return `${to === UP ? "100" : plain(missingOf(FINEST))} in 100`;
  const turned = { [UP]: DOWN, [DOWN]: UP }[to] ?? to;
  return `${plain(missingOf(oneDigit(missing, turned)))} in 100`;
}

// What no method exceeds, or what is added at most: rounded up.
export function ceilingInWords(probability) {
  return inAHundred(probability, UP);
}

export function attackInWords(attack) {
  if (!attack) return "not measured";
  const ends = [inAHundred(attack.low, DOWN), inAHundred(attack.high, UP)];
  return `${inAHundred(attack.success)} (${ends.map((end) => end.replace(" in 100", "")).join(" to ")})`;
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
  const timeZone = about.timezone ?? "UTC";
  if (!FORMS.has(timeZone)) {
    const parts = { year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", weekday: "short", timeZoneName: "short", hourCycle: "h23" };
    FORMS.set(timeZone, new Intl.DateTimeFormat("en-GB", { timeZone, ...parts }));
  }
  const found = Object.fromEntries(FORMS.get(timeZone).formatToParts(new Date((about.origin_seconds + step * about.step_seconds) * 1000)).map((part) => [part.type, part.value]));
  return { ...found, zone: found.timeZoneName.replace("GMT", "UTC").replace(/^UTC([+-])(\d)$/, "UTC$10$2") };
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
