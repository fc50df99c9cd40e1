// From events to places. Everything here is a pure function of the events: nothing is drawn.
//
// Time runs downwards in the order of what happened, not to scale: people think for minutes between
// two steps. A row is an event, or its beginning or its end where something else happened between.

import { lanesOf } from "./labels.js";

const sameHold = (a, b) => a.number === b.number && (a.resource || "") === (b.resource || "");

// arrange puts events into rows: {event, part: whole | begin | end, at, times}. Repeated renewals of
// one client are one row.
export function arrange(events) {
  const rows = [];
  for (const event of events) {
    const last = rows[rows.length - 1];
    if (last && last.part === "whole" && event.action === "renew" && event.outcome === "ok" &&
        last.event.action === "renew" && last.event.actor === event.actor && sameHold(last.event, event)) {
      Object.assign(last, { event, at: event.done_ms, times: last.times + 1, renewals: [...last.renewals, event] });
      continue;
    }
    const row = { event, part: "whole", at: event.done_ms, times: 1, renewals: [event] };
    const begin = beginning(rows, event);
    if (begin.told) rows.push({ ...row, part: "end" });
    else if (begin.index < rows.length || (event.action === "acquire" && event.outcome === "granted")) {
      rows.splice(begin.index, 0, { ...row, part: "begin", at: event.at_ms });
      rows.push({ ...row, part: "end" });
    } else rows.push(row);
  }
  return rows;
}

// beginning finds the row before which an event began. It is told where a row says already that the
// client began to wait.
function beginning(rows, event) {
  let index = rows.length;
  for (let i = rows.length - 1; i >= 0 && rows[i].at > event.at_ms; i--) {
    if (rows[i].event.actor !== "store") index = i; // what the store does for a request is part of its row
  }
  for (let i = rows.length - 1; i >= 0; i--) {
    const r = rows[i];
    if (["acquire", "reenter"].includes(event.action) && r.event.action === "raise" && belongs(r, event)) index = Math.min(index, i);
    if (r.event.actor !== event.actor) continue;
    if (r.event.outcome === "waiting" && r.event.action === event.action && event.outcome !== "waiting") return { told: true };
    if (r.event.action === "renew" || lanesOf(r.event).to === "") continue; // those happen beside it
    return { index: Math.max(index, i + 1) };
  }
  return { index };
}

// belongs tells whether a raise was part of an acquire: of its number, or of one that the lock drew
// before it and that the store refused. Within one millisecond the times do not tell.
function belongs(row, acquire) {
  const raise = row.event;
  return sameHold(raise, acquire) || (raise.outcome === "refused" && raise.resource === acquire.resource && row.at >= acquire.at_ms);
}

// place gives every row its y; height(row) is how much room it needs. It returns the y of the end.
export function place(rows, top, height) {
  let y = top;
  let at = 0;
  for (const row of rows) {
    row.height = height(row);
    row.top = y;
    row.y = y + row.height.line;
    row.t = at = Math.max(at, row.at);
    y += row.height.all;
  }
  return y;
}

// timeline returns the function from a time to a y: between two rows by proportion, after the last
// one into the room down to the y `end` that stands for the time from then until now.
export function timeline(rows, top, now, end) {
  return (t) => {
    let before = { t: 0, y: top };
    for (const row of rows) {
      if (row.t > t) return between(t, before, row);
      before = row;
    }
    return now > before.t ? before.y + (end - before.y) * Math.min(1, (t - before.t) / (now - before.t)) : before.y;
  };
}

function between(t, a, b) {
  return b.t > a.t ? a.y + ((b.y - a.y) * (t - a.t)) / (b.t - a.t) : a.y;
}

// leases finds what each client held, from the grant to its end:
// {actor, resource, number, y, terms: [{y, from, until, ms}], end: "" | released | over | evicted | lost, endY, endAt}.
// An open end is "". deadlines tells what a session says of leases that were renewed without an event.
export function leases(rows, deadlines = []) {
  const all = [];
  const open = (test) => all.filter((l) => !l.end && test(l));
  const close = (list, end, row) => list.forEach((l) => Object.assign(l, { end, endY: row.y, endAt: row.t }));
  for (const row of rows) {
    const e = row.event;
    if (row.part === "begin") continue;
    const its = open((l) => l.actor === e.actor && sameHold(l, e));
    const ms = e.lease_ms || 0;
    if (e.outcome === "granted" && e.number && (e.actor === "A" || e.actor === "B")) {
      if (its.length === 0) {
        close(open((l) => l.actor === e.actor && l.resource === (e.resource || "")), "lost", row);
        all.push({ actor: e.actor, resource: e.resource || "", number: e.number, y: row.y, terms: [], end: "" });
        its.push(all[all.length - 1]);
      }
      if (ms) its[0].terms.push({ y: row.y, from: e.at_ms, until: e.at_ms + ms, ms });
    } else if (e.action === "renew" && ms) {
      its.forEach((l) => l.terms.push({ y: row.y, from: e.at_ms, until: e.at_ms + ms, ms }));
    } else if (e.action === "release" && e.outcome !== "failed") {
      close(its.length ? its : open((l) => l.actor === e.actor && l.resource === (e.resource || "")), "released", row);
    } else if (e.action === "expire") {
      close(open((l) => (e.number ? sameHold(l, e) : l.resource === (e.resource || l.resource))), "over", row);
    } else if (e.action === "evict") {
      close(open((l) => (e.number ? l.number === e.number : true)), "evicted", row);
    } else if (e.outcome === "refused" && ["superseded", "retired"].includes(e.reason)) {
      close(its, "lost", row);
    }
  }
  for (const d of deadlines) {
    for (const l of all) {
      const term = l.terms[l.terms.length - 1];
      if (term && l.actor === d.actor && sameHold(l, d)) term.until = Math.max(term.until, d.until_ms);
    }
  }
  return all.filter((l) => l.terms.length > 0);
}

