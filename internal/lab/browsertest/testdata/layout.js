// What is wrong with the layout of the page as it stands: a list of sentences, empty if nothing is.
(() => {
  const found = [];
  const wide = document.documentElement.clientWidth;
  const name = (el) => {
    const id = el.closest("[data-testid]");
    const text = (el.textContent || "").trim().replace(/\s+/g, " ").slice(0, 60);
    return `<${el.tagName.toLowerCase()} class="${el.getAttribute("class") || ""}"> in ${id ? id.dataset.testid : "?"} "${text}"`;
  };
  const shown = (el) => el.checkVisibility({ visibilityProperty: true, opacityProperty: true });
  const scrolls = (el, axis) => /auto|scroll/.test(getComputedStyle(el)[axis]);
  // For people who listen only: not drawn, so nothing of it can be in the way.
  const unseen = (el) => {
    for (let e = el; e && e !== document.body; e = e.parentElement) {
      const r = e.getBoundingClientRect();
      const s = getComputedStyle(e);
      if ((r.width <= 2 || r.height <= 2) && s.overflow !== "visible") return true;
      if (s.position !== "static" && (r.right < 0 || r.bottom + scrollY < 0)) return true; // a skip link, out of the way
    }
    return false;
  };
  const scroller = (el) => {
    for (let e = el.parentElement; e && e !== document.body; e = e.parentElement) if (scrolls(e, "overflowX")) return e;
    return null;
  };
  const floats = (el) => {
    for (let e = el; e && e !== document.body; e = e.parentElement) if (/fixed|sticky/.test(getComputedStyle(e).position)) return true;
    return false;
  };

  // Nothing is wider than the window.
  const root = document.scrollingElement;
  if (root.scrollWidth > wide) found.push(`the page is ${root.scrollWidth} wide in a window of ${wide}`);
  const all = [...document.body.querySelectorAll("*")].filter((el) => shown(el) && !unseen(el));
  for (const el of all) {
    const r = el.getBoundingClientRect();
    if (r.width === 0 || r.height === 0 || el.closest("svg svg, defs, clipPath, marker")) continue;
    if ((r.right > wide + 1 || r.left < -1) && !scroller(el)) found.push(`sticks out of the window (${Math.round(r.left)}..${Math.round(r.right)}): ${name(el)}`);
  }

  // No text is cut off in a box that cannot be scrolled.
  for (const el of all) {
    if (el.closest("svg") || !el.textContent.trim() || el.tagName === "OPTION" || el.tagName === "SELECT") continue;
    const s = getComputedStyle(el);
    if (/hidden|clip/.test(s.overflowX) && el.scrollWidth > el.clientWidth + 1) found.push(`cut off on the right (${el.scrollWidth} in ${el.clientWidth}): ${name(el)}`);
    if (/hidden|clip/.test(s.overflowY) && el.scrollHeight > el.clientHeight + 2) found.push(`cut off below (${el.scrollHeight} in ${el.clientHeight}): ${name(el)}`);
    if (/inline/.test(s.display) || s.display === "contents") continue;
    if (s.overflowX === "visible" && el.clientWidth > 0 && el.scrollWidth > el.clientWidth + 1 && /button|summary|td|th|label|h1|h2|h3|p|li/i.test(el.tagName) && !scroller(el)) {
      found.push(`text runs out of its box (${el.scrollWidth} in ${el.clientWidth}): ${name(el)}`);
    }
  }

  // In a drawing, text stays inside, and no text lies on another.
  const apart = (boxes, where, slack) => {
    boxes.sort((a, b) => a.r.top - b.r.top);
    for (let i = 0; i < boxes.length; i++) {
      for (let j = i + 1; j < boxes.length && boxes[j].r.top < boxes[i].r.bottom - slack; j++) {
        const [a, b] = [boxes[i], boxes[j]];
        if (a.el === b.el || a.el.contains(b.el) || b.el.contains(a.el)) continue;
        const x = Math.min(a.r.right, b.r.right) - Math.max(a.r.left, b.r.left);
        const y = Math.min(a.r.bottom, b.r.bottom) - Math.max(a.r.top, b.r.top);
        if (x > slack && y > slack) found.push(`${where}: "${a.text}" lies on "${b.text}" by ${Math.round(x)}x${Math.round(y)}`);
      }
    }
  };
  for (const svg of document.querySelectorAll("svg")) {
    if (!shown(svg) || unseen(svg)) continue;
    const frame = svg.getBoundingClientRect();
    const boxes = [];
    for (const el of svg.querySelectorAll("text")) {
      const text = el.textContent.trim();
      const r = el.getBoundingClientRect();
      if (!text || !shown(el) || r.width === 0 || el.closest("defs")) continue;
      if (r.left < frame.left - 1 || r.right > frame.right + 1 || r.top < frame.top - 1 || r.bottom > frame.bottom + 1) {
        found.push(`in the drawing: "${text}" leaves it (${Math.round(r.left - frame.left)}..${Math.round(r.right - frame.left)} of ${Math.round(frame.width)})`);
      }
      boxes.push({ el, r, text });
    }
    apart(boxes, "in the drawing", 3);
  }

  // Outside of drawings, too. What floats above the page is meant to.
  const boxes = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const node = walk.currentNode;
    const el = node.parentElement;
    const text = node.textContent.trim().slice(0, 40);
    if (!text || el.closest("svg, script, style, select, noscript") || !shown(el) || unseen(el) || floats(el)) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    // What a scrolling or clipping box hides cannot lie on anything.
    let clip = { left: -1e9, right: 1e9, top: -1e9, bottom: 1e9 };
    for (let e = el; e && e !== document.body; e = e.parentElement) {
      const s = getComputedStyle(e);
      if (s.overflowX === "visible" && s.overflowY === "visible") continue;
      const b = e.getBoundingClientRect();
      clip = { left: Math.max(clip.left, b.left), right: Math.min(clip.right, b.right), top: Math.max(clip.top, b.top), bottom: Math.min(clip.bottom, b.bottom) };
    }
    for (const q of range.getClientRects()) {
      const r = { left: Math.max(q.left, clip.left), right: Math.min(q.right, clip.right), top: Math.max(q.top, clip.top), bottom: Math.min(q.bottom, clip.bottom) };
      if (r.right - r.left > 1 && r.bottom - r.top > 1) boxes.push({ el: node.parentElement, r, text });
    }
  }
  apart(boxes, "on the page", 4);

  // No part of the page is empty.
  for (const el of document.querySelectorAll("main, section, article, aside, nav, header, figure, table, fieldset, [role=group], [role=region]")) {
    if (!shown(el) || unseen(el) || el.closest("svg")) continue;
    const r = el.getBoundingClientRect();
    if (!el.innerText.trim() && !el.querySelector("svg text")) found.push(`empty (${Math.round(r.width)}x${Math.round(r.height)}): ${name(el)}`);
  }
  return [...new Set(found)];
})()
