// Curves and memory, as drawings that print well, with the same numbers as tables.

const MARGIN = { right: 8, top: 10, bottom: 26 };

/// A drawing with axes. `draw` gets the scales and says what is at an x for the tooltip.
class Plot {
  constructor(host, { height, left, label, xs, low, high, yText, isBinary, draw, at }) {
    Object.assign(this, { height, left, xs, low, high, yText, isBinary, drawInside: draw, at });
    this.svg = shape("svg", { height, role: "img", "aria-label": label, tabindex: 0 });
    host.append(this.svg);
    this.svg.addEventListener("pointermove", event => this.point(event.clientX, event.clientY));
    this.svg.addEventListener("pointerleave", () => this.leave());
    this.svg.addEventListener("blur", () => this.leave());
    this.svg.addEventListener("keydown", event => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (by) { event.preventDefault(); this.show(Math.min(Math.max((this.shown ?? -1) + by, 0), xs.length - 1)); }
    });
    new ResizeObserver(() => this.paint()).observe(host);
    repaints.push(() => this.paint());
    this.paint();
  }

  x(value) {
    const from = this.xs[0], until = this.xs[this.xs.length - 1];
    const share = until > from ? (value - from) / (until - from) : 0.5;
    return this.left + share * (this.width - this.left - MARGIN.right);
  }

  y(value) {
    return this.height - MARGIN.bottom - (value - this.low) / (this.high - this.low) * (this.height - MARGIN.top - MARGIN.bottom);
  }

  paint() {
    const width = this.svg.clientWidth || this.svg.getBoundingClientRect().width;
    if (!width) return;
    this.width = width;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${this.height}`);
    const parts = [];
    const { values, step } = ticks(this.low, this.high, 5, this.isBinary);
    for (const value of values) {
      const y = Math.round(this.y(value)) + 0.5;
      parts.push(shape("line", { class: "grid", x1: this.left, x2: width - MARGIN.right, y1: y, y2: y }),
        shape("text", { x: this.left - 8, y: y + 4, "text-anchor": "end" }, this.yText(value, step)));
    }
    const bottom = this.height - MARGIN.bottom + 0.5;
    parts.push(shape("line", { class: "base", x1: this.left, x2: width - MARGIN.right, y1: bottom, y2: bottom }));
    const from = this.xs[0], until = this.xs[this.xs.length - 1];
    const marks = until > from ? ticks(from, until, Math.max(2, (width - 60) / 60)) : { values: [from], step: 1 };
    const whole = marks.step < 1 ? [from, until] : marks.values;
    for (const value of whole) {
      const x = this.x(value);
      const anchor = x > width - 40 ? "end" : x < this.left + 20 ? "start" : "middle";
      parts.push(shape("text", { x, y: this.height - 8, "text-anchor": anchor }, significant(value, 7)));
    }
    this.svg.replaceChildren(...parts, ...this.drawInside(this));
    this.cross = null;
  }

  point(clientX, clientY) {
    const { left } = this.svg.getBoundingClientRect();
    let best = 0;
    for (let i = 1; i < this.xs.length; i++) {
      if (Math.abs(this.x(this.xs[i]) - (clientX - left)) < Math.abs(this.x(this.xs[best]) - (clientX - left))) best = i;
    }
    this.show(best, clientX, clientY);
  }

  /// Shows the values at the i-th x.
  show(i, clientX, clientY) {
    this.shown = i;
    this.cross?.remove();
    const x = this.x(this.xs[i]), bounds = this.svg.getBoundingClientRect();
    const { title, pairs, points } = this.at(i);
    const dots = points.filter(([value]) => Number.isFinite(value));
    this.cross = shape("g", { "aria-hidden": "true" },
      shape("line", { class: "cross", x1: x, x2: x, y1: MARGIN.top, y2: this.height - MARGIN.bottom }),
      dots.map(([value, colour]) => shape("circle", { cx: x, cy: this.y(value), r: 3.5, fill: colour })));
    this.svg.append(this.cross);
    tooltip.show(clientX ?? bounds.left + x, clientY ?? bounds.top + 20, [title], pairs);
  }

  leave() {
    this.shown = null;
    this.cross?.remove();
    tooltip.hide();
  }
}

/// A path through points; where a value is missing, it is interrupted.
function path(xs, ys, plot) {
  let text = "", isOpen = false;
  for (let i = 0; i < xs.length; i++) {
    const is = ys[i] !== null && Number.isFinite(ys[i]);
    if (is) text += `${isOpen ? "L" : "M"}${plot.x(xs[i]).toFixed(1)},${plot.y(ys[i]).toFixed(1)}`;
    isOpen = is;
  }
  return text;
}

/// The numbers of a plot, for those who read them.
function numbersTable(headings, rows) {
  const every = Math.ceil(rows.length / 500);
  const kept = rows.filter((_, i) => i % every === 0 || i === rows.length - 1);
  const details = element("details", {}, element("summary", {}, "Numbers"));
  details.addEventListener("toggle", () => {
    if (details.children.length > 1) return;
    details.append(element("div", { class: "numbers" }, element("table", {},
      element("thead", {}, element("tr", {}, headings.map(text => element("th", { scope: "col" }, text)))),
      element("tbody", {}, kept.map(cells => element("tr", {}, cells.map(text => element("td", {}, text))))))));
  });
  return details;
}

function keys(entries) {
  return element("span", { class: "keys" }, entries.map(([kind, text]) => element("span", {}, swatch(kind), text)));
}

/// Several series over the same axis.
function curvePlot(host, raw) {
  const series = raw.series.filter(series => series.x.length > 0);
  if (series.length === 0) return false;
  const values = series.flatMap(s => [...(s.low ?? s.y), ...(s.high ?? s.y)]).filter(value => value !== null);
  let low = Math.min(...values), high = Math.max(...values);
  if (values.length === 0) [low, high] = [0, 1];
  // From zero, unless everything is far from it.
  low = low > 0 && low < 0.6 * high ? 0 : low - (high - low || Math.abs(high) || 1) * 0.08;
  high += (high - low) * 0.05;
  const longest = series.reduce((a, b) => b.x.length > a.x.length ? b : a);
  const text = value => value === null ? "–" : `${significant(value, 4)}${raw.unit ? ` ${raw.unit}` : ""}`;
  const [size, suffix] = high >= 1e6 ? [1e6, "M"] : high >= 1e4 ? [1e3, "k"] : [1, ""];
  const short = value => value === 0 ? "0" : `${significant(value / size)}${suffix}`;
  const valueAt = (s, x) => {
    const i = s.x.indexOf(x);
    return i < 0 ? null : s.y[i];
  };
  const title = raw.unit ? `${raw.title}, ${raw.unit}` : raw.title;
  const figure = element("figure", { class: "card" },
    element("figcaption", {}, title, series.length > 1 ? keys(series.map((s, i) => [`task:${i}`, s.name])) : null));
  host.append(figure);
  const merged = longest.merged > 1 ? `, means of ${longest.merged}` : "";
  new Plot(figure, {
    height: 196, left: 40, label: `${raw.title} over ${raw.x}, from ${text(longest.y[0])} to ${text(longest.y[longest.y.length - 1])}`,
    xs: longest.x, low, high, yText: short, isBinary: false,
    draw: plot => series.flatMap((s, i) => {
      const colour = cssColour(`task:${i}`);
      const parts = [];
      if (s.low) {
        const there = path(s.x, s.high, plot), back = path([...s.x].reverse(), [...s.low].reverse(), plot).replace("M", "L");
        if (there) parts.push(shape("path", { d: `${there}${back}Z`, fill: colour, "fill-opacity": 0.18 }));
      }
      if (s.x.length === 1 && s.y[0] !== null) parts.push(shape("circle", { cx: plot.x(s.x[0]), cy: plot.y(s.y[0]), r: 3, fill: colour }));
      parts.push(shape("path", { d: path(s.x, s.y, plot), fill: "none", stroke: colour, "stroke-width": 1.75, "stroke-linejoin": "round" }));
      return parts;
    }),
    at: i => {
      const x = longest.x[i];
      const pairs = series.map(s => [s.name, text(valueAt(s, x))]);
      if (longest.low) pairs.push(["lowest", text(longest.low[i])], ["highest", text(longest.high[i])]);
      return { title: `${raw.x} ${significant(x, 9)}`, pairs, points: series.map((s, n) => [valueAt(s, x) ?? NaN, cssColour(`task:${n}`)]) };
    },
  });
  const table = numbersTable([raw.x, ...series.map(s => s.name)], longest.x.map(x => [significant(x, 9), ...series.map(s => text(valueAt(s, x)))]));
  figure.append(element("div", { class: "foot" }, table, element("p", {}, `by ${raw.x}${merged}`)));
  return true;
}

/// The memory of a step, task by task, below what was planned.
function memoryPlot(host, raw) {
  const n = raw.bytes.length;
  if (n === 0) return false;
  const peak = Math.max(...raw.bytes), top = raw.bytes.indexOf(peak);
  // What sharing saves is in the picture where that leaves room to see the rest.
  const showsUnshared = raw.unshared <= 3 * raw.planned;
  const high = 1.06 * Math.max(peak, raw.planned, showsUnshared ? raw.unshared : 0, 1);
  const lines = [["task:0", "in use"], ["task:7", "MEM_MAX, planned"]];
  if (showsUnshared) lines.push(["soft", "without sharing"]);
  const figure = element("figure", { class: "card" }, element("figcaption", {}, `Memory: ${raw.name}`, keys(lines)));
  host.append(figure);
  const words = `${bytesText(raw.planned)} were planned before the run, ${bytesText(peak)} are in use at most (during ${raw.names[top]}); ` +
    `${bytesText(raw.scratch)} of it are scratch of kernels; without sharing it would be ${bytesText(raw.unshared)}. Weights and data take ${bytesText(raw.state)} beside it` +
    (raw.limit === null ? "." : `, of ${bytesText(raw.limit)} allowed in all.`);
  const level = (plot, value, colour, dash) => {
    const y = plot.y(value);
    return shape("line", { x1: plot.left, x2: plot.width - MARGIN.right, y1: y, y2: y, stroke: colour, "stroke-width": 1.75, "stroke-dasharray": dash });
  };
  const xs = raw.bytes.map((_, i) => i * raw.together);
  new Plot(figure, {
    height: 220, left: 64, label: words, xs: [...xs, n * raw.together], low: 0, high, yText: value => bytesText(value), isBinary: true,
    draw: plot => {
      const y0 = plot.y(0).toFixed(1);
      let line = "";
      raw.bytes.forEach((bytes, i) => {
        const y = plot.y(bytes).toFixed(1);
        line += `${i === 0 ? "M" : "L"}${plot.x(xs[i]).toFixed(1)},${y}H${plot.x((i + 1) * raw.together).toFixed(1)}`;
      });
      const area = `${line}V${y0}H${plot.x(0).toFixed(1)}Z`, colour = cssColour("task:0");
      return [
        shape("path", { d: area, fill: colour, "fill-opacity": 0.16 }),
        shape("path", { d: line, fill: "none", stroke: colour, "stroke-width": 1.5 }),
        level(plot, raw.planned, cssColour("task:7"), null),
        ...(showsUnshared ? [level(plot, raw.unshared, cssColour("soft"), "4 4")] : []),
      ];
    },
    at: i => {
      const at = Math.min(i, n - 1);
      const pairs = [["in use", bytesText(raw.bytes[at])], ["of MEM_MAX", percent(raw.bytes[at] / raw.planned)], ["task", `${(xs[at] + 1).toLocaleString("en")} of ${raw.tasks.toLocaleString("en")}`]];
      return { title: raw.names[at], pairs, points: [[raw.bytes[at], cssColour("task:0")]] };
    },
  });
  const order = raw.together > 1 ? `${count(raw.tasks, "task")} in planned order, the most of ${raw.together} at a time` : `${count(raw.tasks, "task")} in planned order`;
  figure.append(element("p", {}, `${order}. ${words}`),
    numbersTable(["task", "codelet", "in use"], raw.bytes.map((bytes, i) => [(xs[i] + 1).toLocaleString("en"), raw.names[i], bytesText(bytes)])));
  return true;
}
