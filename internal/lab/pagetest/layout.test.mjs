// Tests of what the page works out without a browser: node --test internal/lab/pagetest/
// They stand beside the page and not in it, as everything in it is served.

import assert from "node:assert/strict";
import { test } from "node:test";
import { arrange, leases, marks, pauses, place, plain, timeline, wedge, wrap } from "../page/layout.js";

const event = (seq, actor, action, at, more = {}) => ({ seq, actor, action, at_ms: at, done_ms: at, resource: "coupon", outcome: "ok", ...more });
const mark = (number, retired = false) => ({ resource: "coupon", number, retired });
const shape = (rows) => rows.map((r) => `${r.event.actor} ${r.event.action} ${r.part}`);
const placed = (events) => {
  const rows = arrange(events);
  place(rows, 0, () => ({ line: 5, all: 10 }));
  return rows;
};

test("an acquire begins before the raise that it caused, though both took no time", () => {
  const rows = arrange([
    event(1, "lock", "raise", 7, { number: "33" }),
    event(2, "A", "acquire", 7, { number: "33", outcome: "granted" }),
  ]);
  assert.deepEqual(shape(rows), ["A acquire begin", "lock raise whole", "A acquire end"]);
});

test("and before a raise that the store refused, of a number the lock should not have drawn", () => {
  const rows = arrange([
    event(1, "operator", "flush", 5),
    event(2, "lock", "raise", 7, { number: "1", outcome: "refused" }),
    event(3, "lock", "raise", 7, { number: "34" }),
    event(4, "B", "acquire", 7, { number: "34", outcome: "granted" }),
  ]);
  assert.deepEqual(shape(rows), ["operator flush whole", "B acquire begin", "lock raise whole", "lock raise whole", "B acquire end"]);
});

test("a wait for the lock begins where it began, among what others did meanwhile", () => {
  const rows = arrange([
    event(1, "A", "acquire", 0, { number: "33", outcome: "granted" }),
    event(2, "A", "read", 40),
    event(3, "operator", "expire", 60, { number: "33" }),
    event(4, "B", "acquire", 20, { done_ms: 61, number: "34", outcome: "granted" }),
  ]);
  assert.deepEqual(shape(rows), [
    "A acquire begin", "A acquire end", "B acquire begin", "A read whole", "operator expire whole", "B acquire end",
  ]);
});

test("a client's request begins after its own last one, whatever the clock's grain says", () => {
  const rows = arrange([event(1, "A", "write", 3, { done_ms: 5 }), event(2, "A", "read", 4, { done_ms: 6 })]);
  assert.deepEqual(shape(rows), ["A write whole", "A read whole"]);
});

test("what the store does for a write does not break the write in two", () => {
  const rows = arrange([event(1, "store", "raise", 12, { number: "33" }), event(2, "A", "write", 10, { done_ms: 13, number: "33", outcome: "accepted" })]);
  assert.deepEqual(shape(rows), ["store raise whole", "A write whole"]);
});

test("renewals in a row are one row", () => {
  const renew = (seq, at) => event(seq, "A", "renew", at, { number: "33", lease_ms: 100 });
  const rows = arrange([renew(1, 10), renew(2, 20), renew(3, 30), event(4, "A", "read", 40), renew(5, 50)]);
  assert.deepEqual(rows.map((r) => r.times), [3, 1, 1]);
});

test("the mark rises by a step for a new number, and is dashed where it is retired", () => {
  const rows = placed([
    event(1, "lock", "raise", 1, { marks: [mark("33")] }),
    event(2, "A", "write", 2, { marks: [mark("33")] }),
    event(3, "A", "release", 3, { marks: [mark("33", true)] }),
    event(4, "lock", "raise", 4, { marks: [mark("34")] }),
  ]);
  const [track] = marks(rows, [mark("32", true)]);
  assert.deepEqual(track.steps.map((s) => [s.number, s.retired, s.rose, s.rank]), [
    ["32", true, true, 1], ["33", false, true, 2], ["33", true, false, 2], ["34", false, true, 3],
  ]);
});

