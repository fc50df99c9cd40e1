// Single-letter shortcuts. They work while no text is being typed, and can be switched off (WCAG 2.1.4).

import { byId, h, swap } from "./dom.js";
import { recall, remember } from "./settings.js";

const typing = (el) => el && (el.isContentEditable || el.tagName === "SELECT" || el.tagName === "TEXTAREA" ||
  (el.tagName === "INPUT" && !["radio", "checkbox", "range", "button", "file"].includes(el.type)));

// start listens for the shortcuts: [{key, shown, what, run}].
export function start(shortcuts) {
  const box = byId("shortcuts-on");
  box.checked = recall("shortcuts", true) !== false;
  box.addEventListener("change", () => remember("shortcuts", box.checked));
  document.addEventListener("keydown", (ev) => {
    if (!box.checked || ev.ctrlKey || ev.metaKey || ev.altKey || typing(document.activeElement)) return;
    if (byId("help-dialog").open) return;
    const shortcut = shortcuts.find((sc) => sc.key === ev.key);
    if (!shortcut) return;
    ev.preventDefault();
    shortcut.run();
  });
  swap(byId("shortcut-list"), shortcuts.flatMap((sc) => [h("dt", {}, h("kbd", { text: sc.shown || sc.key })), h("dd", { text: sc.what })]));
}

// dialogs opens and closes the help.
export function help() {
  const dialog = byId("help-dialog");
  if (dialog.open) dialog.close();
  else dialog.showModal();
}
