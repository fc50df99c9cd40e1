// Making elements. Text comes in as text and attributes as attributes, never as markup: what the
// server, a file or a link says cannot become part of the page's structure.

const SVG = "http://www.w3.org/2000/svg";

function fill(el, props, children) {
  for (const [name, value] of Object.entries(props || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) el.addEventListener(name.slice(2), value);
    else if (name === "text") el.textContent = value;
    else if (name === "checked" || name === "value" || name === "open" || name === "selected") el[name] = value;
    else el.setAttribute(name, value === true ? "" : String(value));
  }
  el.append(...children.flat().filter((c) => c !== null && c !== undefined && c !== false));
  return el;
}

// h makes an HTML element: h("p", {class: "lead"}, "text", child). A property that begins with "on"
// is a listener; false and undefined leave an attribute out.
export function h(tag, props, ...children) {
  return fill(document.createElement(tag), props, children);
}

// s makes an SVG element.
export function s(tag, props, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

// action makes a button that does something.
export const action = (text, onclick, props) => h("button", { type: "button", text, onclick, ...props });

// swap replaces what is in an element.
export function swap(el, ...children) {
  el.replaceChildren(...children.flat().filter((c) => c !== null && c !== undefined && c !== false));
}

export const byId = (id) => document.getElementById(id);

// prose makes a paragraph in which `words in backquotes` are code.
export function prose(text, props) {
  const parts = String(text || "").split("`");
  return h("p", props, ...parts.map((part, i) => (i % 2 ? h("code", { text: part }) : part)));
}

export const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