test("the second resource has a line only once it was used", () => {
  const stock = { resource: "stock", number: "7", retired: false };
  assert.equal(marks(placed([event(1, "A", "read", 1)]), [mark("32"), stock]).length, 1);
  assert.equal(marks(placed([event(1, "A", "acquire", 1, { resource: "stock", number: "7" })]), [mark("32"), stock]).length, 2);
});

const grant = (seq, actor, number, at) => event(seq, actor, "acquire", at, { number, outcome: "granted", lease_ms: 100 });

test("a lease ends when it is released, when its hold is over, and when its time is up", () => {
  const rows = placed([grant(1, "A", "33", 0), event(2, "operator", "expire", 50, { number: "33" }), grant(3, "B", "34", 60), event(4, "B", "release", 70, { number: "34" })]);
  assert.deepEqual(leases(rows).map((l) => [l.actor, l.end, l.endAt]), [["A", "over", 50], ["B", "released", 70]]);

  const alone = placed([grant(1, "A", "33", 0)]);
  const [lease] = leases(alone);
  assert.equal(lease.end, "");
  assert.equal(wedge(lease, alone, timeline(alone, 0, 40, 100), 40).left, 60);
  const late = wedge(lease, alone, timeline(alone, 0, 400, 100), 400);
  assert.equal(late.over, true);
  assert.ok(late.endY < 100, "it ends before now, where its time was up");
  assert.equal(late.points.at(-1).share, 0);
});

test("a lease that was renewed without an event lasts until its last deadline", () => {
  const rows = placed([grant(1, "A", "33", 0)]);
  const [lease] = leases(rows, [{ actor: "A", resource: "coupon", number: "33", until_ms: 900 }]);
  const w = wedge(lease, rows, timeline(rows, 0, 500, 100), 500);
  assert.equal(w.over, false);
  assert.equal(w.left, 400);
  assert.equal(w.points.at(-1).share, 1, "it was renewed: all of its time is left");
});

test("a pause lasts until its client goes on", () => {
  const rows = placed([event(1, "A", "pause", 1), event(2, "B", "read", 2), event(3, "A", "resume", 3), event(4, "B", "pause", 4)]);
  assert.deepEqual(pauses(rows).map((p) => [p.actor, p.y, p.endY]), [["A", 5, 25], ["B", 35, undefined]]);
});

test("time between rows is by proportion, and never runs upwards", () => {
  const rows = placed([event(1, "A", "read", 100), event(2, "A", "read", 200), event(3, "A", "read", 200)]);
  const y = timeline(rows, 0, 300, 60);
  const late = placed([event(1, "store", "raise", 12), event(2, "A", "write", 10, { done_ms: 11 })]);
  assert.deepEqual(late.map((r) => r.t), [12, 12], "a row is never earlier than the one above it");
  assert.deepEqual([0, 100, 150, 200, 250, 300, 999].map(y), [0, 5, 10, 25, 42.5, 60, 60]);
});

test("names and lines", () => {
  assert.equal(plain("lab:0123abcd.coupon"), "coupon");
  assert.equal(plain("coupon:42"), "coupon:42");
  assert.deepEqual(wrap("one two three four", 9, 2), ["one two", "three …"]);
  assert.deepEqual(wrap("one two", 9, 2), ["one two"]);
});

test("a refusal names the number it was older than, and no comparison that is not one", async () => {
  const { answers } = await import("../page/labels.js");
  const refused = { outcome: "refused", reason: "superseded", number: "33" };
  assert.equal(answers({ ...refused, highest: "34" }), "REFUSED: 33 is older than 34");
  assert.equal(answers({ ...refused, action: "pair", highest: "8" }), "REFUSED: older than 8");
  assert.equal(answers({ outcome: "refused", reason: "below-minimum" }), "REFUSED: below minimum");
});
