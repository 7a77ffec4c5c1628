// Making elements. Text is only ever set as text, so names may contain anything.

const byId = id => document.getElementById(id);
const SVG_SPACE = byId("svg").namespaceURI;

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name === "style") Object.assign(node.style, value);
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== null) node.setAttribute(name, value);
  }
  node.append(...children.flat().filter(child => child !== null && child !== undefined));
  return node;
}

const element = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);
const shape = (name, attributes, ...children) => fill(document.createElementNS(SVG_SPACE, name), attributes, children);

/// Pairs of terms and texts.
function terms(pairs) {
  return pairs.flatMap(([term, text]) => [element("dt", {}, term), element("dd", {}, text)]);
}

/// A small square in a colour that follows the theme.
function swatch(kind, isThin = false) {
  return element("span", { class: isThin ? "swatch thin" : "swatch", "data-colour": kind, style: { background: cssColour(kind) } });
}

const tooltip = {
  node: byId("tooltip"),
  /// Shows a title with pairs of label and text beside a point of the window.
  show(x, y, title, pairs, note) {
    const parts = [element("strong", {}, title), element("dl", {}, terms(pairs))];
    if (note) parts.push(element("p", {}, note));
    this.node.replaceChildren(...parts);
    this.node.hidden = false;
    const { offsetWidth: width, offsetHeight: height } = this.node;
    const left = x + 16 + width > innerWidth - 8 ? x - 16 - width : x + 16;
    const top = Math.min(y + 16, innerHeight - height - 8);
    this.node.style.transform = `translate(${Math.max(8, left)}px, ${Math.max(8, top)}px)`;
  },
  hide() {
    this.node.hidden = true;
  },
};
