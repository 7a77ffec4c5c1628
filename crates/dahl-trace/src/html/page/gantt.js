// The Gantt chart: what is in view, how it is drawn, and how mouse and keys move it.

const AXIS = 40, SHORTEST_ROW = 3, TALLEST_ROW = 64, CHART_MIN = 120, CHART_MAX = 648, SHORTEST_VIEW = 20;
const FONT = "12px system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'DejaVu Sans', sans-serif";

class Gantt {
  constructor(data, canvas, overview, range) {
    Object.assign(this, { data, canvas, overview, range, highlighted: null, hovered: null, pointer: null, paints: [] });
    this.context = canvas.getContext("2d");
    this.context.font = FONT;
    const widest = Math.max(...data.rows.map(row => this.context.measureText(row.name).width));
    this.gutter = Math.min(160, Math.ceil(widest) + 28);
    this.rowHeight = this.usualRowHeight();
    this.scroll = 0;
    this.useful = this.busy(600);
    this.recolour();
    this.showFirst();
    this.listen();
    new ResizeObserver(() => this.resize()).observe(canvas);
    this.resize();
  }

  // ---- What is in view

  /// Everything, with a little room on both sides.
  bounds() {
    const { first, last } = this.data;
    const room = 0.01 * (last - first);
    return [first - room, last + room];
  }

  /// So that all rows are seen, if they can be.
  usualRowHeight() {
    return Math.max(SHORTEST_ROW, Math.min(44, Math.floor((CHART_MAX - AXIS) / this.data.rows.length)));
  }

  showAll() {
    this.setRowHeight(this.usualRowHeight());
    this.scrollTo(0);
    this.set(...this.bounds());
  }

  /// At first: everything, or where that is too much to see anything, a few steps that took as long as most.
  showFirst() {
    const { data } = this;
    const perRow = Math.max(...data.rows.map(row => row.n));
    const { steps } = data;
    if (perRow > 3000 && steps.length > 8) {
      const starts = steps.slice(1, -5).map((_, i) => i + 1);
      const length = i => steps[i + 4][0] - steps[i][0];
      starts.sort((a, b) => length(a) - length(b));
      const usual = starts[starts.length >> 1], room = 0.03 * length(usual);
      this.set(steps[usual][0] - room, steps[usual + 4][0] + room);
    } else {
      this.set(...this.bounds());
    }
  }

  /// Sets the view, within what there is.
  set(from, until) {
    const [first, last] = this.bounds();
    const whole = Math.max(last - first, SHORTEST_VIEW);
    const length = Math.min(Math.max(until - from, SHORTEST_VIEW), whole);
    from += (until - from - length) / 2;
    from = Math.min(Math.max(from, first), first + whole - length);
    this.from = from;
    this.until = from + length;
    this.draw();
  }

  /// Zooms around a moment. Says whether anything changed.
  zoom(factor, around = (this.from + this.until) / 2) {
    const { from, until } = this;
    this.set(around + (from - around) * factor, around + (until - around) * factor);
    return Math.abs(this.until - this.from - (until - from)) > 1e-9 * (until - from);
  }

  pan(share) {
    const by = share * (this.until - this.from);
    this.set(this.from + by, this.until + by);
  }

  scrollTo(offset) {
    const most = Math.max(0, this.data.rows.length * this.rowHeight - (this.height - AXIS));
    const before = this.scroll;
    this.scroll = Math.min(Math.max(offset, 0), most);
    this.draw();
    return this.scroll !== before;
  }

  setRowHeight(height) {
    const middle = (this.scroll + (this.height - AXIS) / 2) / this.rowHeight;
    this.rowHeight = Math.round(Math.min(Math.max(height, SHORTEST_ROW), TALLEST_ROW));
    this.resize();
    this.scrollTo(middle * this.rowHeight - (this.height - AXIS) / 2);
  }

  view() {
    const { from, until, rowHeight, scroll } = this;
    return { from, until, rowHeight, scroll, rows: this.data.rows.length };
  }

  // ---- From moments to pixels and back

  scale() {
    return (this.width - this.gutter) / (this.until - this.from);
  }

  xOf(time) {
    return this.gutter + (time - this.from) * this.scale();
  }

