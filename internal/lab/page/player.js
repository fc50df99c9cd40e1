// Play, step and speed: it looks further where one looks back, else it makes the next step.

import { byId } from "./dom.js";

const PAUSES = { "0.5": 2600, 1: 1300, 2: 650, 4: 250 };

export class Player {
  constructor(stage) {
    this.stage = stage;
    this.teller = null; // the chapter's Guide or the Sandbox
    byId("play").addEventListener("click", () => (this.playing ? this.stop() : this.play()));
    byId("reset").addEventListener("click", () => {
      this.stop();
      if (this.teller) this.teller.reset();
    });
    byId("look-back").addEventListener("click", () => stage.look(stage.events.length - 1));
    byId("look-on").addEventListener("click", () => this.step());
  }

  get canGo() {
    return this.stage.lookingBack || Boolean(this.teller && this.teller.canGo);
  }

  // step makes one step, of looking or of the story; it does nothing where there is none to make.
  async step() {
    if (this.stage.lookingBack) this.stage.look(this.stage.upTo + 1);
    else if (this.teller && this.teller.canGo) await this.teller.go();
  }

  play() {
    // At the end of what happened, with nothing to do: play it once more from the beginning.
    if (!this.canGo && this.stage.events.length) this.stage.look(0);
    this.set(true);
    this.run();
  }

  stop() {
    clearTimeout(this.timer);
    this.set(false);
  }

  async run() {
    if (!this.playing || !this.canGo) return this.stop();
    await this.step();
    if (!this.playing) return undefined;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.run(), PAUSES[byId("speed").value] || PAUSES[1]);
    return undefined;
  }

  set(playing) {
    this.playing = playing;
    const button = byId("play");
    button.textContent = playing ? "Stop" : "Play";
  }
}
