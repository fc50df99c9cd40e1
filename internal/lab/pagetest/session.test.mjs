// Tests of how the page follows a session: what comes twice, late, or not at all.

import assert from "node:assert/strict";
import { mock, test } from "node:test";

globalThis.document = { baseURI: "http://lab.test/lab/" };
const streams = [];
globalThis.EventSource = class {
  static CLOSED = 2;

  constructor() {
    this.heard = {};
    this.readyState = 1;
    streams.push(this);
  }

  addEventListener(kind, f) { this.heard[kind] = f; }

  tell(kind, data) { this.heard[kind]?.({ data: JSON.stringify(data) }); }

  close() { this.readyState = 2; }
};
let answers = []; // of the server, in order: [status, body]
globalThis.fetch = async () => {
  const [status, body] = answers.shift();
  return { ok: status < 300, status, json: async () => body };
};
const { Session } = await import("../page/session.js");

const state = (seq, now, more = {}) => ({ id: "0a", mode: "grant", now_ms: now, ttl_ms: 1000, seq, clients: [], marks: [], account: { remaining: String(10 - seq) }, ...more });
const event = (seq) => ({ seq, actor: "A", action: "read", text: `event ${seq}` });
const seqs = (session) => session.events.map((e) => e.seq);
const open = () => streams.filter((s) => s.readyState !== EventSource.CLOSED).length;
const begun = () => {
  streams.length = 0;
  const session = new Session(state(0, 0), {});
  session.listen();
  return session;
};

test("an event that comes by the stream and by a command's answer is one event", async () => {
  const session = begun();
  answers = [[200, { status: "done", event: event(1), state: state(1, 5) }]];
  streams[0].tell("event", event(1));
  await session.send({ actor: "A", action: "read" });
  streams[0].tell("event", event(1));
  assert.deepEqual(seqs(session), [1]);
  session.finish();
});

test("a command is done when all that came of it is here, also what came before its own event", async () => {
  const session = begun();
  answers = [[200, { status: "done", event: event(2), state: state(2, 5) }]];
  let done = false;
  const sent = session.send({ actor: "A", action: "acquire" }).then(() => { done = true; });
  await new Promise(setImmediate);
  assert.equal(done, false, "event 1 is missing");
  streams[0].tell("event", event(1));
  await sent;
  assert.deepEqual(seqs(session), [1, 2], "in their order");
  session.finish();
});

test("a state that was overtaken on the way is not taken for the newest, not even within a millisecond", () => {
  const session = begun();
  session.see(state(2, 7));
  session.see(state(1, 7));
  session.see(state(2, 6));
  assert.deepEqual([session.state.seq, session.state.now_ms], [2, 7]);
  session.finish();
});

test("a session has one stream at most, and none while it rests", async () => {
  const session = begun();
  session.listen();
  assert.equal(streams.length, 1);
  session.rest();
  assert.equal(open(), 0);
  session.listen();
  streams[1].tell("event", event(1));
  streams[1].tell("event", event(2));
  assert.deepEqual([open(), seqs(session)], [1, [1, 2]]);
  session.finish();
  session.listen();
  assert.equal(open(), 0, "it is over");
});

test("a command that is sent while it rests fetches what came of it, and leaves no stream open", async () => {
  const session = begun();
  session.rest();
  answers = [[200, { status: "done", event: event(2), state: state(2, 5) }]];
  const sent = session.send({ actor: "A", action: "acquire" });
  await new Promise(setImmediate);
  for (const seq of [1, 2]) streams[1].tell("event", event(seq));
  streams[1].tell("state", state(2, 6));
  await sent;
  assert.deepEqual([seqs(session), open()], [[1, 2], 0]);
  session.finish();
});

test("a stream that the server has refused is opened again; one that rests meanwhile is not", async (t) => {
  t.after(() => mock.timers.reset());
  const session = begun();
  mock.timers.enable({ apis: ["setTimeout"] });
  const broken = async () => {
    const stream = streams.at(-1);
    stream.close();
    answers = [[200, state(0, 9)]];
    stream.tell("error", {});
    await new Promise(setImmediate);
  };
  await broken();
  assert.equal(session.link, "retrying");
  mock.timers.tick(2000);
  assert.deepEqual([streams.length, open()], [2, 1]);
  streams[1].tell("open", {});
  assert.equal(session.link, "open");
  await broken();
  session.rest();
  mock.timers.tick(9000);
  assert.equal(open(), 0);
  session.finish();
});

test("a session that the server does not know any more is over", async () => {
  const session = begun();
  const told = [];
  session.subscribe((what) => told.push(what.link));
  streams[0].close();
  answers = [[404, { detail: "there is no such session" }]];
  streams[0].tell("error", {});
  await new Promise(setImmediate);
  assert.deepEqual(told, ["retrying", "over"]);
});
