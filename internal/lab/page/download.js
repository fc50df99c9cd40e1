// What can be taken away: the diagram as a picture, the run as a trace file.

import { draw } from "./diagram.js";
import { h, s } from "./dom.js";
import { fileOf } from "./tracefile.js";

// What style.css says of a shape, and a picture has to say by itself.
const PROPERTIES = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-linejoin", "opacity",
  "paint-order", "font-family", "font-weight"];

function save(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = h("a", { href: url, download: name, hidden: true });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

const fileName = (name, ending) => `fencegate-${name.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 60) || "lab"}.${ending}`;

// picture returns a self-contained SVG of a view, in the light theme whatever the page shows.
export function picture(view) {
  const { svg } = draw({ ...view, heads: true, selected: undefined, onSelect: undefined, testids: false }, 860);
  const frame = h("div", { class: "off-screen", "data-theme": "light", "aria-hidden": "true" }, svg);
  document.body.append(frame);
  const elements = [...svg.querySelectorAll("*")];
  const looks = elements.map((el) => {
    const style = getComputedStyle(el);
    // A reference to a pattern comes back with the page's address in it: that attribute stays as it is.
    return PROPERTIES.map((p) => [p, style.getPropertyValue(p)]).filter(([, value]) => value && !value.startsWith("url("));
  });
  elements.forEach((el, i) => {
    for (const [p, value] of looks[i]) el.setAttribute(p, value);
    el.removeAttribute("class"); // not before all looks are taken: they follow from the classes above, too
  });
  frame.remove();
  svg.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  svg.setAttribute("role", "img");
  svg.removeAttribute("class");
  svg.prepend(s("title", { text: view.name }));
  return new XMLSerializer().serializeToString(svg);
}

export function saveSVG(view, name) {
  save(fileName(name, "svg"), "image/svg+xml", picture(view));
}

export function saveJSON(source) {
  const run = { name: fileName(source.name, "").slice(10, -1), title: source.name, mode: source.mode, account: source.account(), events: source.events };
  save(fileName(source.name, "json"), "application/json", JSON.stringify(fileOf(source.lock, source.store, [run]), null, 2));
}
