// The lab's page: it puts the parts together and follows the address.
//
// For tests, these stay as they are. On <body>: data-idle is "true" when nothing is under way;
// data-step counts the steps done in the part (in the sandbox: commands sent), data-part the parts
// (from 0), data-chapter-done is "true" at the end; data-chapter is the chapter's slug.
// As data-testid:
//   mode-none mode-lock mode-writes mode-grant          the modes, in the sandbox
//   A-acquire … B-resume operator-expire operator-flush controls: ACTOR-ACTION; A-more B-more options
//   step-next       makes the next step; also goes on to the next part, and ends the chapter.
//                   It is absent while a prediction is asked for: answer-0 … and then predict-submit,
//                   which makes the step, too. verdict tells what was predicted and what came.
//   takeaway next-chapter chapter-SLUG                   at a chapter's end, and the list of chapters
//   play speed reset scrub look-back look-on back-to-now
//   account-truth account-handed-out account-remaining
//   diagram event-SEQ                                    the SVG, and its events (role=button)
//   table table-toggle row-SEQ details
//   compare compare-panel compare-MODE (data-done="true" at its end) compare-close
//   share share-link play-shared download-svg download-json trace-input run-N close-trace
//   theme-toggle help help-close notice start-again

import * as api from "./api.js";
import * as compare from "./compare.js";
import * as download from "./download.js";
import * as keys from "./keys.js";
import * as legend from "./legend.js";
import * as theme from "./theme.js";
import { action, byId, h, swap } from "./dom.js";
import { during } from "./idle.js";
import { Guide } from "./chapter.js";
import { Player } from "./player.js";
import { Sandbox } from "./sandbox.js";
import { Session } from "./session.js";
import { Stage } from "./stage.js";
import { Viewer, accept } from "./viewer.js";
import { announcer } from "./announce.js";
import { finished, forgetProgress } from "./settings.js";
import { decode, encode } from "./share.js";
import { ofSession } from "./source.js";

class Lab {
  constructor(about) {
    this.about = about;
    this.chapters = about.chapters.some((c) => c.sandbox) ? about.chapters
      : [...about.chapters, { slug: "sandbox", title: "The sandbox", lead: "All controls, to play freely.", parts: [], takeaway: "", sandbox: true }];
    this.stage = new Stage();
    this.player = new Player(this.stage);
    this.generation = 0;
    this.announce = announcer(byId("live"));
  }

  // begin starts a session, shows it and gives up the one before; null where another was begun meanwhile.
  async begin(spec, name) {
    const generation = ++this.generation;
    await this.leave(); // where the lab is full, the place of the one is the other's
    if (generation !== this.generation) return null;
    let session;
    try {
      session = await Session.begin(spec);
    } catch (problem) {
      if (generation !== this.generation) return null; // nobody wants to know
      throw problem;
    }
    if (generation !== this.generation) {
      session.close();
      return null;
    }
    this.notice("");
    this.session = session;
    session.subscribe((what) => {
      if (session !== this.session) return; // it is being given up
      if (what.event) this.announce(what.event.damage ? `${what.event.text} Damage: ${what.event.damage}` : what.event.text);
      if (what.link) this.linked(session);
    });
    this.watch();
    this.stage.show(ofSession(session, this.about, name));
    return session;
  }

  leave() {
    const { session } = this;
    this.session = null;
    return session?.close();
  }

  // watch opens the session's stream, or closes it while nobody looks: a browser has only six
  // connections to a server, for all tabs together.
  watch() {
    if (document.hidden) this.session?.rest();
    else this.session?.listen();
  }

  // show puts a recorded run on the stage.
  show(source) {
    this.generation++;
    this.leave();
    this.notice("");
    this.stage.show(source);
  }

  linked(session) {
    this.stage.refreshSoon();
    if (session.link === "open") this.notice("");
    else if (session.link === "retrying") this.notice("The connection to the lab is broken. Trying to reach it again …", () => this.teller.reset());
    else {
      this.player.stop();
      this.notice("This session is over: it was forgotten, or the lab was restarted. What happened can still be looked at.", () => this.teller.reset());
    }
  }

  // notice tells something that is in the way; without a text it goes.
  notice(text, again) {
    const el = byId("notice");
    el.hidden = !text;
    const done = () => {
      this.notice("");
      byId("story-title").focus();
      if (again) again();
    };
    swap(el, text && h("p", { text, "data-testid": "notice" }),
      text && action(again ? "Start again" : "Close", done, { class: "small", "data-testid": again && "start-again" }));
  }

  fail(problem, again) {
    this.player.stop();
    const lost = !(problem instanceof api.Problem) || [0, 404, 410, 429, 503].includes(problem.status);
    this.notice(problem.message, lost ? again : undefined);
  }

  next(slug) {
    return this.chapters[this.chapters.findIndex((c) => c.slug === slug) + 1];
  }

  // progress lists the chapters, with what was finished.
  progress() {
    const done = finished();
    const guided = this.chapters.filter((c) => !c.sandbox);
    byId("progress").textContent = `${guided.filter((c) => done.has(c.slug)).length} of ${guided.length} done`;
    const tick = () => [h("span", { class: "tick", "aria-hidden": "true", text: "✓" }), h("span", { class: "unseen", text: " (done)" })];
    swap(byId("chapters"), this.chapters.map((c) => h("li", {}, h("a", {
      href: `#/${c.slug}`, "data-testid": `chapter-${c.slug}`, "aria-current": this.teller && this.teller.chapter === c ? "page" : null,
    }, h("span", { text: c.title }), done.has(c.slug) && tick()))));
  }

