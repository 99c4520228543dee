// The state of the cluster in the browser: all nodes, the numbers, the latest attempts.

import { ApiError, get } from "./api.js";
import { Samples } from "./samples.js";

const ATTEMPTS_MAX = 300;
/** The stream has four ticks a second: without one for so long mooring does not answer. */
const SILENCE_MS = 5000;
const RETRY_MS = [250, 500, 1000, 2000, 5000];

/** Bits of a node's flags. */
export const UNSCHEDULABLE = 1;
export const NOT_READY = 2;
export const TAINTED = 4;

/**
 * @typedef {{row: number, name: string, group: string, zone: string, flags: number, pods: number,
 *   allowedPods: number, allocatable: number[], requested: number[]}} Node
 */

class Store {
  constructor() {
    /** @type {Map<number, Node>} */
    this.nodes = new Map();
    this.resources = [];
    this.counts = null;
    this.attempts = [];
    this.title = "";
    this.kubeconfig = "";
    this.isWritable = true;
    /** The position in what is played back, and its markers; null = the cluster is live. */
    this.player = null;
    this.timeline = null;
    this.connection = "connecting";
    this.problem = "";
    this.timeS = 0;
    this.rate = 0;
    /** Rises when a node comes, goes or changes its group. */
    this.shape = 0;
    /** Rises with every tick. */
    this.version = 0;
    this.listeners = new Set();
    this.source = null;
    this.generation = 0;
    this.attempt = 0;
    this.failures = 0;
    this.samples = [];
    this.curves = new Samples();
    this.heardMs = 0;
  }

  subscribe(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  changed() {
    this.version += 1;
    for (const listener of this.listeners) listener();
  }

  async begin() {
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) this.close();
      else if (!this.source) this.load();
    });
    setInterval(() => {
      if (this.source && performance.now() > this.heardMs + SILENCE_MS) this.lost();
    }, 1000);
    await this.load();
  }

  close() {
    if (this.source) this.source.close();
    this.source = null;
  }

  /** Reads everything, then follows the changes. */
  async load() {
    this.close();
    let state;
    try {
      state = await get("state");
    } catch (error) {
      this.disconnected(error);
      return;
    }
    this.failures = 0;
    this.nodes = new Map();
    this.resources = state.resources;
    this.title = state.title;
    this.kubeconfig = state.kubeconfig;
    this.isWritable = state.isWritable;
    this.player = state.player;
    this.timeline = state.timeline;
    if (state.player) this.attempts = []; // those after an earlier position
    this.generation = state.generation;
    this.attempt = state.attempt;
    this.counts = state.counts;
    this.timeS = state.timeS;
    this.put(state.nodes);
    this.connection = "connected";
    this.problem = "";
    this.curves.add(this);
    this.follow();
    this.changed();
  }

  follow() {
    if (document.hidden) return;
    const words = new URLSearchParams({ generation: this.generation, attempt: this.attempt });
    for (const resource of this.resources) words.append("resource", resource);
    const source = new EventSource(`/api/v1/stream?${words}`);
    source.onmessage = (event) => this.tick(JSON.parse(event.data));
    source.onerror = () => {
      if (this.source === source) this.lost();
    };
    this.source = source;
    this.heardMs = performance.now();
  }

  lost() {
    this.close();
    this.disconnected(new Error("mooring does not answer"));
  }

  disconnected(error) {
    const isDenied = error instanceof ApiError && error.status === 401;
    this.connection = isDenied ? "denied" : "disconnected";
    this.problem = error.message;
    this.changed();
    if (isDenied || document.hidden) return;
    const pause = RETRY_MS[Math.min(this.failures, RETRY_MS.length - 1)];
    this.failures += 1;
    setTimeout(() => this.load(), pause);
  }

  tick(tick) {
    this.heardMs = performance.now();
    this.generation = tick.nodes.generation;
    this.attempt = tick.attempt;
    this.counts = tick.counts;
    this.player = tick.player;
    this.timeS = tick.timeS;
    this.count(tick);
    if (tick.nodes.isComplete === false) {
      this.load();
      return;
    }
    if (tick.nodes.usage) this.use(tick.nodes.usage);
    if (tick.nodes.nodes) this.put(tick.nodes.nodes);
    this.curves.add(this);
    if (tick.attempts.length) {
      this.attempts = [...tick.attempts.reverse(), ...this.attempts].slice(0, ATTEMPTS_MAX);
    }
    this.changed();
  }

  /** Notes the number of attempts, and computes those of a second over the last five. */
  count(tick) {
    this.samples.push([tick.timeS, tick.attempt]);
    while (this.samples.length > 2 && this.samples[0][0] < tick.timeS - 5) this.samples.shift();
    const [thenS, then] = this.samples[0];
    this.rate = tick.timeS > thenS ? (tick.attempt - then) / (tick.timeS - thenS) : 0;
  }

  put(columns) {
    columns.rows.forEach((row, index) => {
      const name = columns.names[index];
      if (!name) {
        this.nodes.delete(row);
        return;
      }
      this.nodes.set(row, {
        row,
        name,
        group: columns.groups[index],
        zone: columns.zones[index],
        flags: columns.flags[index],
        pods: columns.pods[index],
        allowedPods: columns.allowedPods[index],
        allocatable: columns.allocatable.map((column) => column[index]),
        requested: columns.requested.map((column) => column[index]),
      });
    });
    this.shape += 1;
  }

  use(columns) {
    columns.rows.forEach((row, index) => {
      const node = this.nodes.get(row);
      if (!node) return;
      node.pods = columns.pods[index];
      node.requested = columns.requested.map((column) => column[index]);
    });
  }
}

export const store = new Store();

/** The share of a resource that pods of a node request; -1 = the pods themselves are counted. */
export function share(node, resource) {
  const [used, all] =
    resource < 0
      ? [node.pods, node.allowedPods]
      : [node.requested[resource], node.allocatable[resource]];
  return all > 0 ? used / all : used > 0 ? 1 : 0;
}

const BINARY = [
  [2 ** 40, "Ti"],
  [2 ** 30, "Gi"],
  [2 ** 20, "Mi"],
  [2 ** 10, "Ki"],
];

/** Writes an amount of a resource as mooring's commands do: cores, binary units, or a number. */
export function amountText(resource, amount) {
  if (resource === "cpu") return String(+(amount / 1000).toFixed(3));
  if (resource !== "memory" && !/^(ephemeral-storage|hugepages-)/.test(resource)) {
    return String(amount);
  }
  for (const [size, unit] of BINARY) {
    if (Math.abs(amount) >= size * (unit === "Ti" ? 4 : 1)) {
      return (amount / size).toFixed(1).replace(/\.0$/, "") + unit;
    }
  }
  return String(amount);
}

export const percent = (value) => `${Math.round(100 * value)} %`;