  timeAt(x) {
    return this.from + (x - this.gutter) / this.scale();
  }

  /// The slice at a point of the chart: of those within a pixel, the one that covers most of it.
  hitAt(x, y) {
    const at = Math.floor((y - AXIS + this.scroll) / this.rowHeight);
    const row = this.data.rows[at];
    if (!row || x < this.gutter || y < AXIS || x > this.width || y > this.height) return null;
    const half = 0.5 / this.scale();
    const from = this.timeAt(x) - half, until = this.timeAt(x) + half;
    let best = null, most = 0, n = 0;
    for (let i = sliceAt(row, from); i < row.n && row.start[i] < until; i++) {
      n += 1;
      const overlap = Math.min(row.end[i], until) - Math.max(row.start[i], from);
      if (overlap > most) { most = overlap; best = i; }
    }
    if (best === null) return null;
    return { row: at, slice: best, nOthers: n - 1, ...describe(this.data, row, best) };
  }

  // ---- Drawing

  recolour() {
    const { tasks, reasons } = this.data;
    const is = kind => this.highlighted === null || this.highlighted === kind;
    const rgb = kind => is(kind) ? channels(cssColour(kind)) : faded(channels(cssColour(kind)));
    this.colours = {
      tasks: Array.from(tasks.rank, rank => rgb(`task:${rank}`)),
      idle: reasons.map((_, reason) => rgb(`idle:${reason}`)),
      pale: reasons.map((_, reason) => faded(rgb(`idle:${reason}`), this.highlighted === null ? 0.45 : 1)),
    };
    this.draw();
  }

  highlight(kind) {
    this.highlighted = kind;
    this.recolour();
  }

  resize() {
    const rows = this.data.rows.length * this.rowHeight + AXIS + 8;
    this.height = Math.max(CHART_MIN, Math.min(rows, CHART_MAX + 8));
    this.canvas.style.height = `${this.height}px`;
    this.width = Math.max(this.canvas.clientWidth, this.gutter + 40);
    this.ratio = devicePixelRatio || 1;
    for (const [canvas, height] of [[this.canvas, this.height], [this.overview, 44]]) {
      canvas.width = Math.round(this.width * this.ratio);
      canvas.height = Math.round(height * this.ratio);
    }
    this.raster = null;
    this.scrollTo(this.scroll);
  }

  /// Asks for a new picture with the next frame.
  draw() {
    if (this.isAsked || !this.context || this.from === undefined) return;
    this.isAsked = true;
    requestAnimationFrame(() => {
      this.isAsked = false;
      const begin = performance.now();
      this.paint();
      this.paints.push(performance.now() - begin);
      if (this.paints.length > 600) this.paints.shift();
    });
  }

  paint() {
    if (!this.width) return;
    const { context, ratio, width, height, gutter, rowHeight, scroll } = this;
    const { rows } = this.data;
    const [pixels, lines] = [Math.round((width - gutter) * ratio), Math.round((height - AXIS) * ratio)];
    this.raster ??= new Raster(pixels, lines);
    const base = channels(palette.card), striped = channels(palette.row);
    this.raster.clear(base);
    const firstRow = Math.floor(scroll / rowHeight), lastRow = Math.ceil((scroll + height - AXIS) / rowHeight);
    const gap = rowHeight >= 16 ? 3 : rowHeight >= 6 ? 1 : 0;
    for (let at = firstRow; at < Math.min(lastRow, rows.length); at++) {
      const top = Math.round((at * rowHeight - scroll + gap) * ratio), bottom = Math.round(((at + 1) * rowHeight - scroll - gap) * ratio);
      this.raster.row(rows[at], this.colours, rowHeight >= 8 ? striped : base, this.from, this.scale() * ratio, top, bottom);
    }
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.fillStyle = palette.card;
    context.fillRect(0, 0, this.canvas.width, this.canvas.height);
    context.putImageData(this.raster.image, Math.round(gutter * ratio), Math.round(AXIS * ratio));
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.font = FONT;
    context.textBaseline = "middle";
    this.paintNames(firstRow, lastRow);
    if (rowHeight >= 18) this.paintLabels(firstRow, lastRow, gap);
    this.paintAxis();
    this.paintHovered(gap);
    this.paintScrollbar();
    this.paintOverview();
    const shown = `${moment(Math.max(this.from, 0))} to ${moment(this.until)}, ${duration(this.until - this.from)} in view`;
    if (this.range.textContent !== shown) this.range.textContent = shown;
  }

