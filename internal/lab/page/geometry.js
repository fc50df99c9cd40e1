// How wide things are. One place decides, for a given width of the diagram, where the lanes stand
// and how much is said in it.

import { plain } from "./layout.js";

// geometry places the lanes; tracks is how many resources have marks.
export function geometry(width, tracks = 1) {
  const narrow = width < 600;
  const w = Math.max(266, Math.floor(width));
  const gutter = narrow ? 30 : 62;
  const a = gutter + (narrow ? 20 : 44);
  const track = narrow ? (tracks > 1 ? 40 : 66) : tracks > 1 ? 92 : 138;
  const store = w - track * Math.max(1, tracks);
  const d = (store - a) / 3;
  return {
    width: w,
    narrow,
    gutter,
    x: { A: a, B: a + d, lock: a + 2 * d, store },
    track,
    bar: narrow ? 7 : 9,
    band: narrow ? 11 : 18,
    font: narrow ? 10.5 : 12.5,
    char: narrow ? 5.6 : 6.6, // the width of a letter, about
    pill: narrow ? 26 : 38,
  };
}

// stepX is where a mark's line stands after `rank` of `ranks` rises: it moves right as it rises, and
// never beyond its track.
export function stepX(geo, index, rank, ranks) {
  const room = geo.track - geo.pill - (geo.narrow ? 8 : 16);
  const step = Math.min(geo.narrow ? 12 : 24, room / Math.max(1, ranks));
  return geo.x.store + index * geo.track + step * rank;
}

// rowHeight is how much room a row needs, and where in it its line is.
export function rowHeight(geo, row, damageLines) {
  const e = row.event;
  const marked = row.part !== "begin" && (e.marks || []).length > 0;
  let all = geo.narrow ? 42 : 46;
  let line = geo.narrow ? 25 : 27;
  if (row.self) {
    all = marked ? 42 : 34;
    line = marked ? 21 : 18;
  }
  if (row.below) all += geo.narrow ? 10 : 8;
  const damage = damageLines * (geo.narrow ? 14 : 16);
  return { line, all: all + (damage ? damage + 22 : 0), damageAt: all };
}

// textWidth guesses how wide a text is.
export const textWidth = (geo, text) => text.length * geo.char;

// titleOfTrack names a mark's line where there is more than one.
export const titleOfTrack = (resource, tracks) => (tracks > 1 ? plain(resource) : "");
