// Codelets and layers, and how the workers’ time was spent, in tables and bars.

/// Counts, times and rates of executions by the class of their task, of which there are `n`.
function statsBy(data, n, classOf) {
  const { tasks } = data;
  const stats = Array.from({ length: n }, (_, order) => (
    { order, durations: [], total: 0, flops: 0, bytes: 0, implementations: new Set(), spent: data.codelets.map(() => 0) }));
  for (const row of data.rows) {
    for (let i = 0; i < row.n; i++) {
      const task = row.kind[i];
      if (task < 0) continue;
      const took = row.end[i] - row.start[i], stat = stats[classOf(task)];
      stat.durations.push(took);
      stat.total += took;
      stat.flops += tasks.flops[task] ?? 0;
      stat.bytes += tasks.bytes[task] ?? 0;
      stat.implementations.add(tasks.implementations[tasks.implementation[task]]);
      stat.spent[tasks.rank[task]] += took;
    }
  }
  const all = stats.reduce((sum, stat) => sum + stat.total, 0);
  return stats.filter(stat => stat.durations.length > 0).map(stat => {
    const sorted = Float64Array.from(stat.durations).sort(), n = sorted.length;
    return {
      ...stat, n, share: stat.total / all, mean: stat.total / n, median: (sorted[(n - 1) >> 1] + sorted[n >> 1]) / 2,
      gflops: stat.flops / stat.total, gbytes: stat.bytes / stat.total,
      // Codelets with their shares, largest first, which is the order of their ranks.
      parts: stat.spent.map((took, rank) => ({ rank, name: data.codelets[rank], share: took / all })).filter(part => part.share > 0),
    };
  });
}

const codeletBar = (rank, share, title) =>
  element("b", { title, "data-colour": `task:${rank}`, style: { width: `${100 * share}%`, background: cssColour(`task:${rank}`) } });

const COUNT = ["Count", stat => stat.n, stat => stat.n.toLocaleString("en")];
const TOTAL = ["Total", stat => stat.total, stat => duration(stat.total, 3, true)];
const RATES = [
  ["GFLOP/s", stat => stat.gflops, stat => stat.flops > 0 ? significant(stat.gflops, 3, true) : "–"],
  ["GB/s", stat => stat.gbytes, stat => stat.bytes > 0 ? significant(stat.gbytes, 3, true) : "–"],
];

/// Columns: heading, what is sorted by, what is shown, and a class. The third is the share.
const CODELET_COLUMNS = [
  ["Codelet", stat => stat.name, stat => element("span", { class: "named" }, swatch(`task:${stat.order}`), stat.name)],
  ["Implementation", stat => [...stat.implementations].join(", "), stat => [...stat.implementations].join(", "), "words"],
  ["Share of kernels", stat => stat.share, stat => element("span", { class: "share" },
    element("i", {}, codeletBar(stat.order, stat.share)), element("span", {}, percent(stat.share)))],
  COUNT,
  TOTAL,
  ["Mean", stat => stat.mean, stat => duration(stat.mean, 3, true)],
  ["Median", stat => stat.median, stat => duration(stat.median, 3, true)],
  ...RATES,
];

const LAYER_COLUMNS = [
  // In the order of the network.
  ["Layer", stat => stat.order, stat => element("span", { class: "named", title: stat.name }, stat.shown)],
  ["Codelets", stat => stat.codelets, stat => stat.codelets, "words"],
  ["Share of kernels", stat => stat.share, stat => element("span", { class: "share parts" },
    element("i", {}, stat.parts.map(part => codeletBar(part.rank, part.share, `${part.name} ${percent(part.share)}`))),
    element("span", {}, percent(stat.share)))],
  COUNT,
  TOTAL,
  ...RATES,
];

function codeletTable(host, data) {
  const stats = statsBy(data, data.codelets.length, task => data.tasks.rank[task]);
  sortedTable(host, "Codelets", CODELET_COLUMNS, stats.map(stat => ({ ...stat, name: data.codelets[stat.order] })));
}

/// Characters of a layer's name that are shown.
const LONGEST_NAME = 40;

/// The table of layers, if there are any.
function layerTable(section, data) {
  const { tasks } = data;
  if (!tasks.layers.some(scopes => scopes.length > 0)) return;
  const before = (a, b) => {
    const at = a.findIndex((scope, i) => scope !== b[i]);
    return at < 0 ? a.length - b.length : a[at] - (b[at] ?? -1);
  };
  const order = tasks.layers.map((_, layer) => layer).sort((a, b) => before(tasks.layers[a], tasks.layers[b]));
  const place = order.map(() => 0);
  order.forEach((layer, i) => { place[layer] = i; });
  const stats = statsBy(data, order.length, task => place[tasks.layer[task]]).map(stat => {
    const scopes = tasks.layers[order[stat.order]], name = layerName(tasks, order[stat.order]) || "–";
    const [first, last] = [scopes[0], scopes[scopes.length - 1]].map(scope => tasks.scopes[scope]);
    const isLong = name.length > LONGEST_NAME && scopes.length > 2;
    return { ...stat, name, shown: isLong ? `${first}+…+${last} (${scopes.length})` : name, codelets: stat.parts.map(part => part.name).join(", ") };
  });
  sortedTable(section.querySelector(".card"), "Layers", LAYER_COLUMNS, stats);
  section.hidden = false;
}