  // route follows the address: #/slug, or #/sandbox?… with a script.
  route() {
    const [slug, query] = location.hash.startsWith("#/") ? location.hash.slice(2).split("?") : ["", ""];
    const sandbox = this.chapters.find((c) => c.sandbox);
    const chapter = this.chapters.find((c) => c.slug === slug) || (slug === "sandbox" ? sandbox : this.chapters[0]);
    if (!chapter.sandbox) return this.play(new Guide(this, chapter));
    let script = null;
    let problem = "";
    try {
      if (query) script = decode(query);
    } catch (err) {
      problem = err.message;
    }
    return this.play(new Sandbox(this, chapter, script, problem));
  }

  // play gives the page to a teller: a chapter's guide, the sandbox, or the viewer.
  play(teller) {
    this.player.stop();
    compare.close();
    this.notice("");
    swap(byId("shared"));
    this.teller = this.player.teller = teller;
    document.body.dataset.chapter = teller.chapter.slug || "";
    byId("story-title").textContent = teller.chapter.title;
    document.title = `${teller.chapter.title} · The fencing lab`;
    this.progress();
    for (const id of ["compare", "share"]) byId(id).hidden = teller.script === null;
    return during(() => teller.start());
  }

  compareAll() {
    const { script } = this.teller;
    if (!script) return;
    if (script.commands.length) compare.open(this.about, script, this.announce);
    else this.notice("There is nothing to compare yet: do something first.");
  }

  share() {
    const { script } = this.teller;
    if (!script) return;
    const url = new URL(encode(script), location.href).href;
    const what = script.commands.length ? "This link brings the script along: " : "This link opens the sandbox: ";
    const field = h("input", { type: "text", readonly: true, value: url, id: "share-link", "data-testid": "share-link", onfocus: (ev) => ev.target.select() });
    const said = h("span", { class: "hint" });
    swap(byId("shared"), h("label", { for: "share-link", text: what }), field, " ", said);
    field.focus();
    navigator.clipboard?.writeText(url).then(() => (said.textContent = "Copied."), () => {});
  }
}

function wire(lab) {
  const on = (id, f) => byId(id).addEventListener("click", f);
  const picture = () => lab.stage.source && download.saveSVG({ ...lab.stage.view(), live: false }, lab.stage.source.name);
  const toggle = (el) => { el.open = !el.open; };
  on("compare", () => lab.compareAll());
  on("compare-close", () => { compare.close(); byId("compare").focus(); });
  on("share", () => lab.share());
  on("download-svg", picture);
  on("download-json", () => lab.stage.source && download.saveJSON(lab.stage.source));
  on("help", keys.help);
  on("help-close", keys.help);
  on("forget", () => { forgetProgress(); lab.progress(); });
  keys.start([
    { key: "n", what: "the next step", run: () => document.querySelector("[data-testid=step-next], [data-testid=predict-submit]")?.click() },
    { key: "p", what: "play or stop", run: () => byId("play").click() },
    { key: "r", what: "reset: begin this again", run: () => byId("reset").click() },
    { key: "j", what: "the next event", run: () => lab.stage.move(1) },
    { key: "k", what: "the event before", run: () => lab.stage.move(-1) },
    { key: ",", what: "look one event back", run: () => byId("look-back").click() },
    { key: ".", what: "look one event on; from now, go one step on", run: () => byId("look-on").click() },
    { key: "b", what: "back to now", run: () => lab.stage.look(undefined) },
    { key: "d", what: "the diagram as a table", run: () => toggle(byId("table-toggle").parentElement) },
    { key: "c", what: "compare all modes", run: () => lab.compareAll() },
    { key: "t", what: "dark or light", run: theme.toggle },
    { key: "?", what: "this help", run: keys.help },
  ]);
  accept((name, file) => lab.play(new Viewer(lab, name, file)), (text) => lab.notice(text));
  addEventListener("hashchange", () => {
    if (location.hash && !location.hash.startsWith("#/")) return; // the skip link
    lab.route().then(() => byId("story-title").focus());
  });
  document.addEventListener("visibilitychange", () => lab.watch());
  // A page that the browser keeps for going back must not keep its stream, either.
  addEventListener("pagehide", (ev) => {
    if (ev.persisted) return lab.session?.rest();
    compare.close();
    return lab.leave();
  });
  addEventListener("pageshow", (ev) => ev.persisted && lab.watch());
}

// boot asks where it is, and tries again on request where nobody answers.
async function boot() {
  try {
    const about = await api.about();
    byId("where").textContent = `lock: ${about.lock} · store: ${about.store}`;
    byId("version").textContent = about.version ? `fencegate ${about.version}` : "";
    byId("notice").hidden = true;
    const lab = new Lab(about);
    wire(lab);
    await lab.route();
  } catch (problem) {
    byId("notice").hidden = false;
    swap(byId("notice"), h("p", { text: `The lab cannot be reached: ${problem.message}`, "data-testid": "notice" }),
      action("Start again", () => during(boot), { class: "small", "data-testid": "start-again" }));
  }
}

// fold shows the list of chapters where there is room for it.
function fold() {
  const wide = matchMedia("(min-width: 1180px)");
  const follow = () => { byId("chapters-box").open = wide.matches; };
  wide.addEventListener("change", follow);
  follow();
}

theme.start();
fold();
legend.show(byId("legend"));
during(boot);
