// Fenced writes from Node, with nothing but its standard library.
//
//     FENCEGATE_URL=http://127.0.0.1:8080 node client.mjs

import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

const URL = process.env.FENCEGATE_URL ?? "http://127.0.0.1:8080";
const API_KEY = process.env.FENCEGATE_API_KEY;

/** The gateway answered no (or not now): status is HTTP's, problem says why, and what became of the call. */
class Refused extends Error {
  constructor(status, problem) {
    super(`${status} ${problem.type.split("/").at(-1)}: ${problem.detail ?? problem.title}`);
    this.status = status;
    this.problem = problem;
  }
}

async function call(method, path, { token, body, json, wait = 0 } = {}) {
  const headers = {};
  if (API_KEY) headers["Authorization"] = `Bearer ${API_KEY}`;
  if (token) headers["Fencing-Token"] = token;
  if (json) {
    headers["Content-Type"] = "application/json";
    body = JSON.stringify(json);
  }
  const reply = await fetch(URL + path, {
    method, headers, body,
    redirect: "error", // a token goes to the gateway, and to nobody else
    signal: AbortSignal.timeout(wait + 5000),
  });
  const text = await reply.text();
  if (reply.ok) return text;
  if (reply.headers.get("content-type") === "application/problem+json") throw new Refused(reply.status, JSON.parse(text));
  throw new Error(`HTTP status ${reply.status}, and not from a gateway`);
}

/** Reads a duration such as 1m29.5s, in milliseconds. */
function milliseconds(duration) {
  const units = { h: 3600e3, m: 60e3, s: 1e3, ms: 1, "µs": 1e-3, ns: 1e-6 };
  return [...duration.matchAll(/([\d.]+)(h|ms|m|s|µs|ns)/g)].reduce((sum, [, n, unit]) => sum + n * units[unit], 0);
}

/** 26 characters A-Z 2-7, 130 random bits. */
const newGrant = () => Array.from(randomBytes(26), (b) => "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"[b & 31]).join("");

/** The lock on a resource, renewed in the background until it is released. */
class Lease {
  static async acquire(resource, { ttl = 10_000, wait = 10_000, label = "node" } = {}) {
    const lease = new Lease();
    lease.path = `/v1/resources/${resource}`;
    lease.ttl = ttl;
    // Our own grant id: the same request, sent again after a lost reply, gets the same hold. A secret.
    const json = { ttl: `${ttl}ms`, wait: `${wait}ms`, label, grant: newGrant() };
    const sent = performance.now(); // trust counts from before the call, on a clock that nobody sets
    let reply;
    for (let attempt = 1; !reply; attempt++) {
      try {
        reply = JSON.parse(await call("POST", `${lease.path}/lock`, { json, wait }));
      } catch (e) {
        if (e instanceof Refused || attempt === 3) throw e;
      }
    }
    lease.token = reply.token;
    lease.number = reply.number;
    lease.deadline = sent + milliseconds(reply.waited) + milliseconds(reply.expires_in);
    lease.stop = new AbortController();
    lease.renewals = lease.#renew();
    return lease;
  }

  async #renew() {
    while (await sleep(this.ttl / 3, true, { signal: this.stop.signal }).catch(() => false)) {
      const sent = performance.now();
      try {
        const reply = JSON.parse(await call("PATCH", `${this.path}/lock`, { token: this.token, json: { ttl: `${this.ttl}ms` } }));
        this.deadline = sent + milliseconds(reply.expires_in);
      } catch (e) {
        if (e.status === 412) { // lost: let the work end at its next look
          this.deadline = 0;
          return;
        } // else try again; the deadline stands
      }
    }
  }

  /** Says whether to begin something. It may be wrong a moment later: the store decides, with every write. */
  get trusted() { return performance.now() < this.deadline; }

  get(key) { return call("GET", `${this.path}/records/${key}`, { token: this.token }); }

  put(key, value) { return call("PUT", `${this.path}/records/${key}`, { token: this.token, body: value }); }

  async release() {
    this.stop.abort();
    await this.renewals;
    await call("DELETE", `${this.path}/lock`, { token: this.token });
  }
}

/** Runs work under the lock of a resource. */
async function locked(resource, work) {
  const lease = await Lease.acquire(resource);
  try {
    return await work(lease);
  } finally {
    await lease.release();
  }
}

const coupon = "coupon:node";
await locked(coupon, (lease) => lease.put("left", "10"));

const a = await Lease.acquire(coupon, { ttl: 500 });
const left = Number(await a.get("left"));
console.log(`A holds token ${a.number}, reads ${left}, and is paused`);
a.stop.abort(); // as if the process had been stopped: nothing is renewed

await locked(coupon, async (b) => { // waits until A's lock has run out
  const n = Number(await b.get("left"));
  await b.put("left", String(n - 1));
  console.log(`B holds token ${b.number}, reads ${n}, writes ${n - 1}`);
});

try {
  await a.put("left", String(left - 1));
} catch (e) {
  if (!(e instanceof Refused)) throw e;
  console.log(`A wakes up, writes ${left - 1}, and is refused: ${e.message}`);
}

console.log(`${await locked(coupon, (lease) => lease.get("left"))} are left`);