/// A table that is sorted by whatever heading is clicked, at first by share.
function sortedTable(host, label, columns, stats) {
  const body = element("tbody", {});
  const headings = columns.map(([text, , , words], i) =>
    element("th", { scope: "col", class: words }, element("button", { type: "button", onclick: () => sort(i) }, text)));
  let by = 2, isDown = true;
  const fillRows = () => {
    const value = columns[by][1];
    const compare = (a, b) => typeof a === "string" ? a.localeCompare(b) : (a || 0) - (b || 0);
    stats.sort((a, b) => (isDown ? -1 : 1) * compare(value(a), value(b)) || a.order - b.order);
    body.replaceChildren(...stats.map(stat =>
      element("tr", {}, columns.map(([, , cell, words]) => element("td", { class: words }, cell(stat))))));
    headings.forEach((heading, i) => {
      if (i === by) heading.setAttribute("aria-sort", isDown ? "descending" : "ascending");
      else heading.removeAttribute("aria-sort");
    });
  };
  const sort = i => {
    // Names from the beginning, numbers from the largest.
    isDown = i === by ? !isDown : i > 1;
    by = i;
    fillRows();
  };
  fillRows();
  host.append(element("table", { "aria-label": label }, element("thead", {}, element("tr", {}, headings)), body));
}

/// Nanoseconds of each worker in kernels, and for each reason outside.
function spentTime(data) {
  return data.rows.filter(row => row.isWorker).map(row => {
    const idle = data.reasons.map(() => 0);
    let kernels = 0;
    for (let i = 0; i < row.n; i++) {
      const took = row.end[i] - row.start[i];
      if (row.kind[i] >= 0) kernels += took; else idle[-1 - row.kind[i]] += took;
    }
    return { name: row.name, detail: row.detail, kernels, idle, all: kernels + idle.reduce((a, b) => a + b, 0) };
  });
}

const KERNELS = "task:2";

function timeBars(data) {
  const spent = spentTime(data);
  const all = spent.reduce((sum, worker) => sum + worker.all, 0) || 1;
  const kernels = spent.reduce((sum, worker) => sum + worker.kernels, 0);
  const reasons = data.reasons.map((name, reason) => [name, `idle:${reason}`, spent.reduce((sum, worker) => sum + worker.idle[reason], 0)]);
  const entries = [["in kernels", KERNELS, kernels], ...reasons.filter(([, , took]) => took > 0).sort((a, b) => b[2] - a[2])];
  const piece = (kind, share) => element("i", { "data-colour": kind, style: { width: `${100 * share}%`, background: cssColour(kind) } });
  byId("reasons").append(...entries.map(([name, kind, took]) => element("div", { class: "bar" },
    element("span", { class: "name" }, swatch(kind, kind !== KERNELS), name),
    element("span", { class: "pieces" }, piece(kind, took / all)),
    element("span", { class: "end" }, `${percent(took / all)} · ${duration(took)}`))));
  byId("workers").append(...spent.map(worker => {
    const words = entries.map(([name, , ], i) => [name, i === 0 ? worker.kernels : worker.idle[data.reasons.indexOf(name)]]);
    const label = words.map(([name, took]) => `${name} ${percent(took / worker.all)}`).join(", ");
    const bar = element("div", { class: "bar", role: "img", "aria-label": `${worker.name}: ${label}`, tabindex: 0 },
      element("span", { class: "name", title: worker.detail }, worker.name),
      element("span", { class: "pieces" }, entries.map(([, kind], i) => piece(kind, words[i][1] / (worker.all || 1)))),
      element("span", { class: "end" }, percent(worker.kernels / worker.all)));
    const show = (x, y) => tooltip.show(x, y, [`${worker.name} (${worker.detail})`], words.map(([name, took]) => [name, `${percent(took / worker.all)}, ${duration(took)}`]));
    bar.addEventListener("pointermove", event => show(event.clientX, event.clientY));
    bar.addEventListener("focus", () => { const at = bar.getBoundingClientRect(); show(at.left + 100, at.bottom); });
    for (const name of ["pointerleave", "blur"]) bar.addEventListener(name, () => tooltip.hide());
    return bar;
  }));
  return { kernels, all };
}
