// A guided chapter: one step at a time, and before a decisive one a prediction.

import { during } from "./idle.js";
import { action, byId, h, prose, swap } from "./dom.js";
import { commandText, isWrite } from "./labels.js";
import { introduced } from "./board.js";
import { finish } from "./settings.js";

// Guide plays one chapter. lab is the app: begin(spec, name), session, fail(error, again),
// announce(text), next(slug), progress().
export class Guide {
  constructor(lab, chapter) {
    this.lab = lab;
    this.chapter = chapter;
    this.part = 0;
    this.over = false;
  }

  get current() {
    return this.chapter.parts[this.part];
  }

  get next() {
    return this.over || !this.current ? undefined : this.current.steps[this.done];
  }

  // start begins the current part with a session of its own.
  start() {
    return during(async () => {
      this.done = 0;
      this.last = null;
      this.over = this.running = false;
      this.session = null;
      this.tell();
      const { mode, lock, ttl } = this.current;
      try {
        const session = await this.lab.begin({ mode, lock, ttl }, `${this.chapter.title}: ${this.current.title || "the run"}`);
        if (!session) return; // something else was begun meanwhile
        this.session = session;
        this.tell();
      } catch (problem) {
        this.lab.fail(problem, () => this.start());
      }
    });
  }

  reset() {
    return this.start();
  }

  // canGo tells whether a step can be made without asking the reader.
  get canGo() {
    return Boolean(this.session && !this.running && this.next && !this.next.predict);
  }

  // go makes the next step, or goes on to the next part, or ends the chapter.
  go(answer) {
    if (!this.session || this.running) return Promise.resolve();
    if (!this.next) return this.advance();
    return during(async () => {
      const step = this.next;
      const { session } = this;
      this.running = true;
      // The controls stay as they are, and keep the focus, while the step is under way.
      for (const el of byId("story").querySelectorAll("[aria-disabled]")) el.setAttribute("aria-disabled", "true");
      const before = session.state.seq;
      try {
        await session.ready(step.command, 20000);
        const done = await session.send(step.command);
        if (session !== this.lab.session) return; // given up meanwhile
        this.done++;
        const came = session.events.filter((e) => e.seq > before);
        const decisive = (done.resumed || []).at(-1) || done.event;
        this.last = { step, answer, status: done.status, came, decisive };
        this.lab.stage.look(undefined);
        if (step.predict) this.lab.announce(`Your prediction was ${answer === step.predict.right ? "right" : "wrong"}. ${step.predict.why}`);
      } catch (problem) {
        if (session === this.lab.session) this.lab.fail(problem, () => this.start());
      }
      if (session !== this.lab.session) return;
      this.running = false;
      this.tell();
    });
  }

  async advance() {
    if (this.part + 1 < this.chapter.parts.length) {
      this.part++;
      await this.start();
      byId("story-title").focus();
      return;
    }
    this.over = true;
    finish(this.chapter.slug);
    this.lab.progress();
    this.tell();
  }

  // tell writes the story's panel anew. The keyboard stays in it, at the next control.
  tell() {
    const { chapter, current: part } = this;
    const parts = chapter.parts.length;
    document.body.dataset.step = String(this.done || 0);
    document.body.dataset.part = String(this.part);
    document.body.dataset.chapterDone = String(this.over);
    const held = byId("story").contains(document.activeElement);
    swap(byId("story"),
      this.part === 0 && this.done === 0 && prose(chapter.lead, { class: "lead" }),
      (parts > 1 || part.title) && h("p", { class: "part" }, parts > 1 && h("span", { class: "count", text: `Part ${this.part + 1} of ${parts}` }), " ", part.title),
      this.modeNote(part),
      this.last && this.told(this.last),
      this.over ? this.ending() : this.asked(),
    );
    if (held) byId("story").querySelector("[data-first]")?.focus({ preventScroll: true });
  }

  modeNote(part) {
    const mode = this.lab.about.modes.find((m) => m.mode === part.mode);
    return mode && h("p", { class: "mode-note" }, h("span", { class: "badge", text: mode.title }), " ", this.done === 0 && !this.over && mode.text);
  }

