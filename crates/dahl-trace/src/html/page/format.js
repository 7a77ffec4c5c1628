// Numbers as people read them.

const UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];

/// A number with about `digits` significant digits, never in powers of ten. In columns, zeros at the end stay.
function significant(value, digits = 3, isInColumn = false) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  const places = Math.min(size === 0 ? 0 : Math.max(0, digits - 1 - Math.floor(Math.log10(size) + 1e-9)), 12);
  return value.toLocaleString("en", { maximumFractionDigits: places, minimumFractionDigits: isInColumn ? places : 0 });
}

function duration(nanos, digits = 3, isInColumn = false) {
  if (!Number.isFinite(nanos)) return "–";
  const [size, unit] = UNITS.find(([size]) => Math.abs(nanos) >= 0.9995 * size) ?? UNITS[3];
  // There is nothing below a nanosecond in a trace, but means may be.
  return `${significant(nanos / size, size === 1 ? Math.min(digits, 3) : digits, isInColumn)} ${unit}`;
}

/// A moment of the trace, exact to the nanosecond below a second.
function moment(nanos) {
  return nanos === 0 ? "0" : duration(nanos, 7);
}

function count(n, thing) {
  return `${n.toLocaleString("en")} ${thing}${n === 1 ? "" : "s"}`;
}

function percent(share) {
  return Number.isFinite(share) ? `${(100 * share).toFixed(1)} %` : "–";
}

function bytesText(n) {
  if (n < 1024) return `${n} B`;
  let value = n / 1024, unit = 0;
  const units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  while (value >= 1023.95 && unit + 1 < units.length) { value /= 1024; unit += 1; }
  return `${value.toFixed(value < 99.95 && value % 1 !== 0 ? 1 : 0)} ${units[unit]}`;
}

/// Round values for an axis from `low` to `high`, about `n` of them, and the distance between two.
function ticks(low, high, n, isBinary = false) {
  const raw = Math.max((high - low) / Math.max(n, 1), Number.MIN_VALUE);
  let step;
  if (isBinary) {
    step = 2 ** Math.ceil(Math.log2(raw));
  } else {
    const power = 10 ** Math.floor(Math.log10(raw));
    step = power * ([1, 2, 5, 10].find(factor => factor * power >= raw * 0.999) ?? 10);
  }
  const values = [];
  // Adding zero turns −0 into 0.
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step && values.length < 1000; i++) values.push(i * step + 0);
  return { values, step };
}
