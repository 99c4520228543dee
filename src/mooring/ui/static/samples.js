// Samples for the curves: what this page has seen in the last 15 minutes, or at the steps shown.

const SPAN_S = 15 * 60;
/** Samples that are kept: one a second. */
const SAMPLES_MAX = SPAN_S;

/**
 * @typedef {{at: number, shares: number[], pending: number}} Sample
 */

/** What the page has seen so far; `at` is a time in seconds, or a step. */
export class Samples {
  constructor() {
    /** @type {Sample[]} */
    this.all = [];
    this.key = "";
  }

  /** Adds a sample: at most one a second, or one a step. */
  add(store) {
    const key = [Boolean(store.player), ...store.resources].join(" ");
    if (key !== this.key) this.all = [];
    this.key = key;
    const at = store.player ? store.player.position : store.timeS;
    const last = this.all[this.all.length - 1];
    if (store.player) this.all = this.all.filter((sample) => sample.at !== at);
    else if (last && at < last.at + 1) return;
    const { counts } = store;
    const pending = counts.active + counts.backoff + counts.unschedulable + counts.gated;
    this.all.push({ at, shares: shares(store), pending });
    if (store.player) this.all.sort((a, b) => a.at - b.at);
    else this.all = this.all.filter((sample) => sample.at >= at - SPAN_S);
    if (this.all.length > SAMPLES_MAX) this.all = this.all.filter((_, index) => index % 2 === 0);
  }
}

function shares(store) {
  return store.resources.map((_, index) => {
    let [used, all] = [0, 0];
    for (const node of store.nodes.values()) {
      used += node.requested[index];
      all += node.allocatable[index];
    }
    return all > 0 ? used / all : 0;
  });
}
