// Trace files: taking them in, and writing them.

const MOST_BYTES = 8 << 20;
const MOST_RUNS = 50;
const MOST_EVENTS = 2000;

const isObject = (v) => typeof v === "object" && v !== null && !Array.isArray(v);
const text = (v) => (typeof v === "string" ? v : typeof v === "number" ? String(v) : "");
const number = (v) => (typeof v === "number" && Number.isFinite(v) ? v : 0);

// parse returns the File in a text, or throws an Error that says what is wrong with it. What it
// returns has every field in its type, whatever the file had.
export function parse(content) {
  if (content.length > MOST_BYTES) throw new Error(`The file is larger than ${MOST_BYTES >> 20} MB.`);
  let file;
  try {
    file = JSON.parse(content);
  } catch {
    throw new Error("The file is not JSON. What is wanted is what `fencegate demo --trace file.json` writes.");
  }
  if (!isObject(file) || file.format !== "fencegate-trace") {
    throw new Error('The file is JSON, but no trace: its "format" is not "fencegate-trace".');
  }
  if (file.version !== 1) throw new Error(`The trace has version ${text(file.version) || "none"}; this page knows version 1.`);
  if (!Array.isArray(file.runs) || file.runs.length === 0) throw new Error("The trace has no runs.");
  if (file.runs.length > MOST_RUNS) throw new Error(`The trace has ${file.runs.length} runs; at most ${MOST_RUNS} are shown.`);
  return { source: text(file.source), lock: text(file.lock), store: text(file.store), runs: file.runs.map(run) };
}

function run(r, i) {
  const nth = `Run ${i + 1} of the trace`;
  if (!isObject(r) || !Array.isArray(r.events)) throw new Error(`${nth} has no events.`);
  if (r.events.length > MOST_EVENTS) throw new Error(`${nth} has ${r.events.length} events; at most ${MOST_EVENTS} are shown.`);
  const events = r.events.map((e, n) => event(e, `${nth}, event ${n + 1},`)).sort((a, b) => a.seq - b.seq);
  events.forEach((e, n) => {
    if (n > 0 && events[n - 1].seq === e.seq) throw new Error(`${nth} has two events with the number ${e.seq}.`);
  });
  const a = isObject(r.account) ? r.account : {};
  return {
    name: text(r.name) || `run ${i + 1}`, title: text(r.title) || text(r.name), mode: text(r.mode), moral: text(r.moral),
    account: { initial: text(a.initial), handed_out: text(a.handed_out), remaining: text(a.remaining), held: a.held === true, text: text(a.text) },
    events,
  };
}

function event(e, where) {
  if (!isObject(e)) throw new Error(`${where} is not an object.`);
  if (!Number.isInteger(e.seq) || e.seq < 1) throw new Error(`${where} has no "seq" (1, 2, …).`);
  if (typeof e.actor !== "string" || typeof e.action !== "string") throw new Error(`${where} does not say who did what.`);
  const out = { seq: e.seq, at_ms: number(e.at_ms), done_ms: Math.max(number(e.done_ms), number(e.at_ms)), lease_ms: number(e.lease_ms) };
  for (const k of ["actor", "to", "action", "resource", "key", "number", "value", "outcome", "reason", "highest", "text", "damage"]) out[k] = text(e[k]);
  out.marks = (Array.isArray(e.marks) ? e.marks : []).filter(isObject)
    .map((m) => ({ resource: text(m.resource), number: text(m.number), retired: m.retired === true }));
  out.exchanges = (Array.isArray(e.exchanges) ? e.exchanges : []).filter(isObject).map((x) => ({
    method: text(x.method), url: text(x.url), body: text(x.body), status: number(x.status), reply: text(x.reply), lost: x.lost === true, curl: text(x.curl),
    headers: lines(x.headers), reply_headers: lines(x.reply_headers),
  }));
  if (isObject(e.source)) out.source = { language: text(e.source.language), name: text(e.source.name), text: text(e.source.text) };
  return out;
}

const lines = (v) => (Array.isArray(v) ? v.map(text) : []);

// fileOf makes the File of runs that were played here.
export const fileOf = (lock, store, runs) => ({ format: "fencegate-trace", version: 1, source: "lab", lock, store, runs });
