// The signs of the diagram. Each means one thing by its form, not by its colour alone: a disc with a
// tick was accepted, an octagon with a cross was refused, a diamond with a question mark has no
// answer, a torn line is a loss.

import { s } from "./dom.js";

// arrow is a line with a head.
export function arrow(x1, y1, x2, y2, cls) {
  const angle = Math.atan2(y2 - y1, x2 - x1);
  const at = (turn) => `${(x2 - 9 * Math.cos(angle + turn)).toFixed(1)},${(y2 - 9 * Math.sin(angle + turn)).toFixed(1)}`;
  return s("g", { class: `arrow ${cls}` },
    s("line", { x1, y1, x2: x2 - 5 * Math.cos(angle), y2: y2 - 5 * Math.sin(angle) }),
    s("polygon", { points: `${x2},${y2} ${at(0.42)} ${at(-0.42)}` }));
}

// sign draws one of them, of about the radius r.
export function sign(kind, x, y, r) {
  const k = (n) => (n * r) / 9;
  switch (kind) {
    case "good":
      return s("g", { class: "sign good" }, s("circle", { cx: x, cy: y, r }),
        s("path", { class: "glyph", d: `M${x - k(4)} ${y}l${k(3)} ${k(3.4)}l${k(5)} ${k(-6.6)}` }));
    case "bad": {
      const c = 0.414 * r;
      const points = [[-c, -r], [c, -r], [r, -c], [r, c], [c, r], [-c, r], [-r, c], [-r, -c]];
      return s("g", { class: "sign bad" },
        s("polygon", { points: points.map(([dx, dy]) => `${(x + dx).toFixed(1)},${(y + dy).toFixed(1)}`).join(" ") }),
        s("path", { class: "glyph", d: `M${x - k(3.6)} ${y - k(3.6)}l${k(7.2)} ${k(7.2)}m0 ${k(-7.2)}l${k(-7.2)} ${k(7.2)}` }));
    }
    case "unknown":
      return s("g", { class: "sign unknown" }, s("path", { d: `M${x} ${y - r - 2}l${r + 2} ${r + 2}l${-r - 2} ${r + 2}l${-r - 2} ${-r - 2}z` }),
        s("text", { class: "mark-of-doubt", x, y: y + 4, "text-anchor": "middle", "font-size": r + 3, text: "?" }));
    case "stop":
      return s("g", { class: "sign stop" }, s("rect", { x: x - 7, y: y - 7, width: 14, height: 14, rx: 3 }),
        s("path", { class: "glyph", d: `M${x - 2.5} ${y - 3.5}v7m5 0v-7` }));
    case "go":
      return s("g", { class: "sign go" }, s("circle", { cx: x, cy: y, r: 8 }),
        s("path", { class: "glyph fill", d: `M${x - 2.5} ${y - 4}l6.5 4l-6.5 4z` }));
    case "note": // something done to a lane, or by the lock and the store themselves
      return s("path", { class: "sign note", d: `M${x} ${y - 7}l7 7l-7 7l-7 -7z` });
    default:
      return s("circle", { class: "sign plain", cx: x, cy: y, r: r * 0.45 });
  }
}

// chip is a token's number on its way.
export function chip(geo, x, y, number, cls) {
  const size = geo.narrow ? 10.5 : 12;
  const w = number.length * (geo.narrow ? 6.4 : 7.4) + 10;
  const h = geo.narrow ? 15 : 18;
  return s("g", { class: `chip ${cls}` },
    s("rect", { x: x - w / 2, y: y - h / 2, width: w, height: h, rx: h / 2 }),
    s("text", { x, y: y + size * 0.36, "text-anchor": "middle", "font-size": size, text: number }));
}

// tear is damage: a torn line through the whole diagram.
export function tear(x1, x2, y) {
  let d = `M${x1} ${y}`;
  for (let x = x1, up = true; x + 7 <= x2; x += 7, up = !up) d += `l7 ${up ? -6 : 6}`;
  return s("g", { class: "tear" }, s("path", { d }), s("path", { class: "second", d, transform: "translate(0 5)" }));
}

// label is text with a halo, so that the lanes it crosses do not run through it.
export function label(geo, x, y, text, cls, anchor = "start") {
  return s("text", { class: `label ${cls || ""}`, x, y, "text-anchor": anchor, "font-size": geo.font, text });
}
