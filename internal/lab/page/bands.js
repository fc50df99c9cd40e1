// What lasts: lanes, pauses, leases that run out, who holds the lock, and the store's mark.

import { s } from "./dom.js";
import { plain, wedge } from "./layout.js";
import { stepX } from "./geometry.js";
import { clock } from "./labels.js";
import { label } from "./shapes.js";

// lanes are the four lines down.
export function lanes(geo, top, bottom) {
  return s("g", { class: "lanes" },
    Object.entries(geo.x).map(([name, x]) => s("line", { class: `lane ${name}`, x1: x, y1: top, x2: x, y2: bottom })));
}

// stopped hatches a client's lane where it was paused.
export function stopped(geo, list, bottom, hatch) {
  return s("g", { class: "pauses" }, list.map((p) => {
    const x = geo.x[p.actor] - geo.bar / 2 - 2;
    const height = Math.max(8, (p.endY ?? bottom) - p.y);
    return s("rect", { class: "paused", x, y: p.y, width: geo.bar + 4, height, rx: 3, fill: `url(#${hatch})` });
  }));
}

// band draws one lease as a wedge that is as wide as time is left, and ends where it ends.
// Where a client has leases of both resources, each has half of the room.
export function band(geo, lease, { rows, toY, now, live, both }) {
  const { points, endY, over, left } = wedge(lease, rows, toY, now);
  const width = both ? geo.band / 2 : geo.band;
  const right = geo.x[lease.actor] - geo.bar / 2 - 3 - (both && plain(lease.resource) === "stock" ? width : 0);
  const x = (share) => (right - width * share).toFixed(1);
  const start = points[0].y;
  const shape = points.map((p) => `${x(p.share)},${p.y.toFixed(1)}`).join(" ");
  const end = over ? "over" : lease.end || (left > 0 ? "" : "over");
  const parts = [
    s("rect", { class: "lease-room", x: right - width, y: start, width, height: Math.max(1, endY - start), rx: 2 }),
    s("polygon", { class: "lease", points: `${right},${start.toFixed(1)} ${shape} ${right},${endY.toFixed(1)}` }),
  ];
  if (end) parts.push(s("line", { class: `lease-end ${end}`, x1: right - width - 3, y1: endY, x2: right + 2, y2: endY }));
  const word = { over: geo.narrow ? "over" : "lease over", evicted: "evicted", lost: geo.narrow ? "" : "lost" }[end];
  // The rows' times stand at the rows' own height: the word goes below where it would meet one.
  const low = rows.some((row) => Math.abs(row.y - endY) < 13) ? 17 : 4;
  if (word) parts.push(label({ ...geo, font: geo.font - 1.5 }, right - width - 4, endY + low, word, "lease-word over", "end"));
  if (!end && live) {
    const text = geo.narrow ? `${(left / 1000).toFixed(1)}` : `${(left / 1000).toFixed(1)} s`;
    parts.push(label({ ...geo, font: geo.font - 0.5 }, right - width - 4, endY + 4, text, "lease-word", "end"));
  }
  const told = `${lease.actor}'s lease of ${plain(lease.resource) || "the lock"} with token ${lease.number}` +
    (end ? `: ${end}` : `: ${clock(left)} left`);
  return s("g", { class: `band ${lease.actor}` }, s("title", { text: told }), parts);
}

// holds shows on the lock's lane whom the lock believes to hold it.
export function holds(geo, rows, bottom) {
  const bars = [];
  let open = null;
  const close = (y) => {
    if (open) bars.push({ ...open, endY: y });
    open = null;
  };
  for (const { event: e, part, y } of rows) {
    if (part === "begin" || plain(e.resource) === "stock") continue;
    if (e.outcome === "granted" && e.number && (e.actor === "A" || e.actor === "B")) {
      if (open && open.number === e.number) continue;
      close(y);
      open = { actor: e.actor, number: e.number, y };
    } else if (["expire", "evict", "flush"].includes(e.action)) close(y);
    else if (e.action === "release" && open && e.number === open.number && e.outcome !== "failed") close(y);
  }
  close(bottom);
  return s("g", { class: "holds" }, bars.map((b) =>
    s("rect", { class: `hold ${b.actor}`, x: geo.x.lock - 3, y: b.y, width: 6, height: Math.max(2, b.endY - b.y), rx: 3 })));
}

// staircase is the store's mark: a line that moves right whenever it rises, and is dashed while its
// number is retired. What lies left of it is what the store refuses.
export function staircase(geo, track, index, top, bottom) {
  const steps = track.steps.map((st) => ({ ...st, y: st.y ?? top + 8 }));
  const ranks = steps.length ? steps[steps.length - 1].rank : 0;
  const left = geo.x.store + index * geo.track;
  const xOf = (rank) => stepX(geo, index, rank, ranks);
  const group = s("g", { class: "mark" }, s("title", { text: `the store's mark of ${plain(track.resource)}` }));
  const area = [`${left},${steps.length ? steps[0].y : bottom}`];
  const lines = [];
  steps.forEach((st, i) => {
    const next = steps[i + 1];
    const x = xOf(st.rank);
    const y2 = next ? next.y : bottom;
    const from = st.rose ? xOf(st.rank - 1) : x;
    area.push(`${x},${st.y}`, `${x},${y2}`);
    if (st.rose) lines.push(s("line", { class: "rise", x1: from, y1: st.y, x2: x, y2: st.y }));
    lines.push(s("line", { class: st.retired ? "stand retired" : "stand", x1: x, y1: st.y, x2: x, y2 }));
  });
  if (steps.length) {
    lines.unshift(s("line", { class: "stand none", x1: left, y1: top, x2: left, y2: steps[0].y }));
    group.append(s("polygon", { class: "known", points: [...area, `${left},${bottom}`].join(" ") }));
  }
  group.append(...lines, ...steps.map((st) => flag(geo, xOf(st.rank), st)));
  return group;
}

// flag is the number at a step of the mark.
function flag(geo, x, st) {
  const h = geo.narrow ? 17 : 22;
  const w = Math.max(geo.pill - 4, st.number.length * (geo.narrow ? 7 : 9) + 10);
  const size = geo.narrow ? 11.5 : 15;
  return s("g", { class: st.retired ? "flag retired" : "flag" },
    s("rect", { x: x - 1, y: st.y - h / 2, width: w, height: h, rx: 5 }),
    s("text", { class: "number", x: x + w / 2 - 1, y: st.y + size * 0.36, "text-anchor": "middle", "font-size": size, text: st.number }),
    st.retired && s("text", { class: "label retired-word", x: x - 1, y: st.y + h / 2 + (geo.narrow ? 10 : 12), "font-size": geo.narrow ? 9.5 : 11, text: "retired" }));
}