  paintNames(firstRow, lastRow) {
    const { context, rowHeight, scroll, height } = this;
    context.save();
    context.beginPath();
    context.rect(0, AXIS, this.gutter, height - AXIS);
    context.clip();
    context.fillStyle = palette.soft;
    context.textAlign = "right";
    // Where rows are too low, every second, fifth, tenth … is named.
    const every = [1, 2, 5, 10, 20, 50].find(every => every * rowHeight >= 13) ?? 100;
    for (let at = firstRow; at < Math.min(lastRow, this.data.rows.length); at++) {
      if (at % every !== 0) continue;
      const y = AXIS + at * rowHeight - scroll + (every > 1 ? 7 : rowHeight / 2);
      context.fillText(this.data.rows[at].name, this.gutter - 12, y, this.gutter - 16);
    }
    context.restore();
  }

  /// Names of codelets in slices that are wide enough for them.
  paintLabels(firstRow, lastRow, gap) {
    const { context, rowHeight, scroll, data } = this;
    context.save();
    context.beginPath();
    context.rect(this.gutter, AXIS, this.width - this.gutter, this.height - AXIS);
    context.clip();
    context.textAlign = "left";
    this.textWidths ??= new Map();
    const shortest = 30 / this.scale();
    for (let at = firstRow; at < Math.min(lastRow, data.rows.length); at++) {
      const row = data.rows[at], y = AXIS + (at + 0.5) * rowHeight - scroll;
      for (let i = sliceAt(row, this.from); i < row.n && row.start[i] < this.until; i++) {
        if (row.kind[i] < 0 || row.end[i] - row.start[i] < shortest) continue;
        const rank = data.tasks.rank[row.kind[i]], kind = `task:${rank}`, name = data.codelets[rank];
        if (this.highlighted !== null && this.highlighted !== kind) continue;
        const left = Math.max(this.xOf(row.start[i]), this.gutter) + 6, room = Math.min(this.xOf(row.end[i]), this.width) - 5 - left;
        if (!this.textWidths.has(name)) this.textWidths.set(name, context.measureText(name).width);
        const full = this.textWidths.get(name);
        const n = full <= room ? name.length : Math.floor(name.length * room / full) - 1;
        if (n < 3 && n < name.length) continue;
        context.fillStyle = inkOn(cssColour(kind));
        context.fillText(n < name.length ? `${name.slice(0, n)}…` : name, left, y);
      }
    }
    context.restore();
  }

  paintAxis() {
    const { context, width, height, gutter, data } = this;
    context.fillStyle = palette.card;
    context.fillRect(0, 0, width, AXIS);
    context.save();
    context.beginPath();
    context.rect(gutter, 0, width - gutter, height);
    context.clip();
    context.lineWidth = 1;
    context.textAlign = "left";
    const { values, step } = ticks(this.from, this.until, (width - gutter) / 110);
    const digits = Math.max(1, Math.ceil(Math.log10(Math.max(Math.abs(this.until), 1) / step)) + 1);
    context.fillStyle = palette.soft;
    context.strokeStyle = palette.strong;
    context.beginPath();
    for (const value of values) {
      const x = Math.round(this.xOf(value)) + 0.5;
      context.moveTo(x, AXIS - 6);
      context.lineTo(x, AXIS);
      const text = value === 0 ? "0" : duration(value, digits);
      if (x + 4 + context.measureText(text).width < width - 4) context.fillText(text, x + 4, AXIS - 8);
    }
    context.moveTo(gutter, AXIS - 0.5);
    context.lineTo(width, AXIS - 0.5);
    context.stroke();
    // Where steps begin, as long as they can be told apart.
    const { steps } = data;
    const near = steps.length > 1 ? (steps[steps.length - 1][0] - steps[0][0]) / (steps.length - 1) * this.scale() : Infinity;
    if (near >= 7) {
      const from = steps.findIndex(([time]) => time >= this.from);
      context.strokeStyle = palette.text;
      context.setLineDash([2, 3]);
      context.globalAlpha = 0.55;
      context.beginPath();
      for (let i = from; i >= 0 && i < steps.length && steps[i][0] <= this.until; i++) {
        const x = Math.round(this.xOf(steps[i][0])) + 0.5;
        context.moveTo(x, 4);
        context.lineTo(x, height);
      }
      context.stroke();
      context.setLineDash([]);
      context.globalAlpha = 1;
      context.fillStyle = palette.text;
      let free = gutter;
      for (let i = Math.max(from - 1, 0); i < steps.length && steps[i][0] <= this.until; i++) {
        const text = `step ${steps[i][1].toLocaleString("en")}`, x = Math.max(this.xOf(steps[i][0]), gutter) + 4;
        const isCut = i + 1 < steps.length && this.xOf(steps[i + 1][0]) - x < context.measureText(text).width + 4;
        const right = x + context.measureText(text).width;
        if (x < free || right > width - 4 || (steps[i][0] < this.from && isCut)) continue;
        context.fillText(text, x, 11);
        free = right + 14;
      }
    }
    context.restore();
  }

