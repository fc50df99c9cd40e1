// The same script in every mode, side by side: four sessions, four diagrams, four accounts.

import * as accountCard from "./account.js";
import { draw } from "./diagram.js";
import { byId, h, swap } from "./dom.js";
import { during } from "./idle.js";
import { commandText } from "./labels.js";
import { Session } from "./session.js";
import { ofSession } from "./source.js";

let running = [];

// close ends a comparison and its sessions.
export function close() {
  running.forEach((c) => c.stop());
  running = [];
  byId("compare-panel").hidden = true;
}

// open plays a script {mode, ttl, lock, commands} in all modes. Each mode keeps its own pace: in one
// of them somebody waits for a lock, in another there is none. announce tells those who listen of the end.
export function open(about, script, announce) {
  close();
  const panel = byId("compare-panel");
  panel.hidden = false;
  byId("compare-title").focus();
  panel.scrollIntoView({ block: "start" });
  swap(byId("compare-script"), script.commands.map((c) => h("li", { text: commandText(c) })));
  const columns = about.modes.map((m) => column(about, m, script));
  running = columns;
  swap(byId("compare-grid"), columns.map((c) => c.el));
  return during(async () => {
    const ends = await Promise.all(columns.map((c) => c.run()));
    if (running === columns) announce(ends.join(" "));
  });
}

function column(about, mode, script) {
  const status = h("p", { class: "hint", text: "begins …" });
  const picture = h("div", { class: "picture", role: "region", "aria-label": `Diagram: ${mode.title}`, tabindex: "0" });
  const account = h("div", { class: "account" });
  const el = h("section", { class: "column", "data-testid": `compare-${mode.mode}`, "aria-label": mode.title },
    h("h3", { text: mode.title }), account, status, picture);
  let session = null;
  let stopped = false;
  let source = null;

  const show = () => {
    if (!picture.clientWidth) return;
    const { events, lock, store, marks, deadlines } = source;
    const view = { events, lock, store, marks, deadlines, name: `Diagram: ${mode.title}`, mode: mode.mode, clients: null, live: false, now: source.now(), heads: true };
    swap(picture, draw(view, picture.clientWidth - 2).svg);
    accountCard.show(account, source.account(), { damage: source.damage });
  };

  const run = async () => {
    const skipped = [];
    try {
      const spec = Object.fromEntries(Object.entries({ mode: mode.mode, ttl: script.ttl, lock: script.lock }).filter(([, v]) => v));
      session = await Session.begin(spec);
      if (stopped) return "";
      source = ofSession(session, about, mode.title);
      session.subscribe((what) => what.event && show());
      for (const [i, cmd] of script.commands.entries()) {
        if (stopped) return "";
        status.textContent = `Step ${i + 1} of ${script.commands.length}`;
        await session.ready(cmd, session.state.ttl_ms + 5000);
        try {
          await session.send(cmd);
        } catch (problem) {
          if (problem.status === 0 || problem.status === 404 || problem.status === 429) throw problem;
          skipped.push(`${commandText(cmd)} (${problem.message})`);
        }
      }
      for (const name of ["A", "B"]) await session.ready({ actor: name }, session.state.ttl_ms + 3000);
      show();
      status.textContent = skipped.length ? `Done. Not possible here: ${skipped.join("; ")}` : "Done.";
      el.dataset.done = "true";
      return `${mode.title}: ${source.account().text}.`;
    } catch (problem) {
      status.textContent = `This mode could not be played: ${problem.message}`;
      el.dataset.done = "failed";
      return `${mode.title}: ${status.textContent}`;
    } finally {
      session?.close();
    }
  };
  const observer = new ResizeObserver(() => source && show());
  observer.observe(el);
  const stop = () => {
    stopped = true;
    observer.disconnect();
    session?.close();
  };
  return { el, run, stop };
}
