// The lab's HTTP API, below the page's own address.

const base = new URL("api/", document.baseURI);

// Problem is an answer that says no (status 400 and above), or no answer at all (status 0).
export class Problem extends Error {
  constructor(status, type, message) {
    super(message);
    this.status = status;
    this.type = type;
  }
}

async function call(method, path, body) {
  let response;
  try {
    response = await fetch(new URL(path, base), {
      method,
      headers: body === undefined ? {} : { "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
      cache: "no-store",
    });
  } catch {
    throw new Problem(0, "", "The server does not answer.");
  }
  if (response.status === 204) return null;
  let answer = null;
  try {
    answer = await response.json();
  } catch {
    // an empty or foreign body: the status has to do
  }
  if (response.ok && answer) return answer;
  const said = answer && (answer.detail || answer.title);
  throw new Problem(response.status, (answer && answer.type) || "", said || `The server answered ${response.status}.`);
}

const path = (id) => `sessions/${encodeURIComponent(id)}`;

export const about = () => call("GET", "about");
export const newSession = (spec) => call("POST", "sessions", spec);
export const state = (id) => call("GET", path(id));
export const command = (id, cmd) => call("POST", `${path(id)}/commands`, cmd);
export const events = (id) => new EventSource(new URL(`${path(id)}/events`, base));

// end gives a session up, also while the page is being left. That it could not be is nobody's trouble.
export const end = (id) => fetch(new URL(path(id), base), { method: "DELETE", keepalive: true }).catch(() => {});