  // answered is what a step's answer was, in words: for a resume, what became of what was parked.
  answered(step, status, came, decisive) {
    const who = step.command.actor;
    if (status === "waiting") return `${who} waits for the lock.`;
    if (status === "parked") return `${who} is stopped: this will be the first thing that it does when it goes on.`;
    const after = step.command.action === "resume" && came.findLast((e) => e.actor === who && isWrite(e));
    const e = after || decisive || came.at(-1);
    return e ? `${e.text}${e.damage ? ` Damage: ${e.damage}` : ""}` : "";
  }

  // told is what came of the last step, beside what was predicted.
  told({ step, answer, status, came, decisive }) {
    const text = this.answered(step, status, came, decisive);
    if (!step.predict) return text && h("div", { class: "came" }, prose(text));
    const right = answer === step.predict.right;
    return h("div", { class: `verdict ${right ? "right" : "wrong"}`, "data-testid": "verdict" },
      h("p", {}, h("strong", { text: right ? "✓ You predicted: " : "✕ You predicted: " }), step.predict.answers[answer]),
      h("p", {}, h("strong", { text: "It answered: " }), text || "nothing"),
      prose(step.predict.why, { class: "why" }));
  }

  asked() {
    const { steps } = this.current;
    const step = this.next;
    const waiting = Boolean(!this.session || this.running);
    if (!step) {
      const more = this.part + 1 < this.chapter.parts.length;
      return [this.current.after && prose(this.current.after, { class: "after" }),
        this.nextButton(more ? `Next: ${this.chapter.parts[this.part + 1].title || "the next part"}` : "Finish the chapter", waiting)];
    }
    const press = () => (step.predict ? byId("story").querySelector("input:checked, input").focus() : this.go());
    return [
      h("p", { class: "count", text: `Step ${this.done + 1} of ${steps.length}` }),
      prose(step.say, { class: "say", id: "say" }),
      step.predict ? this.question(step.predict, waiting) : this.nextButton(commandText(step.command), waiting),
      introduced(steps.slice(0, this.done + 1).map((st) => st.command), waiting || step.predict ? null : step.command, press),
    ];
  }

  // nextButton is not disabled while a step is under way, so that it keeps the focus: it does nothing then.
  nextButton(text, waiting) {
    return h("p", { class: "actions" },
      action(text, () => this.go(), {
        class: "primary", "data-testid": "step-next", "data-first": true, "aria-disabled": String(waiting), "aria-describedby": this.next && "say",
      }));
  }

  question(q, waiting) {
    const name = `answer-${this.part}-${this.done}`;
    const hint = h("p", { class: "hint", role: "status" });
    const submit = (ev) => {
      ev.preventDefault();
      const chosen = ev.target.querySelector("input:checked");
      if (chosen) this.go(Number(chosen.value));
      else hint.textContent = "Choose an answer first: being wrong is how this is learned.";
    };
    return h("form", { class: "question", onsubmit: submit },
      h("fieldset", { "aria-describedby": "say" }, h("legend", { text: q.ask }),
        q.answers.map((text, i) => h("label", { class: "choice" },
          h("input", { type: "radio", name, value: String(i), "data-testid": `answer-${i}`, "data-first": i === 0 }), h("span", { text })))),
      hint,
      h("p", { class: "actions" },
        h("button", { type: "submit", class: "primary", "data-testid": "predict-submit", "aria-disabled": String(waiting), text: "That is what I expect" })));
  }

  ending() {
    const next = this.lab.next(this.chapter.slug);
    return [
      this.current.after && prose(this.current.after, { class: "after" }),
      h("div", { class: "takeaway", "data-testid": "takeaway" }, h("h3", { text: "To remember" }), prose(this.chapter.takeaway)),
      h("p", { class: "actions" },
        next && h("a", {
          class: "button primary", href: `#/${next.slug}`, "data-testid": "next-chapter", "data-first": true, text: next.sandbox ? next.title : `Next chapter: ${next.title}`,
        }),
        action("Play it again", () => this.again())),
    ];
  }

  again() {
    this.part = 0;
    byId("story-title").focus();
    return this.start();
  }

  // script is what comparing plays: the commands of the current part.
  get script() {
    const { mode, ttl, lock, steps } = this.current;
    return { mode, ttl, lock, commands: steps.map((st) => st.command) };
  }
}
