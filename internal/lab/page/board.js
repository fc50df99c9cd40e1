// The board of controls: one button for each command of a client or the operator.

import { h } from "./dom.js";
import { verb } from "./labels.js";
import { CLIENT_ACTIONS, OPERATOR_ACTIONS } from "./share.js";

const MAIN = ["acquire", "read", "write", "release", "pause", "resume"];
const MAIN_OPERATOR = ["expire", "flush", "wait"];

const button = (actor, action, props) =>
  h("button", {
    type: "button", text: verb(action), "data-testid": `${actor}-${action}`, "aria-label": `${actor === "operator" ? "Operator" : actor}: ${verb(action)}`, ...props,
  });

// introduced makes the board of a chapter: what was used so far, of which only the next one, if any,
// can be pressed. commands are those of the steps up to the next one.
export function introduced(commands, next, press) {
  const seen = new Map();
  for (const c of commands) seen.set(`${c.actor}-${c.action}`, c);
  const group = (actor, title) => {
    const list = [...seen.values()].filter((c) => c.actor === actor);
    if (!list.length) return null;
    return h("div", { class: `controls ${actor}`, role: "group", "aria-label": title }, h("span", { class: "who", text: title }),
      list.map((c) => {
        const isNext = next && c.actor === next.actor && c.action === next.action;
        return button(c.actor, c.action, { class: isNext ? "next" : "", disabled: !isNext, onclick: press });
      }));
  };
  return h("div", { class: "board small-board" }, group("A", "Client A"), group("B", "Client B"), group("operator", "Operator"));
}

// full makes the sandbox's board. send(command) is called with what the options say at that time;
// clients are a State's; nodes tells whether there are lock nodes to forget, flush whether the lock
// store can be made to forget.
export function full(clients, send, { nodes, flush }) {
  const options = {
    resource: h("select", { id: "option-resource" }, h("option", { value: "coupon", text: "coupon" }), h("option", { value: "stock", text: "stock" })),
    value: h("input", { id: "option-value", inputmode: "numeric", pattern: "0|[1-9][0-9]{0,8}", size: "6", placeholder: "read − 1" }),
    number: h("input", { id: "option-number", inputmode: "numeric", pattern: "[0-9]{1,16}", size: "6", placeholder: "holder's" }),
    key: h("input", { id: "option-key", pattern: "[A-Za-z0-9._:\\-]{1,64}", size: "8", placeholder: "none" }),
    node: h("select", { id: "option-node" }, ["1", "2", "3"].map((n) => h("option", { value: n, text: n }))),
  };
  const wants = {
    value: ["write"], number: ["evict", "forge"], key: ["add", "add-free", "commit"], node: ["forget-node"],
  };
  const press = (actor, action) => {
    const cmd = { actor, action };
    if (options.resource.value === "stock") cmd.resource = "stock";
    for (const [name, actions] of Object.entries(wants)) {
      const field = options[name];
      if (!actions.includes(action) || !field.value) continue;
      if (!field.checkValidity()) return field.reportValidity();
      cmd[name] = name === "node" ? Number(field.value) : field.value;
    }
    return send(cmd);
  };
  const row = (actor, actions) => actions.map((action) => button(actor, action, {
    onclick: () => press(actor, action), "data-pauses": action === "pause" || action === "resume" ? action : null,
  }));
  const client = (name) => h("div", { class: `controls ${name}`, role: "group", "aria-label": `Client ${name}` },
    h("span", { class: "who", text: `Client ${name}` }), row(name, MAIN),
    h("details", { class: "more" }, h("summary", { text: "More", "aria-label": `More actions of ${name}`, "data-testid": `${name}-more` }),
      h("div", { class: "more-row" }, row(name, CLIENT_ACTIONS.filter((a) => !MAIN.includes(a))))));
  const rest = OPERATOR_ACTIONS.filter((a) => !MAIN_OPERATOR.includes(a) && (a !== "forget-node" || nodes));
  const field = (name, title) => h("label", { for: `option-${name}` }, h("span", { text: title }), options[name]);
  const board = h("div", { class: "board" }, client("A"), client("B"),
    h("div", { class: "controls operator", role: "group", "aria-label": "Operator" }, h("span", { class: "who", text: "Operator" }),
      row("operator", [...MAIN_OPERATOR, ...rest].filter((a) => a !== "flush" || flush))),
    h("details", { class: "options" }, h("summary", { text: "Options of the next command", "data-testid": "options" }),
      h("div", { class: "fields" }, field("resource", "Resource"), field("value", "Value to write"), field("number", "Number (evict, forge)"),
        field("key", "Idempotency key"), nodes && field("node", "Node"))));
  update(board, clients);
  return board;
}

// update follows the clients: who is paused can be resumed, and the other way round.
export function update(board, clients) {
  for (const c of clients || []) {
    for (const b of board.querySelectorAll(`.controls.${c.name} [data-pauses]`)) b.disabled = (b.dataset.pauses === "pause") === c.paused;
  }
}
