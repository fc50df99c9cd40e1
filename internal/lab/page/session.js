// A session as the page knows it: its events in order, how it stands, and whether it is still there.

import * as api from "./api.js";

const RETRY_MS = 2000;

export class Session {
  // begin starts a session on the server; spec is a NewSession. One that is not streaming learns of
  // its events by collect: a browser has only six connections to a server.
  static async begin(spec, streaming = true) {
    return new Session(await api.newSession(spec), spec, streaming);
  }

  constructor(state, spec, streaming) {
    this.streaming = streaming;
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
    this.see(state);
    if (streaming) this.listen();
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
    if (this.state && state.now_ms < this.state.now_ms) return; // overtaken on the way
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

  listen() {
    if (this.link === "over") return;
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
    if (this.source) this.source.close();
    clearTimeout(this.timer);
  }

  // broken: the browser connects again by itself unless the server said no; then it is asked why.
  async broken(source) {
    if (this.link === "over") return;
    this.connected("retrying");
    if (source.readyState !== EventSource.CLOSED) return;
    try {
      this.see(await api.state(this.id));
      this.timer = setTimeout(() => this.listen(), RETRY_MS);
    } catch (problem) {
      if (problem.status === 404 || problem.status === 410) this.finish();
      else this.timer = setTimeout(() => this.broken(source), RETRY_MS);
    }
  }

  // finish: the session is over and stays to be looked at.
  finish() {
    if (this.link === "over") return;
    if (this.source) this.source.close();
    clearTimeout(this.timer);
    this.see({ ...this.state, now_ms: this.now() });
    this.link = "over";
    this.changed({ link: "over" });
  }

  // close gives the session up, here and on the server.
  close() {
    const was = this.link;
    this.finish();
    this.listeners.clear();
    if (was !== "over") api.end(this.id);
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
    if (this.streaming) await this.until(() => this.settled(done.state.seq), 3000);
    else await this.collect();
    return done;
  }

  // collect fetches everything that has happened so far, once.
  collect() {
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

  // settled: every event up to seq is here, and nobody who may go on has parked actions left.
  settled(seq) {
    const known = this.events.length ? this.events[this.events.length - 1].seq : 0;
    return known >= Math.max(seq, this.state.seq) && this.state.clients.every((c) => c.paused || c.busy || !c.parked);
  }

  // ready waits while the one who is to act still waits for the lock, at most `ms`.
  async ready(cmd, ms) {
    const free = () => !this.state.clients.some((c) => c.name === cmd.actor && c.busy && !c.paused);
    if (["pause", "resume"].includes(cmd.action)) return true;
    if (this.streaming) return this.until(free, ms);
    for (const end = performance.now() + ms; !free() && performance.now() < end;) {
      await new Promise((resolve) => setTimeout(resolve, 300));
      await this.collect();
    }
    return free();
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