  paintHovered(gap) {
    if (!this.hovered) return;
    const { context, rowHeight, scroll } = this;
    const row = this.data.rows[this.hovered.row], i = this.hovered.slice;
    const left = Math.max(this.xOf(row.start[i]), this.gutter), right = Math.min(this.xOf(row.end[i]), this.width);
    const top = AXIS + this.hovered.row * rowHeight - scroll + gap;
    if (right < left || top < AXIS) return;
    context.strokeStyle = palette.text;
    context.lineWidth = 2;
    context.strokeRect(left, top, Math.max(right - left, 1), rowHeight - 2 * gap);
  }

  paintScrollbar() {
    const { context, width, height, scroll } = this;
    const whole = this.data.rows.length * this.rowHeight, seen = height - AXIS;
    if (whole <= seen + 1) return;
    context.fillStyle = palette.soft;
    context.globalAlpha = 0.5;
    context.fillRect(width - 6, AXIS + seen * scroll / whole, 4, Math.max(24, seen * seen / whole));
    context.globalAlpha = 1;
  }

  /// Share of workers in kernels in each of `n` parts of the trace.
  busy(n) {
    const [first, last] = this.bounds();
    const share = new Float32Array(n), part = (last - first) / n;
    const workers = this.data.rows.filter(row => row.isWorker);
    for (const row of workers) {
      for (let i = 0; i < row.n; i++) {
        if (row.kind[i] < 0) continue;
        const left = (row.start[i] - first) / part, right = (row.end[i] - first) / part;
        for (let at = Math.max(0, Math.floor(left)); at < Math.min(right, n); at++) {
          share[at] += Math.min(right, at + 1) - Math.max(left, at);
        }
      }
    }
    return share.map(value => value / Math.max(workers.length, 1));
  }

  paintOverview() {
    const context = this.overview.getContext("2d"), { ratio, width, gutter, useful } = this;
    const [first, last] = this.bounds(), room = width - gutter, top = 6, bottom = 40;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = palette.card;
    context.fillRect(0, 0, width, 44);
    context.font = FONT;
    context.textBaseline = "middle";
    context.textAlign = "right";
    context.fillStyle = palette.soft;
    context.fillText("in kernels", gutter - 12, 23, gutter - 16);
    context.beginPath();
    context.moveTo(gutter, bottom);
    useful.forEach((share, i) => {
      const y = bottom - Math.min(share, 1) * (bottom - top);
      context.lineTo(gutter + room * i / useful.length, y);
      context.lineTo(gutter + room * (i + 1) / useful.length, y);
    });
    context.lineTo(width, bottom);
    context.fillStyle = palette.strong;
    context.fill();
    const x = time => gutter + room * (time - first) / (last - first);
    const left = x(this.from), right = Math.max(x(this.until), left + 3);
    context.fillStyle = palette.accent;
    context.globalAlpha = 0.16;
    context.fillRect(left, 2, right - left, 40);
    context.globalAlpha = 1;
    context.strokeStyle = palette.accent;
    context.strokeRect(left + 0.5, 2.5, Math.max(right - left - 1, 2), 39);
  }

