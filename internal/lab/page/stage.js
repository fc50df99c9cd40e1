// The stage: the diagram with its account, table and details, of one source at a time, now or at an
// earlier moment. Looking back changes nothing but what is shown.

import * as accountCard from "./account.js";
import * as details from "./details.js";
import * as table from "./table.js";
import { draw } from "./diagram.js";
import { byId, calm, h, swap } from "./dom.js";
import { unchecked } from "./labels.js";
import { concerns } from "./layout.js";

// newestMarks are the marks after a view's last event.
function newestMarks({ events, marks }) {
  const all = new Map(marks.map((m) => [m.resource, m]));
  for (const e of events) (e.marks || []).forEach((m) => all.set(m.resource, m));
  return [...all.values()].filter(concerns(events));
}

export class Stage {
  constructor() {
    this.source = null;
    this.upTo = undefined; // how many events are shown; undefined: all of them, as they come
    this.selected = undefined;
    this.onLook = () => {}; // called when another moment is looked at
    byId("scrub").addEventListener("input", (ev) => this.look(Number(ev.target.value)));
    byId("back-to-now").addEventListener("click", () => {
      byId("scrub").focus(); // the button goes
      this.look(undefined);
    });
    byId("diagram").addEventListener("keydown", (ev) => this.walk(ev));
    new ResizeObserver(() => this.resized()).observe(byId("diagram"));
    setInterval(() => this.tick(), calm() ? 1000 : 100);
  }

  show(source) {
    if (this.unsubscribe) this.unsubscribe();
    this.source = source;
    this.upTo = this.selected = undefined;
    this.shownDetails = null; // nothing yet, not even that there is nothing
    this.unsubscribe = source.session && source.session.subscribe((what) => {
      if (what.event || what.state) this.refreshSoon();
    });
    byId("diagram").scrollTop = 0;
    this.refresh();
  }

  // look shows the first n events; undefined, or all of them, is now.
  look(n) {
    const all = this.source ? this.source.events.length : 0;
    const upTo = Math.max(0, n ?? all);
    this.upTo = upTo >= all ? undefined : upTo;
    this.refresh();
    this.onLook();
  }

  get lookingBack() {
    return this.upTo !== undefined;
  }

  get events() {
    return this.source ? this.source.events.slice(0, this.upTo) : [];
  }

  refreshSoon() {
    if (this.pending) return;
    this.pending = true;
    queueMicrotask(() => {
      this.pending = false;
      this.refresh();
    });
  }

  view() {
    const events = this.events;
    const back = this.lookingBack;
    const last = events[events.length - 1];
    return {
      events, name: `Space-time diagram: ${this.source.name}`, mode: this.source.mode, lock: this.source.lock, store: this.source.store,
      marks: this.source.marks, deadlines: this.source.deadlines, clients: back ? null : this.source.clients, live: this.source.live && !back,
      now: back ? (last ? Math.max(...events.map((e) => e.done_ms)) : 0) : this.source.now(),
      selected: this.selected, onSelect: (seq) => this.select(seq), testids: true,
    };
  }

  refresh() {
    if (!this.source) return;
    const box = byId("diagram");
    const focused = box.contains(document.activeElement) && document.activeElement.dataset.seq;
    const atEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 90 || this.count !== this.events.length;
    this.count = this.events.length;
    this.width = box.clientWidth;
    const view = this.view();
    this.drawn = draw(view, this.width - 4);
    this.drawn.svg.setAttribute("data-testid", "diagram");
    const empty = view.events.length === 0 && h("p", { class: "empty hint", text: "Nothing has happened yet. Time will run downwards here." });
    swap(box, this.drawn.heads, empty, this.drawn.svg);
    this.rove();
    if (focused) this.group(Number(focused))?.focus({ preventScroll: true });
    if (atEnd && !focused) box.scrollTop = box.scrollHeight;
    this.refreshRest(view);
  }

  refreshRest(view) {
    const all = this.source.events.length;
    const scrub = byId("scrub");
    scrub.max = String(all);
    scrub.value = String(this.upTo ?? all);
    scrub.disabled = all === 0;
    scrub.setAttribute("aria-valuetext", this.lookingBack ? `after ${this.upTo} of ${all} events` : `now, ${all} events`);
    byId("back-to-now").hidden = !this.lookingBack;
    const untouched = this.source.session ? " The session is as it was." : "";
    byId("moment").textContent = this.lookingBack ? `Looking back: ${this.upTo} of ${all} events.${untouched}` : `${all} ${all === 1 ? "event" : "events"}`;
    const seq = this.lookingBack ? (view.events.length ? view.events[view.events.length - 1].seq : 0) : undefined;
    accountCard.show(byId("account"), this.source.account(seq), {
      damage: this.lookingBack ? view.events.map((e) => e.damage).filter(Boolean) : this.source.damage,
      stock: this.lookingBack ? "" : this.source.stock, marks: newestMarks(view), noCheck: unchecked(view), testids: true,
    });
    table.show(byId("table"), view.events, this.source.name, this.selected, (n) => this.select(n));
    const event = view.events.find((e) => e.seq === this.selected);
    if (this.shownDetails !== event) details.show(byId("details"), event);
    this.shownDetails = event;
    byId("details-panel").classList.toggle("filled", Boolean(event));
  }

  tick() {
    if (this.drawn && this.drawn.moving && this.source.live && !this.lookingBack && !document.hidden) this.drawn.tick(this.source.now());
  }

  resized() {
    if (this.source && byId("diagram").clientWidth !== this.width) this.refreshSoon();
  }

  group(seq) {
    return byId("diagram").querySelector(`[role=button][data-seq="${seq}"]`);
  }

  // rove makes one event of the diagram reachable by Tab: the selected one, else the newest.
  rove() {
    const groups = [...byId("diagram").querySelectorAll("[role=button]")];
    const one = groups.find((g) => Number(g.dataset.seq) === this.selected) || groups[groups.length - 1];
    if (one) one.setAttribute("tabindex", "0");
  }

  walk(ev) {
    const groups = [...byId("diagram").querySelectorAll("[role=button]")];
    const at = groups.indexOf(document.activeElement);
    if (at < 0) return;
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: groups.length - 1 }[ev.key];
    if (to !== undefined && groups[to]) {
      groups[to].focus();
      this.select(Number(groups[to].dataset.seq));
    } else if (ev.key === "Enter" || ev.key === " ") this.select(Number(groups[at].dataset.seq));
    else if (to === undefined) return;
    ev.preventDefault();
  }

  select(seq) {
    this.selected = seq;
    this.refresh();
  }

  // move selects the next or the previous event, from anywhere on the page.
  move(by) {
    const events = this.events;
    if (!events.length) return;
    const at = events.findIndex((e) => e.seq === this.selected);
    const to = at < 0 ? (by > 0 ? 0 : events.length - 1) : Math.min(events.length - 1, Math.max(0, at + by));
    this.select(events[to].seq);
    this.group(events[to].seq)?.scrollIntoView({ block: "nearest" });
  }
}