// wedge is a lease's band: [{y, share}] from the grant to its end, share being the part of its time
// that is left, 1 to 0. `until` is the y at which it ends, `over` whether its time ran out.
export function wedge(lease, rows, toY, now) {
  const points = [];
  const final = lease.terms[lease.terms.length - 1].until;
  const ranOut = !lease.end && now >= final;
  const endY = lease.end ? lease.endY : toY(Math.min(now, final));
  const at = (term, t) => Math.max(0, Math.min(1, (term.until - t) / Math.max(1, term.ms)));
  lease.terms.forEach((term, i) => {
    const next = lease.terms[i + 1];
    const stop = next ? next.y : endY;
    points.push({ y: term.y, share: i === 0 ? 1 : at(term, term.from) });
    for (const row of rows) {
      if (row.y > term.y && row.y < stop) points.push({ y: row.y, share: at(term, row.t) });
    }
    if (next) points.push({ y: stop, share: at(term, next.from) });
    else points.push({ y: Math.max(stop, term.y), share: at(term, lease.end ? lease.endAt : Math.min(now, final)) });
  });
  const over = ranOut || (lease.end === "over");
  return { points, endY: Math.max(endY, lease.y), over, left: lease.end || ranOut ? 0 : final - now };
}

// pauses finds when each client was stopped: [{actor, y, endY}], endY undefined while it is.
export function pauses(rows) {
  const all = [];
  for (const row of rows) {
    const { actor, action } = row.event;
    const open = all.find((p) => p.actor === actor && p.endY === undefined);
    if (action === "pause" && !open && (actor === "A" || actor === "B")) all.push({ actor, y: row.y });
    if ((action === "resume" || action === "wake") && open) open.endY = row.y;
  }
  return all;
}

// concerns tells whether a mark is to be shown: the second resource's only once somebody used it.
export const concerns = (events) => {
  const stock = events.some((e) => plain(e.resource) === "stock" || e.action === "pair");
  return (mark) => stock || plain(mark.resource) !== "stock";
};

// marks finds the store's marks, per resource: [{resource, steps: [{y, number, retired, rank, rose}]}].
// rank counts the distinct numbers from 1: by how many steps the line has risen.
export function marks(rows, first = []) {
  const tracks = new Map();
  const see = (mark, y) => {
    const steps = tracks.get(mark.resource) || [];
    tracks.set(mark.resource, steps);
    const last = steps[steps.length - 1];
    if (last && last.number === mark.number && last.retired === mark.retired) return;
    const rose = !last || last.number !== mark.number;
    steps.push({ y, number: mark.number, retired: mark.retired, rose, rank: (last ? last.rank : 0) + (rose ? 1 : 0) });
  };
  const shown = concerns(rows.map((row) => row.event));
  first.filter((m) => m.number && m.number !== "0" && shown(m)).forEach((m) => see(m, undefined));
  for (const row of rows) {
    if (row.part !== "begin") (row.event.marks || []).filter(shown).forEach((m) => see(m, row.y));
  }
  return [...tracks].map(([resource, steps]) => ({ resource, steps }));
}

// plain is a resource's name without the session's prefix: lab:….coupon is coupon.
export const plain = (resource) => (/^lab:[^.]*\.(.+)$/.exec(resource || "") || [, resource || ""])[1];

// wrap breaks a text into at most `most` lines of about `width` characters.
export function wrap(text, width, most) {
  const lines = [""];
  for (const word of String(text).split(/\s+/)) {
    const line = lines[lines.length - 1];
    if (line && line.length + 1 + word.length > width) lines.push(word);
    else lines[lines.length - 1] = line ? `${line} ${word}` : word;
  }
  if (lines.length <= most) return lines;
  return [...lines.slice(0, most - 1), `${lines[most - 1]} …`];
}
