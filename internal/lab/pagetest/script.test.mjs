// Tests of what comes from others: links and trace files.

import assert from "node:assert/strict";
import { test } from "node:test";
import { decode, encode } from "../page/share.js";
import { fileOf, parse } from "../page/tracefile.js";
import { fromEvents, sum } from "../page/account.js";

const query = (fragment) => fragment.slice(fragment.indexOf("?") + 1);

test("a script goes into a link and comes out of it as it was", () => {
  const script = {
    mode: "writes", ttl: "10s", lock: "nodes",
    commands: [
      { actor: "A", action: "acquire" }, { actor: "B", action: "write", resource: "stock", value: "3" },
      { actor: "A", action: "add", key: "k.1:x" }, { actor: "operator", action: "evict", number: "34" }, { actor: "operator", action: "forget-node", node: 2 },
    ],
  };
  assert.deepEqual(decode(query(encode(script))), script);
});

for (const [what, q, says] of [
  ["an actor", "do=C.read", /step that does not exist/],
  ["an action", "do=A.explode", /step that does not exist/],
  ["an action of another actor", "do=operator.write", /step that does not exist/],
  ["an inherited name", "do=constructor.name", /step that does not exist/],
  ["a longer name", "do=A.read.it", /step that does not exist/],
  ["an option", "do=A.write;evil=1", /something unknown/],
  ["a value", "do=A.write;value=<b>", /something unknown/],
  ["a mode", "mode=all&do=A.read", /mode that does not exist; allowed are none, lock, writes, grant/],
  ["a lease time", "ttl=soon&do=A.read", /not a duration/],
  ["a lock", "lock=etcd&do=A.read", /lock is unknown/],
  ["a length", `do=${Array(101).fill("A.read").join("~")}`, /101 steps; at most 100/],
]) {
  test(`a link with ${what} that does not exist is refused`, () => assert.throws(() => decode(q), says));
}

test("a file that was written here is read here", () => {
  const events = [{ seq: 1, at_ms: 0, done_ms: 2, actor: "A", action: "read", outcome: "ok", text: "A reads.", exchanges: [{ method: "GET", url: "http://x/", status: 200, curl: "curl http://x/" }] }];
  const account = { initial: "10", handed_out: "0", remaining: "10", held: true, text: "all accounted for" };
  const file = parse(JSON.stringify(fileOf("memory", "sqlite", [{ name: "x", title: "X", mode: "grant", account, events }])));
  assert.equal(file.source, "lab");
  assert.deepEqual(file.runs[0].account, account);
  assert.equal(file.runs[0].events[0].exchanges[0].curl, "curl http://x/");
});

const trace = (runs) => JSON.stringify({ format: "fencegate-trace", version: 1, runs });

for (const [what, content, says] of [
  ["no JSON", "{", /not JSON/],
  ["another format", "[]", /no trace/],
  ["a later version", '{"format":"fencegate-trace","version":2}', /version 2; this page knows version 1/],
  ["no runs", trace([]), /no runs/],
  ["a run without events", trace([{}]), /Run 1 of the trace has no events/],
  ["an event without a number", trace([{ events: [{}] }]), /Run 1 of the trace, event 1, has no "seq"/],
  ["an event of nobody", trace([{ events: [{ seq: 1 }] }]), /who did what/],
  ["two events of one number", trace([{ events: [1, 1].map((seq) => ({ seq, actor: "A", action: "read" })) }]), /two events with the number 1/],
]) {
  test(`a file with ${what} is refused, and it is said why`, () => assert.throws(() => parse(content), says));
}

test("whatever a file has in its fields, text comes out as text", () => {
  const hostile = { seq: 1, actor: "A", action: "read", text: { toString: "x" }, marks: "no", exchanges: [7], at_ms: "soon", number: 33, source: [] };
  const [e] = parse(trace([{ events: [hostile] }])).runs[0].events;
  assert.deepEqual([e.text, e.marks, e.exchanges, e.at_ms, e.number, e.source], ["", [], [], 0, "33", undefined]);
});

test("an account that does not say that it held did not hold", () => {
  const run = { events: [], account: { initial: 10, held: "yes" } };
  assert.deepEqual(parse(trace([run])).runs[0].account, { initial: "10", handed_out: "", remaining: "", held: false, text: "" });
});

test("the account of a moment is counted from its accepted writes", () => {
  const write = (seq, value, outcome = "accepted") => ({ seq, actor: "A", action: "write", resource: "coupon", value, outcome });
  assert.equal(sum(fromEvents([write(1, "9"), write(2, "8")], "10")), "2 + 8 = 10");
  const lost = fromEvents([write(1, "9"), write(2, "9")], "10");
  assert.deepEqual([lost.held, lost.text, sum(lost)], [false, "1 too many", "2 + 9 = 11, not 10"]);
  assert.equal(fromEvents([write(1, "9"), write(2, "8", "refused")], "10").handed_out, "1");
});
