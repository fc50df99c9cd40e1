// What is remembered between visits. A browser that remembers nothing is no error.

const PREFIX = "fencegate-lab.";

export function recall(name, otherwise) {
  try {
    const text = localStorage.getItem(PREFIX + name);
    return text === null ? otherwise : JSON.parse(text);
  } catch {
    return otherwise;
  }
}

export function remember(name, value) {
  try {
    localStorage.setItem(PREFIX + name, JSON.stringify(value));
  } catch {
    // private window, storage full or forbidden: this visit only
  }
}

// finished are the slugs of the chapters that were played to their end.
export function finished() {
  const list = recall("finished", []);
  return new Set(Array.isArray(list) ? list.filter((s) => typeof s === "string") : []);
}

export function finish(slug) {
  remember("finished", [...finished().add(slug)]);
}

export const forgetProgress = () => remember("finished", []);
