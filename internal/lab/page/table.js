// The diagram as a table, for those who read instead of look.

import { h, swap } from "./dom.js";
import { clock } from "./labels.js";
import { plain } from "./layout.js";

const COLUMNS = ["#", "Time", "Who", "What", "Token", "Outcome", "Mark after it", "In words"];

const markText = (marks) => (marks || []).map((m) => `${marks.length > 1 ? `${plain(m.resource)} ` : ""}${m.number}${m.retired ? " retired" : ""}`).join(", ");

// show fills el with a table of the events; select(seq) is called by its buttons, which keep the focus.
export function show(el, events, name, selected, select) {
  const held = el.contains(document.activeElement) && document.activeElement.closest("tr")?.dataset.testid;
  const row = (e) => h("tr", { class: `${e.damage ? "damaged" : ""} ${selected === e.seq ? "selected" : ""}`, "data-testid": `row-${e.seq}` },
    h("td", {}, h("button", { type: "button", class: "link", text: e.seq, "aria-label": `Details of event ${e.seq}`, onclick: () => select(e.seq) })),
    h("td", { text: clock(e.done_ms) }),
    h("td", { text: e.actor }),
    h("th", { scope: "row", text: `${e.action}${e.value ? ` ${e.value}` : ""}${plain(e.resource) === "stock" ? ", stock" : ""}` }),
    h("td", { text: e.number || "" }),
    h("td", { class: `outcome ${e.outcome}`, text: `${e.outcome || ""}${e.reason ? `: ${e.reason}` : ""}` }),
    h("td", { text: markText(e.marks) }),
    h("td", { class: "words", text: `${e.text || ""}${e.damage ? ` Damage: ${e.damage}` : ""}` }));
  swap(el, h("table", {},
    h("caption", { text: `${name}: ${events.length} events in the order in which they ended` }),
    h("thead", {}, h("tr", {}, COLUMNS.map((c) => h("th", { scope: "col", text: c })))),
    h("tbody", {}, events.map(row))));
  if (held) el.querySelector(`[data-testid="${held}"] button`)?.focus({ preventScroll: true });
}
