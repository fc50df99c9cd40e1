// The panel about one event: a sentence, the exact requests, and what decided.

import { h, prose, swap } from "./dom.js";
import { clock } from "./labels.js";

const LANGUAGES = { lua: "Lua script", sql: "SQL statement", go: "Go code" };

async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    const range = document.createRange(); // no clipboard here: select it, so that a key copies it
    range.selectNodeContents(button.parentElement.querySelector("code"));
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    button.textContent = "Selected";
  }
  setTimeout(() => (button.textContent = "Copy"), 2000);
}

const block = (text, label) => h("pre", { tabindex: "0", "aria-label": label }, h("code", { text }));

function pretty(body) {
  try {
    return JSON.stringify(JSON.parse(body), null, 2);
  } catch {
    return body;
  }
}

const message = (first, headers, body) => [first, ...(headers || [])].join("\n") + (body ? `\n\n${pretty(body)}` : "");

function exchange(x, i, all) {
  const nth = all.length > 1 ? ` ${i + 1} of ${all.length}` : "";
  const came = x.status ? message(`${x.status}`, x.reply_headers, x.reply) : "No response came.";
  return h("section", { class: "exchange" },
    h("h3", { text: `Request${nth}` }),
    block(message(`${x.method} ${x.url}`, x.headers, x.body), `Request${nth}`),
    h("h3", { text: `Response${nth}` }),
    x.lost && h("p", { class: "hint", text: "The server sent this; it was thrown away before the client saw it." }),
    block(came, `Response${nth}`),
    x.curl && h("h3", { text: "The same with curl" }),
    x.curl && h("div", { class: "curl" }, block(x.curl, "curl command"),
      h("button", { type: "button", class: "small", text: "Copy", "aria-label": "Copy the curl command", onclick: (ev) => copy(x.curl, ev.currentTarget) })));
}

// show fills the panel with an event; without one it says how to get one.
export function show(el, e) {
  if (!e) {
    swap(el, h("p", { class: "hint", text: "Select an event in the diagram to see its exact request and response, and what decided." }));
    return;
  }
  const rest = [];
  if (e.exchanges && e.exchanges.length) rest.push(...e.exchanges.map(exchange));
  else rest.push(h("p", { class: "hint", text: "No request of the client's belongs to this: it happened inside." }));
  swap(el,
    prose(e.text || `${e.actor}: ${e.action}`, { class: "sentence" }),
    e.damage && h("p", { class: "damage-note" }, h("strong", { text: "Damage. " }), e.damage),
    h("p", { class: "hint", text: `Event ${e.seq}, at ${clock(e.at_ms)}${e.done_ms - e.at_ms >= 1 ? `, answered after ${e.done_ms - e.at_ms} ms` : ""}.` }),
    ...rest,
    e.source && h("details", { class: "source" },
      h("summary", { text: `What decided: ${LANGUAGES[e.source.language] || "code"} ${e.source.name}` }),
      block(e.source.text, e.source.name)));
}
