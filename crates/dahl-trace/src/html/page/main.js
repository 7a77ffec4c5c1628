// Puts the page together, keeps its theme, and offers what tests look at.

const report = JSON.parse(byId("data").textContent);
const data = decode(report.trace);
const repaints = [];
let gantt = null;

function setTheme(isDark) {
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
  palette = isDark ? PALETTES.dark : PALETTES.light;
  byId("theme").textContent = isDark ? "Light" : "Dark";
  byId("theme").setAttribute("aria-label", isDark ? "Use light colours" : "Use dark colours");
  for (const node of document.querySelectorAll("[data-colour]")) node.style.background = cssColour(node.dataset.colour);
  for (const repaint of repaints) repaint();
}

function notes() {
  const texts = [];
  if (data.dropped > 0) texts.push(`Workers remember only their newest events: ${count(data.dropped, "older one")} were dropped during the run.`);
  if (data.kept < data.events) texts.push(`This report has the newest ${data.kept.toLocaleString("en")} of ${count(data.events, "event")} in the trace.`);
  if (texts.length > 0) byId("notes").append(element("p", { class: "note" }, texts.join(" ")));
}

// Of a long run only the newest executions are here, which is no figure of the run.
function executions() {
  const all = data.events + data.dropped, text = data.nTasks.toLocaleString("en");
  return data.kept < all ? ["newest executions", `${text} of ${all.toLocaleString("en")}`] : ["executions", text];
}

function figures(spent) {
  const workers = data.rows.filter(row => row.isWorker).length;
  const own = data.isEmpty ? [] : [
    ["median step", data.nComplete > 0 ? duration(data.median_step, 3, true) : null],
    ["time in kernels", spent ? percent(spent.kernels / spent.all) : null],
    ["workers", workers.toLocaleString("en")],
    executions(),
  ];
  const all = [...report.figures, ...own.filter(([, text]) => text !== null)];
  if (all.length === 0) return;
  byId("figures").append(...all.map(pair => element("dl", { class: "figure" }, terms([pair]))));
  byId("figures").hidden = false;
}

function legend() {
  const seen = new Set();
  for (const row of data.rows) for (let i = 0; i < row.n; i++) if (row.kind[i] < 0) seen.add(-1 - row.kind[i]);
  const entries = data.codelets.map((name, rank) => [`task:${rank}`, name, false]);
  const reasons = data.reasons.map((name, reason) => [`idle:${reason}`, `idle: ${name}`, true]).filter((_, reason) => seen.has(reason));
  const buttons = [...entries, ...reasons].map(([kind, name, isIdle]) => element("button", {
    type: "button", "aria-pressed": "false",
    onclick: event => {
      const isOn = gantt.highlighted !== kind;
      for (const button of buttons) button.setAttribute("aria-pressed", String(isOn && button === event.currentTarget));
      gantt.highlight(isOn ? kind : null);
    },
  }, swatch(kind, isIdle), name));
  const [ofTasks, ofGaps] = [buttons.slice(0, entries.length), buttons.slice(entries.length)];
  byId("legend").append(element("div", {}, ofTasks), element("div", {}, ofGaps));
}

function start() {
  byId("title").textContent = report.title;
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  setTheme(prefersDark.matches);
  prefersDark.addEventListener("change", () => setTheme(prefersDark.matches));
  byId("theme").addEventListener("click", () => setTheme(document.documentElement.dataset.theme !== "dark"));
  notes();

  const plots = report.plots.filter(raw => curvePlot(document.querySelector("#curves .plots"), raw));
  byId("curves").hidden = plots.length === 0;
  const memories = report.memories.filter(raw => memoryPlot(document.querySelector("#memory .stack"), raw));
  byId("memory").hidden = memories.length === 0;
  if (report.facts.length > 0) {
    document.querySelector("#facts dl").append(...terms(report.facts));
    byId("facts").hidden = false;
  }
  let spent = null;
  if (data.isEmpty) {
    byId("timeline").querySelector(".card").replaceChildren(element("p", { class: "empty" }, "There is nothing in this trace."));
    for (const node of document.querySelectorAll("#keys, #timeline .buttons, #codelets, #idle")) node.hidden = true;
  } else {
    gantt = new Gantt(data, byId("gantt"), byId("overview"), byId("range"));
    repaints.push(() => gantt.recolour());
    for (const button of document.querySelectorAll("[data-do]")) button.addEventListener("click", () => gantt.act(button.dataset.do));
    legend();
    codeletTable(document.querySelector("#codelets .card"), data);
    layerTable(byId("layers"), data);
    spent = timeBars(data);
  }
  figures(spent);
  addEventListener("scroll", () => tooltip.hide(), { passive: true });
  addEventListener("keydown", event => { if (event.key === "Escape") tooltip.hide(); });
  // Paper is white.
  let before = null;
  addEventListener("beforeprint", () => { before = document.documentElement.dataset.theme; setTheme(false); gantt?.paint(); });
  addEventListener("afterprint", () => setTheme(before === "dark"));
}

start();

/// What tests look at; the mouse uses the same functions.
window.dahlReport = {
  view: () => gantt?.view() ?? null,
  /// The slice at a point of the window.
  hitAt: (clientX, clientY) => gantt?.hitAt(...gantt.inside({ clientX, clientY })) ?? null,
  /// The middle of a worker's i-th execution, as a point of the window, and whether it is in view.
  placeOf: (worker, i) => {
    const row = data.rows[worker], { left, top } = gantt.canvas.getBoundingClientRect();
    let at = -1;
    for (let n = -1; n < i; ) if (row.kind[++at] >= 0) n += 1;
    const x = gantt.xOf((row.start[at] + row.end[at]) / 2), y = AXIS + (worker + 0.5) * gantt.rowHeight - gantt.scroll;
    return { x: left + x, y: top + y, isInView: x >= gantt.gutter && x <= gantt.width && y >= AXIS && y <= gantt.height };
  },
  /// Milliseconds of the newest pictures.
  paints: () => [...(gantt?.paints ?? [])],
};
