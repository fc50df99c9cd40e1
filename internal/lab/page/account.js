// The coupon card, and the truth check on it: handed out + remaining = what there was.

import { h, swap } from "./dom.js";
import { isWrite } from "./labels.js";
import { plain } from "./layout.js";

// fromEvents counts by the events alone, where nobody has told how things stood (a trace file,
// looked at halfway).
export function fromEvents(events, initial) {
  const writes = events.filter((e) => isWrite(e) && e.outcome === "accepted" && e.action !== "receipt" && plain(e.resource) !== "stock");
  const last = writes.findLast((e) => /^-?\d+$/.test(e.value || ""));
  const remaining = last ? last.value : initial;
  const sum = writes.length + Number(remaining);
  return {
    initial, handed_out: String(writes.length), remaining, held: sum === Number(initial),
    text: sum === Number(initial) ? "all accounted for" : sum > Number(initial) ? `${sum - initial} too many` : `${initial - sum} vanished`,
  };
}

// sum tells the truth check as a line of arithmetic.
export function sum(a) {
  const total = Number(a.handed_out) + Number(a.remaining);
  return a.held ? `${a.handed_out} + ${a.remaining} = ${a.initial}` : `${a.handed_out} + ${a.remaining} = ${total}, not ${a.initial}`;
}

// show fills the card. damage is the list of what was lost; testids only for the page's main card.
export function show(el, account, { damage = [], stock = "", marks = [], noCheck = false, testids = false } = {}) {
  if (!account) {
    swap(el);
    return;
  }
  const fact = (title, value, id) => h("div", { class: "fact" }, h("dt", { text: title }), h("dd", { text: value, "data-testid": testids && id }));
  el.classList.toggle("broken", !account.held);
  swap(el,
    h("dl", { class: "facts" },
      fact("Handed out", account.handed_out, "account-handed-out"),
      fact("Remaining", account.remaining, "account-remaining"),
      stock && fact("Stock left", stock),
      marks.map((m) => h("div", { class: `fact mark-fact ${m.retired ? "retired" : ""}` },
        h("dt", { text: marks.length > 1 ? `Mark of ${plain(m.resource)}` : "Store's mark" }),
        h("dd", {},
          h("span", { class: "mark-number", text: m.number, "data-testid": testids && `mark-${plain(m.resource)}` }),
          (m.retired || noCheck) && h("small", { text: noCheck ? " not checked" : " retired" }))))),
    h("p", { class: `truth ${account.held ? "held" : "not-held"}`, "data-testid": testids && "account-truth" },
      h("span", { class: "sum", text: sum(account) }), " ",
      h("strong", { text: `${account.held ? "✓" : "✕"} ${account.text}` })),
    damage.length > 0 && h("ul", { class: "losses", "aria-label": "Damage" }, damage.map((d) => h("li", { text: d }))));
}
