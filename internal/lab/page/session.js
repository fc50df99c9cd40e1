// A session as the page knows it: its events in order, how it stands, and whether it is still there.

import * as api from "./api.js";

const RETRY_MS = 2000;

export class Session {
  // begin starts a session on the server; spec is a NewSession. It learns of its events by a stream
  // once it is told to listen, else by collect: a browser has only six connections to a server.
  static async begin(spec) {
    return new Session(await api.newSession(spec), spec);
  }

  constructor(state, spec) {
    this.id = state.id;
    this.spec = spec;
    this.mode = state.mode;
    this.events = [];
    this.commands = []; // what was sent, in order: the script
    this.snapshots = []; // {seq, account, marks}: how it stood after an event, for looking back
    this.link = "open"; // open, retrying, over
    this.until_ms = new Map(); // by client, resource and number: the last deadline of a lease
    this.listeners = new Set();
    this.firstMarks = state.mode === "none" ? [] : state.marks || [];
    this.source = null; // the stream, while it listens
    this.see(state);
  }

  // deadlines lists the last known one of every lease: renewals are no events.
  get deadlines() {
    return [...this.until_ms.values()];
  }

  // now is the time on the clock of the events.
  now() {
    return this.link === "over" ? this.state.now_ms : this.state.now_ms + (performance.now() - this.seenAt);
  }

  // subscribe calls f after every change, and returns what ends that.
  subscribe(f) {
    this.listeners.add(f);
    return () => this.listeners.delete(f);
  }

  changed(what) {
    for (const f of this.listeners) f(what);
  }

  see(state) {
    if (this.state && (state.now_ms < this.state.now_ms || state.seq < this.state.seq)) return; // overtaken on the way
    this.state = state;
    this.seenAt = performance.now();
    const last = this.snapshots[this.snapshots.length - 1];
    const shot = { seq: state.seq, account: state.account, marks: state.marks };
    if (last && last.seq === state.seq) this.snapshots[this.snapshots.length - 1] = shot;
    else if (!last || state.seq > last.seq) this.snapshots.push(shot);
    for (const c of state.clients) {
      for (const l of c.leases) this.until_ms.set(`${c.name} ${l.resource} ${l.number}`, { actor: c.name, ...l });
    }
  }

  add(event) {
    const i = this.events.findLastIndex((e) => e.seq <= event.seq);
    if (i >= 0 && this.events[i].seq === event.seq) return false;
    this.events.splice(i + 1, 0, event);
    return true;
  }

  // listen opens the stream, which tells everything from the first event on: what is known is not added again.
  listen() {
    if (this.link === "over" || this.source) return;
    const source = api.events(this.id);
    this.source = source;
    source.addEventListener("open", () => this.connected("open"));
    source.addEventListener("event", (m) => {
      const event = JSON.parse(m.data);
      if (this.add(event)) this.changed({ event });
    });
    source.addEventListener("state", (m) => {
      this.see(JSON.parse(m.data));
      this.changed({ state: true });
    });
    source.addEventListener("end", () => this.finish());
    source.addEventListener("error", () => this.broken(source));
  }

  connected(link) {
    if (this.link === link || this.link === "over") return;
    this.link = link;
    this.changed({ link });
  }

  // rest closes the stream for a while; listen opens it again.
  rest() {
    this.source?.close();
    this.source = null;
    clearTimeout(this.timer);
  }

  // broken: the browser connects again by itself unless the server said no; then it is asked why.
  async broken(source) {
    if (source !== this.source) return; // it rests, or is over
    this.connected("retrying");
    if (source.readyState !== EventSource.CLOSED) return;
    let again = () => this.broken(source);
    try {
      this.see(await api.state(this.id));
      again = () => {
        this.rest();
        this.listen();
      };
    } catch (problem) {
      if (problem.status === 404 || problem.status === 410) return this.finish();
    }
    if (source === this.source) this.timer = setTimeout(again, RETRY_MS);
    return undefined;
  }

  // finish: the session is over and stays to be looked at.
  finish() {
    if (this.link === "over") return;
    this.rest();
    this.see({ ...this.state, now_ms: this.now() });
    this.link = "over";
    this.changed({ link: "over" });
  }

  // close gives the session up, here and on the server, and returns when that has heard of it.
  async close() {
    const was = this.link;
    this.finish();
    this.listeners.clear();
    if (was !== "over") await api.end(this.id);
  }

  // send sends a command and returns its Done once everything that came of it has arrived.
  async send(cmd) {
    let done;
    try {
      done = await api.command(this.id, cmd);
    } catch (problem) {
      if (problem.status === 404 || problem.status === 410) this.finish();
      throw problem;
    }
    this.commands.push(cmd);
    this.see(done.state);
    if (done.event && this.add(done.event)) this.changed({ event: done.event });
    this.changed({ state: true });
    if (this.source) await this.until(() => this.settled(done.state.seq), 3000);
    if (!this.settled(done.state.seq)) await this.collect();
    return done;
  }

  // collect fetches everything that has happened so far, once.
  collect() {
    if (this.link === "over") return Promise.resolve();
    return new Promise((resolve) => {
      const source = api.events(this.id);
      const end = () => {
        source.close();
        resolve();
      };
      source.addEventListener("event", (m) => this.add(JSON.parse(m.data)));
      source.addEventListener("state", (m) => {
        this.see(JSON.parse(m.data));
        this.changed({ event: true, state: true });
        end();
      });
      source.addEventListener("error", end);
      setTimeout(end, 5000);
    });
  }

  // settled: every event up to seq is here, of which there are as many, and nobody who may go on has
  // parked actions left.
  settled(seq) {
    return this.events.length >= Math.max(seq, this.state.seq) && this.state.clients.every((c) => c.paused || c.busy || !c.parked);
  }

  // ready waits while the one who is to act still waits for the lock, at most `ms`.
  async ready(cmd, ms) {
    const free = () => !this.state.clients.some((c) => c.name === cmd.actor && c.busy && !c.paused);
    if (["pause", "resume"].includes(cmd.action)) return;
    for (const end = performance.now() + ms; !free() && this.link !== "over" && performance.now() < end;) {
      await this.until(free, Math.min(300, ms));
      if (!free() && !this.source) await this.collect();
    }
  }

  // until waits until test() holds after some change, at most `ms`; it tells whether it does.
  until(test, ms) {
    if (test() || this.link === "over") return Promise.resolve(test());
    return new Promise((resolve) => {
      const end = () => {
        clearTimeout(timer);
        stop();
        resolve(test());
      };
      const timer = setTimeout(end, ms);
      const stop = this.subscribe(() => (test() || this.link === "over") && end());
    });
  }
}
