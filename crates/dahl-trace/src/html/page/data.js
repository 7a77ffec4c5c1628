// From the columns of the file to what is drawn: rows of slices, in order, without holes.

const OVERHEAD = 5, TRANSFER = 3;

/// A row: `start`, `end` in nanoseconds; `kind` is a task, or −1 − a reason; `extra` as in the file, but whole steps.
function decodeRow(raw) {
  const n = raw.k.length;
  const isWorker = raw.name !== "program";
  let nGaps = 0;
  for (let i = 1; i < n; i++) nGaps += isWorker && raw.g[i] > 0 ? 1 : 0;
  const row = {
    name: raw.name, detail: raw.detail, dropped: raw.dropped, isWorker, n: n + nGaps,
    start: new Float64Array(n + nGaps), end: new Float64Array(n + nGaps),
    kind: new Int32Array(n + nGaps), extra: new Float64Array(n + nGaps),
    marks: [], nTasks: 0,
  };
  let at = 0, end = 0, step = 0, newest = -1;
  const push = (start, stop, kind, extra) => {
    row.start[at] = start; row.end[at] = stop; row.kind[at] = kind; row.extra[at] = extra;
    at += 1;
  };
  for (let i = 0; i < n; i++) {
    const start = Math.max(end + raw.g[i], end);
    if (i > 0 && isWorker && raw.g[i] > 0) push(end, start, -1 - OVERHEAD, 0);
    end = start + raw.d[i];
    let extra = raw.x[i];
    if (raw.k[i] >= 0) {
      step += extra;
      extra = step;
      row.nTasks += 1;
      if (step > newest) { row.marks.push([start, step]); newest = step; }
    }
    push(start, end, raw.k[i], extra);
  }
  return row;
}

/// Everything, with codelets in order of the time they took.
function decode(raw) {
  const { tasks, transfers } = raw;
  const rows = raw.rows.map(decodeRow);
  const spent = tasks.codelets.map(() => 0);
  for (const row of rows) {
    for (let i = 0; i < row.n; i++) {
      if (row.kind[i] >= 0) spent[tasks.codelet[row.kind[i]]] += row.end[i] - row.start[i];
    }
  }
  const order = spent.map((_, i) => i).sort((a, b) => spent[b] - spent[a] || a - b);
  const rank = spent.map(() => 0);
  order.forEach((codelet, i) => { rank[codelet] = i; });
  tasks.rank = tasks.codelet.map(codelet => rank[codelet]);

  let first = Infinity, last = -Infinity;
  const steps = new Map();
  for (const row of rows) {
    if (row.n === 0) continue;
    first = Math.min(first, row.start[0]);
    last = Math.max(last, row.end[row.n - 1]);
    for (const [time, step] of row.marks) steps.set(step, Math.min(steps.get(step) ?? Infinity, time));
  }
  return {
    ...raw, nComplete: raw.steps, rows, tasks, transfers, first, last,
    codelets: order.map(codelet => tasks.codelets[codelet]),
    steps: [...steps].map(([step, time]) => [time, step]).sort((a, b) => a[0] - b[0]),
    nTasks: rows.reduce((sum, row) => sum + row.nTasks, 0),
    isEmpty: !(last > first),
  };
}

/// The first slice of a row that ends after a moment.
function sliceAt(row, time) {
  let low = 0, high = row.n;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (row.end[middle] > time) high = middle; else low = middle + 1;
  }
  return low;
}

const taskName = (tasks, task) => {
  const tiles = tasks.tiles[task];
  const name = tasks.codelets[tasks.codelet[task]];
  return tiles > 1 ? `${name}, tile ${tasks.tile[task] + 1} of ${tiles}` : name;
};

/// A layer by its number: the names of its scopes, as `conv1+relu1`; empty if nobody said.
const layerName = (tasks, layer) => tasks.layers[layer].map(scope => tasks.scopes[scope]).join("+");

/// What a slice is, in words: a title, pairs of label and text, and its colour.
function describe(data, row, i) {
  const { tasks, transfers } = data;
  const kind = row.kind[i], start = row.start[i], took = row.end[i] - start;
  const times = [["start", moment(start)], ["duration", duration(took, 4)]];
  if (kind >= 0) {
    const rate = (amount, unit) => amount > 0 && took > 0 ? `${significant(amount / took)} ${unit}` : "–";
    const layer = layerName(tasks, tasks.layer[kind]);
    const pairs = [
      ...(layer ? [["layer", layer]] : []),
      ["implementation", tasks.implementations[tasks.implementation[kind]] || "–"],
      ["tile", `${tasks.tile[kind] + 1} of ${tasks.tiles[kind]}`],
      ["step", row.extra[i].toLocaleString("en")],
      ...times,
      ["compute", rate(tasks.flops[kind], "GFLOP/s")],
      ["memory", rate(tasks.bytes[kind], "GB/s")],
      ["on", row.name],
    ];
    const dtype = tasks.dtypes[tasks.dtype[kind]], shapes = tasks.footprints[tasks.footprint[kind]], line = tasks.lines[tasks.line[kind]];
    if (dtype) pairs.push(["data", `${dtype}, ${tasks.cold[kind] ? "not in the cache" : "in the cache"} by plan`]);
    if (shapes) pairs.push(["shapes", shapes]);
    if (line) pairs.push(["recorded at", line]);
    return { title: tasks.codelets[tasks.codelet[kind]], pairs, colour: `task:${tasks.rank[kind]}`, isTask: true };
  }
  const reason = -1 - kind;
  const pairs = [...times, ["on", row.name]];
  if (reason === TRANSFER && row.extra[i] > 0) {
    const copy = row.extra[i] - 1, block = transfers.block[copy];
    const memory = id => data.memories[id] ?? `memory ${id}`;
    pairs.push(["data", transfers.names[block] || "–"], ["size", bytesText(transfers.bytes[block])],
      ["from", memory(transfers.from[copy])], ["to", memory(transfers.to[copy])], ["step", transfers.step[copy].toLocaleString("en")]);
    return { title: "copy", pairs, colour: `idle:${reason}`, isTask: false };
  }
  if (reason !== TRANSFER && row.extra[i] > 0) pairs.push(["waited for", taskName(tasks, row.extra[i] - 1)]);
  let next = i + 1;
  while (next < row.n && row.kind[next] < 0) next += 1;
  if (next < row.n) pairs.push(["before", taskName(tasks, row.kind[next])]);
  return { title: `idle: ${data.reasons[reason]}`, pairs, colour: `idle:${reason}`, isTask: false };
}
