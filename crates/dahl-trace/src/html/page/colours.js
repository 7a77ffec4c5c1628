// Colours by what is shown. Hues differ also for those who see fewer of them, and in lightness; gaps are drawn lower than
// executions, so that nothing depends on colour alone.

const PALETTES = {
  light: {
    tasks: ["#3b6fd4", "#d98324", "#2a9d8f", "#b5477c", "#8aa62f", "#6b4fb3", "#4fa9d8", "#c4543f", "#1f6f54", "#d9b23c",
      "#8d6748", "#94a8dd", "#eeb98a", "#8fcdc4", "#dc9fc0", "#b9a8e0"],
    // Dependency, nothing ready, memory edge, transfer, not released, overhead.
    idle: ["#e06666", "#f0ad4e", "#a64ca6", "#2f86a6", "#8d97a5", "#c9cfd8"],
    others: "#7d8593", card: "#ffffff", text: "#1b1f27", soft: "#5b6472", line: "#e1e4e9", strong: "#c5cad3", accent: "#2456c7", row: "#f3f4f7",
  },
  dark: {
    tasks: ["#6f9bf2", "#eba04c", "#45bfae", "#d9719f", "#a9c653", "#9a80e0", "#7fcbf2", "#e37a64", "#4aa882", "#ecd06b",
      "#b58b68", "#4f66a8", "#a06f3c", "#3b7d74", "#93486f", "#65559c"],
    idle: ["#d45757", "#c98a2c", "#b565b5", "#3f9cbf", "#737d8c", "#48505d"],
    others: "#8b94a3", card: "#181c23", text: "#e7eaf0", soft: "#9aa4b3", line: "#2a303a", strong: "#414957", accent: "#8fb1ff", row: "#1e232c",
  },
};

let palette = PALETTES.light;

/// The colour of a kind: `task:0` (a codelet by its rank), `idle:3` (a reason), or a name.
function cssColour(kind) {
  const [what, number] = kind.split(":");
  // What takes least of the time shares a grey.
  if (what === "task") return palette.tasks[number] ?? palette.others;
  if (what === "idle") return palette.idle[number % palette.idle.length];
  return palette[what];
}

/// Red, green and blue of a colour that is written as six digits.
function channels(colour) {
  const value = parseInt(colour.slice(1), 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
}

/// Black or white, whichever is better to read on a colour.
function inkOn(colour) {
  const [r, g, b] = channels(colour).map(channel => (channel / 255) ** 2.2);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.3 ? "#14181f" : "#ffffff";
}

/// A colour mixed with the background, for what should not catch the eye.
function faded(rgb, share = 0.16) {
  const base = channels(palette.card);
  return rgb.map((channel, i) => base[i] + share * (channel - base[i]));
}
