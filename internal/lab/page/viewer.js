// Looking at a trace file: its runs are drawn, nothing is played.

import { action, byId, h, prose, swap } from "./dom.js";
import { ofRun } from "./source.js";
import { parse } from "./tracefile.js";

// Viewer has the surface of a teller: start, reset, canGo.
export class Viewer {
  constructor(lab, name, file) {
    this.lab = lab;
    this.name = name;
    this.file = file;
    this.at = 0;
    this.chapter = { title: "A recorded trace" };
  }

  get canGo() {
    return false;
  }

  start() {
    this.lab.show(ofRun(this.file.runs[this.at], this.file));
    const { file } = this;
    const choose = (ev) => {
      this.at = Number(ev.target.value);
      this.lab.show(ofRun(file.runs[this.at], file));
      this.moral();
    };
    swap(byId("story"),
      h("p", { class: "lead" }, "Recorded by ", h("b", { text: file.source || "somebody" }),
        `: lock ${file.lock || "unknown"}, store ${file.store || "unknown"}. It can be looked at, not changed.`),
      h("fieldset", { class: "modes" }, h("legend", { text: `Runs of ${this.name}` }),
        file.runs.map((r, i) => h("label", { class: "choice" },
          h("input", { type: "radio", name: "run", value: String(i), checked: i === 0, "data-testid": `run-${i}`, onchange: choose }),
          h("span", { text: r.title && r.title !== r.name ? `${r.name}: ${r.title}` : r.name })))),
      h("div", { id: "moral" }),
      h("p", { class: "actions" }, action("Back to the lab", () => this.lab.route(), { class: "primary", "data-testid": "close-trace" })));
    this.moral();
    return Promise.resolve();
  }

  moral() {
    const { moral } = this.file.runs[this.at];
    swap(byId("moral"), moral && prose(moral, { class: "after" }));
  }

  reset() {
    this.lab.stage.look(undefined);
  }

  get script() {
    return null;
  }
}

// accept takes files from the file input and from a drop anywhere on the page.
export function accept(take, refuse) {
  const read = async (file) => {
    if (!file) return;
    try {
      if (file.size > 32 << 20) throw new Error("The file is too large for a trace.");
      take(file.name, parse(await file.text()));
    } catch (err) {
      refuse(`${file.name}: ${err.message}`);
    }
  };
  const input = byId("trace-input");
  input.addEventListener("change", () => {
    read(input.files[0]);
    input.value = "";
  });
  const over = (on) => document.body.classList.toggle("dropping", on);
  document.addEventListener("dragover", (ev) => {
    if (![...ev.dataTransfer.types].includes("Files")) return;
    ev.preventDefault();
    over(true);
  });
  document.addEventListener("dragleave", (ev) => ev.relatedTarget === null && over(false));
  document.addEventListener("drop", (ev) => {
    over(false);
    if (!ev.dataTransfer.files.length) return;
    ev.preventDefault();
    read(ev.dataTransfer.files[0]);
  });
}
