// A script in a link: #/sandbox?mode=grant&ttl=10s&do=A.acquire~A.read~operator.expire
// Everything in a link was written by somebody else: it is checked word by word, and nothing of it
// runs before it was asked for.

export const CLIENT_ACTIONS = ["acquire", "read", "write", "release", "pause", "resume", "reenter", "check", "renew", "receipt",
  "commit", "pair", "add", "add-free", "retry", "forge", "lose-reply"];
export const OPERATOR_ACTIONS = ["expire", "flush", "evict", "wait", "forget-node"];
export const MODES = ["none", "lock", "writes", "grant"];

const MOST = 100;
const ACTIONS = new Map([["A", CLIENT_ACTIONS], ["B", CLIENT_ACTIONS], ["operator", OPERATOR_ACTIONS]]);
const OPTIONS = ["resource", "value", "number", "key", "node"];
const FITS = { resource: /^(coupon|stock)$/, value: /^(0|[1-9][0-9]{0,8})$/, number: /^[0-9]{1,16}$/, key: /^[A-Za-z0-9._:-]{1,64}$/, node: /^[123]$/ };
const TTL = /^[0-9]{1,4}(\.[0-9]{1,3})?(ms|s|m)$/;

const encodeCommand = (c) => [`${c.actor}.${c.action}`, ...OPTIONS.filter((o) => c[o]).map((o) => `${o}=${c[o]}`)].join(";");

function decodeCommand(text) {
  const [head, ...options] = text.split(";");
  const [actor, action, ...more] = head.split(".");
  const actions = ACTIONS.get(actor);
  if (!actions || !actions.includes(action) || more.length) throw new Error(`it has a step that does not exist: ${head.slice(0, 40)}`);
  const cmd = { actor, action };
  for (const option of options) {
    const [name, value = ""] = option.split("=");
    if (!OPTIONS.includes(name) || !FITS[name].test(value)) throw new Error(`it has a step with something unknown: ${option.slice(0, 40)}`);
    cmd[name] = name === "node" ? Number(value) : value;
  }
  return cmd;
}

// encode returns the fragment of a script {mode, ttl, lock, commands}.
export function encode(script) {
  const q = new URLSearchParams({ mode: script.mode });
  if (script.ttl) q.set("ttl", script.ttl);
  if (script.lock) q.set("lock", script.lock);
  q.set("do", script.commands.map(encodeCommand).join("~"));
  // These are allowed in a fragment as they are, and make it readable.
  return `#/sandbox?${q}`.replaceAll("%7E", "~").replaceAll("%3B", ";").replaceAll("%3D", "=");
}

// decode returns the script of a fragment's query, or throws an Error that says what is wrong.
export function decode(query) {
  const q = new URLSearchParams(query);
  const script = { mode: q.get("mode") || "grant", commands: [] };
  if (!MODES.includes(script.mode)) throw new Error(`it names a mode that does not exist; allowed are ${MODES.join(", ")}`);
  const ttl = q.get("ttl");
  if (ttl && !TTL.test(ttl)) throw new Error("its lease time is not a duration such as 10s");
  if (ttl) script.ttl = ttl;
  const lock = q.get("lock");
  if (lock && lock !== "nodes") throw new Error('its lock is unknown; allowed is "nodes"');
  if (lock) script.lock = lock;
  const steps = (q.get("do") || "").split("~").filter(Boolean);
  if (steps.length > MOST) throw new Error(`it has ${steps.length} steps; at most ${MOST} are allowed`);
  script.commands = steps.map(decodeCommand);
  return script;
}
