// Telling what happens to those who listen. Events come in bursts: they are gathered and said once.

const GATHER_MS = 350;

export function announcer(el) {
  let said = [];
  let timer;
  return (text) => {
    if (!text) return;
    said.push(text);
    clearTimeout(timer);
    timer = setTimeout(() => {
      el.textContent = said.slice(-4).join(" ");
      said = [];
    }, GATHER_MS);
  };
}