  // ---- Mouse and keys

  listen() {
    const { canvas, overview } = this;
    const inside = event => {
      const { left, top } = canvas.getBoundingClientRect();
      return [event.clientX - left, event.clientY - top];
    };
    canvas.addEventListener("wheel", event => {
      const [x] = inside(event);
      const lines = event.deltaMode === 1 ? 16 : 1;
      const [dx, dy] = [event.deltaX * lines, event.deltaY * lines];
      let isUsed = true;
      if (event.altKey) this.setRowHeight(this.rowHeight * Math.exp(-dy / 300));
      else if (x < this.gutter) isUsed = this.scrollTo(this.scroll + dy);
      else if (event.shiftKey || Math.abs(dx) > Math.abs(dy)) this.pan((dx || dy) / (this.width - this.gutter));
      else isUsed = this.zoom(Math.exp(dy / 400), this.timeAt(x));
      // What the chart has no use for scrolls the page.
      if (isUsed) event.preventDefault();
      this.hover(event);
    }, { passive: false });
    canvas.addEventListener("pointerdown", event => {
      if (event.button !== 0) return;
      this.pointer = { x: event.clientX, y: event.clientY };
      canvas.setPointerCapture(event.pointerId);
      canvas.classList.add("dragging");
    });
    canvas.addEventListener("pointermove", event => {
      if (this.pointer) {
        this.pan((this.pointer.x - event.clientX) / (this.width - this.gutter));
        this.scrollTo(this.scroll + this.pointer.y - event.clientY);
        this.pointer = { x: event.clientX, y: event.clientY };
      }
      this.hover(event);
    });
    for (const name of ["pointerup", "pointercancel"]) {
      canvas.addEventListener(name, () => {
        this.pointer = null;
        canvas.classList.remove("dragging");
      });
    }
    canvas.addEventListener("pointerleave", () => this.hover(null));
    canvas.addEventListener("keydown", event => {
      const action = { "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", ArrowUp: "up", ArrowDown: "down",
        "0": "all", Home: "all", "[": "shorter", "]": "taller" }[event.key];
      if (!action || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      this.act(action);
    });
    const moveTo = event => {
      if (!(event.buttons & 1)) return;
      const { left } = overview.getBoundingClientRect(), [first, last] = this.bounds();
      const middle = first + (event.clientX - left - this.gutter) / (this.width - this.gutter) * (last - first);
      const half = (this.until - this.from) / 2;
      this.set(middle - half, middle + half);
    };
    overview.addEventListener("pointerdown", event => { overview.setPointerCapture(event.pointerId); moveTo(event); });
    overview.addEventListener("pointermove", moveTo);
    this.inside = inside;
  }

  /// What buttons and keys do.
  act(action) {
    const actions = {
      in: () => this.zoom(1 / 1.5), out: () => this.zoom(1.5),
      left: () => this.pan(-0.2), right: () => this.pan(0.2),
      up: () => this.scrollTo(this.scroll - 3 * this.rowHeight), down: () => this.scrollTo(this.scroll + 3 * this.rowHeight),
      taller: () => this.setRowHeight(Math.max(this.rowHeight * 1.4, this.rowHeight + 1)),
      shorter: () => this.setRowHeight(Math.min(this.rowHeight / 1.4, this.rowHeight - 1)),
      all: () => this.showAll(),
    };
    this.hover(null);
    actions[action]?.();
  }

  /// Shows what is under the mouse.
  hover(event) {
    const hit = event ? this.hitAt(...this.inside(event)) : null;
    const same = (a, b) => a === b || (a && b && a.row === b.row && a.slice === b.slice);
    if (!same(hit, this.hovered)) this.draw();
    this.hovered = hit;
    if (!hit) return tooltip.hide();
    const note = hit.nOthers > 0 ? `and ${count(hit.nOthers, "other")} in this pixel: zoom in` : "";
    tooltip.show(event.clientX, event.clientY, [swatch(hit.colour, !hit.isTask), hit.title], hit.pairs, note);
  }
}
