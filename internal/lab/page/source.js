// What a stage can show: a session that goes on, or a run that was recorded.

import { fromEvents } from "./account.js";

// ofSession looks at a session; where tells about.lock and about.store.
export function ofSession(session, where, name) {
  const shotAt = (seq) => session.snapshots.findLast((shot) => shot.seq <= seq);
  return {
    name, mode: session.mode, lock: session.spec.lock === "nodes" ? "3 nodes" : where.lock, store: where.store,
    session,
    get events() { return session.events; },
    get live() { return session.link !== "over"; },
    get clients() { return session.state.clients; },
    get deadlines() { return session.deadlines; },
    get damage() { return session.state.damage || []; },
    get stock() { return session.state.stock || ""; },
    marks: session.firstMarks,
    now: () => session.now(),
    // The newest state speaks for now, a remembered one for a moment that is looked back at.
    account: (seq) => (seq === undefined ? session.state.account : (shotAt(seq) || session.snapshots[0]).account),
  };
}

// ofRun looks at a run of a trace file.
export function ofRun(run, file) {
  const end = Math.max(0, ...run.events.map((e) => e.done_ms));
  return {
    name: run.title || run.name, mode: run.mode, lock: file.lock, store: file.store,
    session: null, events: run.events, live: false, clients: null, deadlines: [], stock: "", marks: [],
    damage: run.events.map((e) => e.damage).filter(Boolean),
    now: () => end,
    account: (seq) => (seq === undefined ? run.account : fromEvents(run.events.filter((e) => e.seq <= seq), run.account.initial || "10")),
  };
}
