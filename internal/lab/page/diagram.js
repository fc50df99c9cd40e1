// The space-time diagram: draws what layout.js has placed.

import { s } from "./dom.js";
import { arrange, leases, marks, pauses, place, timeline, wrap } from "./layout.js";
import { geometry, rowHeight, textWidth } from "./geometry.js";
import { headHeight, headline, heads } from "./heads.js";
import { answers, asks, clock, isResume, isWrite, lanesOf, unchecked, verdict } from "./labels.js";
import { arrow, chip, label, sign, tear } from "./shapes.js";
import { band, holds, lanes, staircase, stopped } from "./bands.js";

let diagrams = 0; // makes the ids of patterns differ

// draw returns {svg, heads, tick, yOf} of a view:
//   events, marks (before the first event), deadlines (of leases), clients (a State's, or null), now, live, lock, store,
//   selected (a seq), onSelect(seq), name, and heads: true to have the lanes' titles inside.
export function draw(view, width) {
  const rows = arrange(view.events);
  const geo = geometry(width, marks(rows, view.marks).length);
  const brief = geo.narrow;
  for (const row of rows) measure(geo, row, brief);
  const top = view.heads ? headHeight(geo) + 4 : 6;
  const bottomOfRows = place(rows, top, (row) => rowHeight(geo, row, row.damage.length));
  const tracks = marks(rows, view.marks);
  const tail = view.live ? (geo.narrow ? 44 : 56) : 14;
  const height = Math.max(bottomOfRows + tail, top + 120);
  const hatch = `hatch-${++diagrams}`;
  const toY = (now) => timeline(rows, top, now, bottomOfRows + tail - 16);
  const held = leases(rows, view.deadlines);

  const svg = s("svg", { class: unchecked(view) ? "diagram unchecked" : "diagram", width: geo.width, height, viewBox: `0 0 ${geo.width} ${height}`, role: view.onSelect ? "group" : "img", "aria-label": view.name });
  const drawn = s("g", { "aria-hidden": "true" }); // for those who listen there are the buttons, and the table
  const alive = s("g", { class: "bands" });
  drawn.append(
    s("defs", {}, s("pattern", { id: hatch, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
      s("rect", { class: "hatch-ground", width: 6, height: 6 }), s("line", { class: "hatch-line", x1: 0, y1: 0, x2: 0, y2: 6 }))),
    ...(view.heads ? [s("rect", { class: "ground", width: geo.width, height }), heads(geo, view, tracks)] : []),
    ...rows.filter((row) => row.event.seq === view.selected).map((row) =>
      s("rect", { class: "picked", x: 1, y: row.top + 1, width: geo.width - 2, height: row.height.all - 2, rx: 6 })),
    lanes(geo, top, height - 2),
    holds(geo, rows, height - 6),
    alive,
    stopped(geo, pauses(rows), height - 6, hatch),
    s("g", { class: "marks" }, tracks.map((t, i) => staircase(geo, t, i, top, height - 6))),
    bars(geo, rows),
    s("g", { class: "events" }, rows.map((row) => drawRow(geo, row, brief))),
  );
  svg.append(drawn, ...(view.onSelect ? [s("g", { class: "buttons" }, rows.map((row) => button(geo, row, view)))] : []));
  const tick = (now) => alive.replaceChildren(...held.map((l) => band(geo, l, { rows, toY: toY(now), now, live: view.live, both: tracks.length > 1 })));
  tick(view.now);
  if (view.live) drawn.append(waiting(geo, view.clients, height));
  return { svg, tick, moving: held.some((l) => !l.end), heads: view.heads ? null : headline(geo, view, tracks) };
}

// measure settles what a row says and how much room that takes.
function measure(geo, row, brief) {
  const e = row.event;
  const { from, to } = lanesOf(e);
  Object.assign(row, { from, to, self: !to, ask: asks(e), answer: row.part === "begin" ? "" : answers(e, brief) });
  if (row.times > 1) row.ask = `${row.ask} ×${row.times}`;
  if (row.part === "end") row.ask = "";
  const span = to ? Math.abs(geo.x[to] - geo.x[from]) : 0;
  row.below = Boolean(to && row.ask && row.answer && textWidth(geo, row.ask) + textWidth(geo, row.answer) + 34 > span);
  const chars = Math.floor((geo.width - geo.x.A - 16) / (geo.char * 1.2));
  row.damage = row.part !== "begin" && e.damage ? wrap(e.damage, chars, 4) : [];
}

function drawRow(geo, row, brief) {
  const group = s("g", { class: "event" },
    s("text", { class: "time", x: geo.gutter - 6, y: row.y + 4, "text-anchor": "end", "font-size": geo.narrow ? 9.5 : 11, text: clock(row.at, brief) }),
    ...(row.self ? alone(geo, row) : request(geo, row)));
  if (row.damage.length) {
    const y = row.top + row.height.damageAt;
    group.append(tear(geo.x.A - 8, geo.width - 6, y + 6),
      ...row.damage.map((line, i) => label(geo, geo.x.A, y + 28 + i * (geo.narrow ? 14 : 16), line, "damage")));
  }
  return group;
}

// button makes a row selectable. It lies over the row's drawing, has no text of its own and bears the
// event's sentence as its name; an event that has two rows has one button and one mere place to click.
function button(geo, row, view) {
  const e = row.event;
  const told = `${e.seq}. ${e.text || `${e.actor}: ${asks(e)} ${answers(e)}`}${e.damage ? ` Damage: ${e.damage}` : ""}`;
  const role = row.part === "begin" ? { "aria-hidden": "true" } : {
    role: "button", tabindex: "-1", "data-seq": e.seq, "aria-label": told, "aria-pressed": String(view.selected === e.seq),
    "data-testid": view.testids && `event-${e.seq}`,
  };
  return s("rect", {
    class: "hit", x: 2, y: row.top + 2, width: geo.width - 4, height: row.height.all - 3, rx: 6, ...role, onclick: () => view.onSelect(e.seq),
  });
}

// alone draws what a lane does by itself, or what is done to it.
function alone(geo, row) {
  const e = row.event;
  const x = geo.x[row.from];
  const client = row.from === "A" || row.from === "B";
  const shown = row.answer ? `${row.ask} ${row.answer}` : row.ask;
  const kind = e.action === "pause" ? "stop" : isResume(e) ? "go" : !client ? "note" : verdict(e) === "lost" ? "unknown" : "plain";
  const cls = ["expire", "flush", "evict", "forget-node"].includes(e.action) ? "note" : "";
  return [sign(kind, x, row.y, 9), client ? label(geo, x + 14, row.y + 4, shown, cls) : label(geo, x - 13, row.y + 4, shown, cls, "end")];
}

// request draws what goes from lane to lane, and what came of it.
function request(geo, row) {
  const e = row.event;
  const back = row.part === "end"; // the answer comes on a row of its own
  const [start, stop] = back ? [row.to, row.from] : [row.from, row.to];
  const right = geo.x[stop] > geo.x[start] ? 1 : -1;
  const marked = row.part !== "begin" && verdict(e) !== "plain";
  const x1 = geo.x[start] + right * (marked && back ? 10 : geo.bar / 2);
  const x2 = geo.x[stop] - right * (marked && !back ? 10 : 2);
  const parts = [arrow(x1, row.y, x2, row.y, `${row.from} ${back ? "back" : ""} ${row.part === "begin" ? "" : verdict(e)}`)];
  if (marked) parts.push(sign(verdict(e), geo.x[row.to], row.y, geo.narrow ? 8 : 9.5));
  const above = row.y - (geo.narrow ? 10.5 : 13);
  const near = x1 + right * 8;
  const anchor = right > 0 ? "start" : "end";
  const far = right > 0 ? "end" : "start";
  if (row.ask) parts.push(label(geo, near, above, row.ask, isWrite(e) ? "ask write" : "ask", anchor));
  if (e.number && row.part !== "begin") parts.push(chip(geo, x1 + right * (geo.narrow ? 20 : 30), row.y, e.number, row.from));
  const said = row.part === "begin" ? "" : row.answer;
  if (said && back) parts.push(label(geo, near, above, verdict(e) === "plain" ? said : `${asks(e)}: ${said}`, `answer ${verdict(e)}`, anchor));
  else if (said) {
    const y = row.below ? row.y + (geo.narrow ? 19 : 21) : above;
    parts.push(label(geo, x2 - right * 4, y, said, `answer ${verdict(e)}`, far));
  }
  return parts;
}

// bars are what a lane was busy with, from its request to the answer.
function bars(geo, rows) {
  const begun = new Map();
  const group = s("g", { class: "bars" });
  for (const row of rows) {
    if (row.part === "begin" || row.event.outcome === "waiting") begun.set(`${row.event.actor} ${row.event.action}`, row.y);
    if (row.self || row.part === "begin") continue;
    const from = row.part === "end" ? begun.get(`${row.event.actor} ${row.event.action}`) ?? row.y : row.y;
    group.append(s("rect", { class: `bar ${row.from}`, x: geo.x[row.from] - geo.bar / 2, y: from - 9, width: geo.bar, height: row.y - from + 18, rx: 3 }));
  }
  return group;
}

// waiting tells at the end of a live diagram what is under way.
function waiting(geo, clients, height) {
  return s("g", { class: "pending" }, (clients || []).filter((c) => geo.x[c.name]).map((c) => {
    const text = c.busy ? (geo.narrow ? `${c.busy} …` : `${c.busy}: waits for the lock`)
      : c.parked ? `${c.parked} parked` : c.paused ? (geo.narrow ? "" : "stopped") : "";
    return text ? label(geo, geo.x[c.name] + geo.bar, height - 14, text, "pending-word") : null;
  }).filter(Boolean));
}
