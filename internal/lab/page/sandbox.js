// The sandbox: every mode, every control, and scripts that came by a link.

import { during } from "./idle.js";
import { action, byId, h, prose, swap } from "./dom.js";
import { commandText } from "./labels.js";
import * as board from "./board.js";

// Sandbox has the same surface as a chapter's Guide: start, reset, go, canGo, script.
export class Sandbox {
  constructor(lab, chapter, offered, problem) {
    this.lab = lab;
    this.chapter = chapter;
    this.offered = offered; // a script from a link, not run until it is asked for
    this.problem = problem; // what was wrong with a link
    this.spec = { mode: offered ? offered.mode : "grant", ttl: offered ? offered.ttl : "", lock: offered ? offered.lock : "" };
    this.queue = [];
  }

  start() {
    return during(async () => {
      this.session = null;
      this.running = false;
      this.tell();
      const spec = Object.fromEntries(Object.entries(this.spec).filter(([, v]) => v));
      try {
        const session = await this.lab.begin(spec, this.chapter.title);
        if (!session) return; // something else was begun meanwhile
        this.session = session;
        session.subscribe((what) => {
          if (what.state) board.update(this.board, session.state.clients);
        });
        this.tell();
      } catch (problem) {
        this.lab.fail(problem, () => this.start());
      }
    });
  }

  reset() {
    this.queue = [];
    return this.start();
  }

  get canGo() {
    return Boolean(this.session && !this.running && this.queue.length);
  }

  // go sends the next command of a script that is being played.
  async go() {
    if (!this.canGo) return;
    const { queue } = this; // a reset makes another
    if (await this.send(queue[0])) queue.shift();
    else queue.length = 0;
    this.tellQueue();
  }

  send(cmd) {
    const { session } = this;
    if (!session) return Promise.resolve(false);
    return during(async () => {
      this.running = true;
      try {
        await session.ready(cmd, this.queue.length ? 20000 : 0);
        await session.send(cmd);
        if (session !== this.lab.session) return false; // given up meanwhile
        this.lab.stage.look(undefined);
        this.lab.notice("");
        document.body.dataset.step = String(session.commands.length);
        return true;
      } catch (problem) {
        if (session === this.lab.session) this.lab.fail(problem, () => this.start());
        return false;
      } finally {
        if (session === this.session) this.running = false;
      }
    });
  }

  tell() {
    document.body.dataset.step = "0";
    document.body.dataset.part = "0";
    document.body.dataset.chapterDone = "false";
    const lockNodes = this.spec.lock === "nodes";
    const can = { nodes: lockNodes, flush: lockNodes || this.lab.about.flush !== false };
    this.board = this.session ? board.full(this.session.state.clients, (cmd) => this.send(cmd), can) : h("p", { class: "hint", text: "A session begins …" });
    swap(byId("story"),
      prose(this.chapter.lead, { class: "lead" }),
      this.problem && h("p", { class: "warn", text: `The link could not be used: ${this.problem}.` }),
      this.offer(),
      h("div", { id: "queue" }),
      this.modes(),
      this.board,
    );
    this.tellQueue();
  }

  modes() {
    const { modes } = this.lab.about;
    const choose = (ev) => {
      this.spec.mode = ev.target.value;
      this.reset().then(() => byId("story").querySelector("input[name=mode]:checked")?.focus());
    };
    return [
      h("fieldset", { class: "modes" }, h("legend", { text: "Mode" }),
        modes.map((m) => h("label", { class: "choice" },
          h("input", {
            type: "radio", name: "mode", value: m.mode, checked: m.mode === this.spec.mode, "data-testid": `mode-${m.mode}`, "aria-describedby": "mode-text", onchange: choose,
          }),
          h("span", { text: m.title }))),
        h("p", { class: "hint", id: "mode-text", text: `${(modes.find((m) => m.mode === this.spec.mode) || {}).text || ""} Another mode begins a new session.` })),
      this.session && h("details", { class: "session-options" }, h("summary", { text: "Lease time and lock" }), this.settings()),
    ];
  }

  settings() {
    const { about } = this.lab;
    const ttl = h("input", { id: "ttl", size: "6", value: this.spec.ttl || about.ttl_default, pattern: "[0-9]+(\\.[0-9]+)?(ms|s|m)" });
    const nodes = h("input", { type: "checkbox", id: "nodes", checked: this.spec.lock === "nodes" });
    const apply = (ev) => {
      ev.preventDefault();
      this.spec.ttl = ttl.value;
      this.spec.lock = nodes.checked ? "nodes" : "";
      byId("story-title").focus();
      this.reset();
    };
    return h("form", { class: "fields", onsubmit: apply },
      h("label", { for: "ttl" }, h("span", { text: `Lease time, ${about.ttl_least} to ${about.ttl_most}` }), ttl),
      h("label", { for: "nodes", class: "check" }, nodes, h("span", { text: "Three lock nodes in place of the lock (a naive Redlock)" })),
      h("button", { type: "submit", class: "small", text: "Begin a new session with these" }));
  }

  offer() {
    if (!this.offered || !this.offered.commands.length) return null;
    const { commands } = this.offered;
    const play = () => {
      this.queue = [...commands];
      this.offered = null;
      byId("story").querySelector(".offer")?.remove();
      this.tellQueue();
      byId("queue").querySelector("button")?.focus();
      this.lab.player.play();
    };
    return h("div", { class: "offer" },
      h("p", {}, `This link brings a script of ${commands.length} ${commands.length === 1 ? "step" : "steps"}:`),
      h("ol", {}, commands.map((c) => h("li", { text: commandText(c) }))),
      h("p", { class: "actions" }, action("Play the shared script", play, {
        class: "primary", "data-testid": "play-shared", "aria-disabled": String(!this.session),
      })));
  }

  tellQueue() {
    const el = byId("queue");
    if (!el) return;
    const held = el.contains(document.activeElement);
    swap(el, this.queue.length > 0 && h("p", { class: "actions" },
      action(`Next: ${commandText(this.queue[0])}`, () => this.go(), { class: "primary", "data-testid": "step-next" }), " ",
      h("span", { class: "hint", text: `${this.queue.length} to go` })));
    if (held) el.querySelector("button")?.focus();
  }

  // script is what was done so far, as a script to share and to compare.
  get script() {
    return { ...this.spec, commands: this.session ? this.session.commands : [] };
  }
}
