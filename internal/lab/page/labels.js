// The short words of the diagram and of the buttons. The long sentences are the server's.

export const LANES = ["A", "B", "lock", "store"];

export const LANE_TITLES = { A: "Client A", B: "Client B", lock: "Lock", store: "Store" };

const LOCK_ACTIONS = new Set(["acquire", "reenter", "renew", "release", "expire", "flush", "evict", "forget-node"]);
const SELF_ACTIONS = new Set(["check", "pause", "resume", "wake", "lose-reply", "wait"]);
const WRITES = new Set(["write", "receipt", "commit", "pair", "add", "add-free", "retry", "forge"]);

export const isWrite = (e) => WRITES.has(e.action);
export const isResume = (e) => e.action === "resume" || e.action === "wake";

// lanesOf says from which lane to which an event goes; `to` is "" for what a lane does by itself.
export function lanesOf(e) {
  const known = (name) => LANES.includes(name);
  let to = known(e.to) ? e.to : "";
  // What failed before anything was sent, and what needs no lock where there is none, goes nowhere.
  const sent = e.outcome !== "failed" && !(LOCK_ACTIONS.has(e.action) && e.outcome === "ok" && !e.number);
  if (!to && sent && !SELF_ACTIONS.has(e.action)) {
    if (LOCK_ACTIONS.has(e.action)) to = "lock";
    else if (isWrite(e) || ["read", "raise", "retire"].includes(e.action)) to = "store";
  }
  if (!known(e.actor)) return { from: to || "lock", to: "" };
  return { from: e.actor, to: to === e.actor || SELF_ACTIONS.has(e.action) ? "" : to };
}

// unchecked tells whether a mark is there and nobody looks at it.
export const unchecked = ({ mode }) => mode === "lock";

// verdict sorts an outcome by how it is drawn.
export function verdict(e) {
  switch (e.outcome) {
    case "accepted":
      return "good";
    case "refused":
      return "bad";
    case "lost":
      return e.action === "check" ? "lost" : "bad";
    case "failed":
    case "unknown":
      return "unknown";
    default:
      return "plain";
  }
}

// asks is what a request says, in one to three words.
export function asks(e) {
  const value = e.value ? ` ${e.value}` : "";
  switch (e.action) {
    case "reenter":
      return "acquire again";
    case "write":
    case "forge":
      return e.action + value;
    case "add":
      return `add ${e.value || "-1"}`;
    case "add-free":
      return "add in one call";
    case "receipt":
      return "put receipt";
    case "pair":
      return "commit both";
    case "raise":
      return e.actor === "store" && e.number ? `hears of ${e.number}` : "raise";
    case "check":
      return "lease?";
    case "pause":
      return "paused";
    case "resume":
    case "wake":
      return "goes on";
    case "expire":
      return e.number ? `hold of ${e.number} is over` : "nothing to end";
    case "flush":
      return "counter flushed";
    case "evict":
      return e.number ? `evict ${e.number}` : "evict";
    case "forget-node":
      return e.value ? `node ${e.value} forgot` : "a node forgot";
    case "lose-reply":
      return "next reply is lost";
    case "wait":
      return "one lease time passes";
    default:
      return e.action || "?";
  }
}

const REASONS = {
  // Of two tokens, the event tells the first one's number, and the store may have refused the other.
  superseded: (e) => (!e.highest ? `${e.number} is old`
    : Number(e.highest) > Number(e.number) ? `${e.number} is older than ${e.highest}` : `older than ${e.highest}`),
  retired: (e) => `${e.number} is retired`,
  duplicate: (e) => `${e.number} is another's`,
  ungranted: (e) => `${e.number} was never granted`,
};

// answers is what came of an event; brief is for narrow diagrams.
export function answers(e, brief) {
  switch (e.outcome) {
    case "granted":
      return e.number ? `token ${e.number}` : "granted";
    case "accepted":
      return "accepted";
    case "refused": {
      if (brief) return "refused";
      const why = REASONS[e.reason];
      return `REFUSED: ${why && e.number ? why(e) : (e.reason || "no").replaceAll("-", " ")}`;
    }
    case "waiting":
      return "waits";
    case "lost":
      return e.action === "check" ? "lost" : brief ? "lost" : "lease lost";
    case "failed":
      return "failed";
    case "unknown":
      return brief ? "unknown" : "answer unknown";
    case "ok":
      if (e.action === "check") return e.number ? "alive" : "no lock";
      if (["acquire", "reenter", "renew", "release"].includes(e.action) && !e.number && !e.to) return "(no lock)";
      if (e.action === "read") return e.value ? (brief ? e.value : `${e.value} left`) : "";
      return "";
    default:
      return e.outcome || "";
  }
}

// clock tells a time since the beginning of a run.
export function clock(ms, brief) {
  const total = Math.max(0, ms) / 1000;
  if (total < 100) return brief ? total.toFixed(1) : `${total.toFixed(2)} s`;
  const m = Math.floor(total / 60);
  const rest = String(Math.floor(total % 60)).padStart(2, "0");
  return brief ? `${m}:${rest}` : `${m} m ${rest} s`;
}

const VERBS = {
  reenter: "acquire again",
  check: "look at the lease",
  receipt: "put the receipt",
  commit: "commit both writes",
  pair: "commit coupon and stock",
  add: "add −1",
  "add-free": "add −1 in one call",
  retry: "send it again",
  forge: "forge a token",
  "lose-reply": "lose the next reply",
  expire: "expire now",
  flush: "flush the counter",
  "forget-node": "a node forgets",
  wait: "wait one lease time",
};

// verb is an action's name on a button.
export const verb = (action) => VERBS[action] || action;

// commandText is a command in words: "A: write 8".
export function commandText(c) {
  const who = c.actor === "operator" ? "Operator" : c.actor;
  let text = `${who}: ${verb(c.action)}`;
  if (c.value) text += ` ${c.value}`;
  if (c.number) text += ` ${c.number}`;
  if (c.node) text += ` (node ${c.node})`;
  if (c.key) text += ` with key ${c.key}`;
  if (c.resource && c.resource !== "coupon") text += `, ${c.resource}`;
  return text;
}
