// How to read the diagram: every sign of it, with its words.

import { h, s, swap } from "./dom.js";
import { chip, sign, tear } from "./shapes.js";

const geo = { narrow: false };

const picture = (...children) => s("svg", { class: "diagram", width: 44, height: 26, viewBox: "0 0 44 26", "aria-hidden": "true", focusable: "false" }, children);

export function show(el) {
  const item = (image, title, text) => h("li", {}, image, h("span", {}, h("b", { text: title }), ` ${text}`));
  const hatch = s("pattern", { id: "hatch-legend", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    s("rect", { class: "hatch-ground", width: 6, height: 6 }), s("line", { class: "hatch-line", x1: 0, y1: 0, x2: 0, y2: 6 }));
  swap(el,
    item(picture(s("g", { class: "mark" }, s("polygon", { class: "known", points: "4,22 16,22 16,12 30,12 30,2 4,2" }), s("path", { class: "stair", d: "M16 24v-12h14v-10" }))),
      "The store's mark", "is the highest token the store has seen. It only rises. Whatever is older than it is refused. Dashed: its holder has retired it. Thin: nobody checks it."),
    item(picture(s("g", { class: "band A" }, s("rect", { class: "lease-room", x: 14, y: 2, width: 16, height: 22 }), s("polygon", { class: "lease", points: "30,2 14,2 30,24" }))),
      "A lease", "is a band that grows thin as its time runs out."),
    item(picture(hatch, s("rect", { class: "paused", x: 15, y: 2, width: 14, height: 22, rx: 3, fill: "url(#hatch-legend)" })), "A pause:", "the client is stopped, and does not know it."),
    item(picture(chip(geo, 22, 13, "33", "A")), "A token", "travels with a request."),
    item(picture(sign("good", 22, 13, 9.5)), "Accepted", "by the store."),
    item(picture(sign("bad", 22, 13, 9.5)), "Refused", "by the store: nothing was written."),
    item(picture(sign("unknown", 22, 13, 9)), "No answer,", "or none that can be relied on."),
    item(picture(tear(3, 41, 13)), "Damage:", "an update was lost, or a task was left half done."));
}
