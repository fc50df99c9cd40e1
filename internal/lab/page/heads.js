// The titles of the lanes, with how each of them stands.

import { s } from "./dom.js";
import { titleOfTrack } from "./geometry.js";
import { LANES, LANE_TITLES, unchecked } from "./labels.js";

export const headHeight = (geo) => (geo.narrow ? 36 : 44);

// heads are the titles as a group, for a picture that has to say everything by itself.
export function heads(geo, view, tracks) {
  const { narrow } = geo;
  const group = s("g", { class: "heads" });
  const put = (cls, x, anchor, title, under, size = narrow ? 12 : 14) => group.append(
    s("text", { class: `head ${cls}`, x, y: 17, "text-anchor": anchor, "font-size": size, text: title }),
    s("text", { class: "subhead", x, y: narrow ? 30 : 34, "text-anchor": anchor, "font-size": narrow ? 9.5 : 11.5, text: under }));
  const under = standing(geo, view);
  for (const name of LANES) {
    const title = narrow && (name === "A" || name === "B") ? name : LANE_TITLES[name];
    if (name !== "store") put(name, geo.x[name], "middle", title, under[name]);
    else put(name, geo.x.store + (tracks.length > 1 ? -2 : 6), "end", title, under.store);
  }
  if (!tracks.length) put("mark-head", geo.x.store + (narrow ? 12 : 16), "start", "Mark", "none yet");
  tracks.forEach((track, i) => {
    const named = titleOfTrack(track.resource, tracks.length);
    const last = track.steps[track.steps.length - 1];
    const x = geo.x.store + i * geo.track;
    if (narrow && named) put("mark-head", x + 4, "start", named, last.number, 10.5);
    else if (named) put("mark-head", x + 16, "start", "Mark", `${named} ${last.number}`);
    else put("mark-head", x + (narrow ? 12 : 16), "start", "Mark", standingMark(last, view, narrow));
  });
  return group;
}

function standingMark({ number, retired }, view, narrow) {
  if (unchecked(view)) return narrow ? "no check" : `${number}, not checked`;
  return number + (retired && !narrow ? ", retired" : "");
}

// standing is what is said under each lane's title.
function standing(geo, view) {
  const under = { A: "", B: "", lock: view.mode === "none" ? "not used" : view.lock || "", store: view.store || "" };
  for (const c of view.clients || []) {
    const numbers = c.leases.map((l) => l.number).join(", ");
    under[c.name] = c.paused ? "paused" : numbers && (geo.narrow ? numbers : `holds ${numbers}`);
  }
  return under;
}

// headline is the titles as a picture of their own, which stays where it is while the diagram scrolls.
export function headline(geo, view, tracks) {
  const height = headHeight(geo);
  return s("svg", {
    class: "diagram headline", width: geo.width, height, viewBox: `0 0 ${geo.width} ${height}`, "aria-hidden": "true", focusable: "false",
  }, heads(geo, view, tracks));
}
