// Light, dark, or as the system has it.

import { byId } from "./dom.js";
import { recall, remember } from "./settings.js";

const dark = matchMedia("(prefers-color-scheme: dark)");

const current = () => document.documentElement.dataset.theme || (dark.matches ? "dark" : "light");

function show() {
  const button = byId("theme");
  const other = current() === "dark" ? "light" : "dark";
  button.textContent = other === "dark" ? "Dark" : "Light";
  button.setAttribute("aria-label", `Switch to the ${other} theme`);
}

// toggle switches to the other theme; back at the system's own, nothing is remembered.
export function toggle() {
  const other = current() === "dark" ? "light" : "dark";
  const system = dark.matches ? "dark" : "light";
  if (other === system) delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = other;
  remember("theme", other === system ? "" : other);
  show();
}

export function start() {
  const chosen = recall("theme", "");
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
  byId("theme").addEventListener("click", toggle);
  dark.addEventListener("change", show);
  show();
}
