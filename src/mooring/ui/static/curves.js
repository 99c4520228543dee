// Curves of the last 15 minutes, or of the positions that were shown: allocated shares, pending pods.
// uPlot draws them on a canvas, which has no text for screen readers: a table has the same numbers.

import { html, useEffect, useMemo, useRef, useState } from "./vendor/preact-htm.js";
import { Table, clockText, isTimed, positionText, timeText } from "./hooks.js";
import { percent } from "./store.js";

const HEIGHT = 175;
const TABLE_ROWS = 15;
/** The distances of times on an axis, in seconds: up to a quarter of a year. */
const DISTANCES_S = [
  ...[1, 2, 5, 10, 15, 30],
  ...[1, 2, 5, 10, 15, 30].map((minutes) => 60 * minutes),
  ...[1, 2, 3, 6, 12].map((hours) => 3600 * hours),
  ...[1, 2, 7, 14, 30, 90].map((days) => 86400 * days),
];

/** Colour and dashes of each line: not everyone sees the colours. */
const LINES = [
  ["--link", []],
  ["--focus", [6, 3]],
  ["--alert", [2, 3]],
  ["--text", [10, 3, 2, 3]],
  ["--quiet", [12, 4]],
  ["--link", [3, 6]],
];

export function Curves({ store }) {
  const [isTable, setIsTable] = useState(false);
  const samples = store.curves.all;
  const title = titleOf(store);
  const at = atTexts(store);
  // Each new sample makes a new list: between two samples nothing is drawn.
  const [allocated, pending] = useMemo(() => {
    const times = samples.map((sample) => sample.at);
    const shares = store.resources.map((_, index) => samples.map((sample) => sample.shares[index]));
    return [[times, ...shares], [times, samples.map((sample) => sample.pending)]];
  }, [samples]);
  return html`<section><h2>${title}</h2>
    <p class="controls">
      <button type="button" aria-pressed=${isTable} onClick=${() => setIsTable(!isTable)}>
        Curves as a table
      </button>
      <span class="note">Drawn from what this page has seen.</span>
    </p>
    ${isTable
      ? html`<${SampleTable} store=${store} samples=${samples} title=${title} />`
      : html`<div class="curves">
          <${Chart}
            title="Allocated"
            key=${`allocated ${store.resources}`}
            names=${store.resources}
            data=${allocated}
            at=${at}
            text=${percent}
          />
          <${Chart}
            title="Pending pods"
            key="pending"
            names=${["pending"]}
            data=${pending}
            at=${at}
            text=${(value) => (Number.isInteger(value) ? String(value) : "")}
          />
        </div>`}</section>`;
}

function titleOf({ player, timeline }) {
  if (!player) return "Over the last 15 minutes";
  return isTimed(timeline) ? "Over the virtual time" : "Over the steps";
}

/** The texts of a place on the axis and in the legend, and the distances of places. */
function atTexts({ player, timeline }) {
  if (!player) return { title: "time", axis: clockText, legend: clockText, distances: DISTANCES_S };
  if (isTimed(timeline)) {
    const distances = DISTANCES_S.map((seconds) => 1e6 * seconds);
    return { title: "time", axis: timeText, legend: timeText, distances };
  }
  const axis = (step) => (Number.isInteger(step) ? String(step) : "");
  return { title: "step", axis, legend: String, distances: undefined };
}

function Chart({ title, names, data, at, text }) {
  const frame = useRef(null);
  const chart = useRef(null);
  useEffect(() => {
    // The legend and the cursor have the colours of when they are made: another theme, another chart.
    const make = () => {
      const last = chart.current;
      const first = last ? last.data : data;
      last?.destroy();
      const width = Math.floor(frame.current.clientWidth);
      chart.current = new globalThis.uPlot(options(width, names, at, text), first, frame.current);
    };
    make();
    const resized = new ResizeObserver(([entry]) => {
      chart.current.setSize({ width: Math.floor(entry.contentRect.width), height: HEIGHT });
    });
    resized.observe(frame.current);
    const themes = ["(prefers-color-scheme: dark)", "print"].map((query) => matchMedia(query));
    themes.forEach((theme) => theme.addEventListener("change", make));
    return () => {
      resized.disconnect();
      themes.forEach((theme) => theme.removeEventListener("change", make));
      chart.current.destroy();
    };
  }, []);
  useEffect(() => {
    if (chart.current.data !== data) chart.current.setData(data);
  }, [data]);
  const label = `${title}: ${names.join(", ")}; the button above shows a table`;
  return html`<figure>
    <figcaption>
      ${title}:${" "}
      ${names.map(
        (name, index) => html`<span key=${name}><${Key} line=${lineOf(index)} /> ${name}</span> `,
      )}
    </figcaption>
    <div class="chart" ref=${frame} role="img" aria-label=${label}></div>
  </figure>`;
}

const lineOf = (index) => LINES[index % LINES.length];

const Key = ({ line: [variable, dash] }) => html`<svg class="key" viewBox="0 0 24 4" aria-hidden="true">
  <line x2="24" y1="2" y2="2" stroke=${`var(${variable})`} stroke-width="2" stroke-dasharray=${dash.join(" ")} />
</svg>`;

const colour = (name) => () => getComputedStyle(document.documentElement).getPropertyValue(name);

function options(width, names, at, text) {
  const axis = {
    stroke: colour("--text"),
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { stroke: colour("--line"), width: 1 },
    font: "12px system-ui, sans-serif",
  };
  // The values under the cursor; without one, the last values.
  const valueText = (format) => (own, value, series) => {
    const shown = value ?? own.data[series][own.data[series].length - 1];
    return shown === undefined ? "" : format(shown);
  };
  return {
    width,
    height: HEIGHT,
    cursor: { y: false, drag: { x: false, y: false } },
    legend: { markers: { show: false } },
    scales: {
      x: { time: false },
      y: { range: (_, __, highest) => [0, Math.max(1, highest || 0)] },
    },
    axes: [
      { ...axis, size: 32, space: 90, incrs: at.distances, values: (_, places) => places.map(at.axis) },
      { ...axis, size: 56, values: (_, places) => places.map(text) },
    ],
    series: [
      { label: at.title, value: valueText(at.legend) },
      ...names.map((name, index) => {
        const [variable, dash] = lineOf(index);
        const points = { fill: colour("--back") };
        return { label: name, stroke: colour(variable), dash, points, width: 2, value: valueText(text) };
      }),
    ],
  };
}

/** About one row a minute, the latest first. */
function SampleTable({ store, samples, title }) {
  const every = Math.max(1, Math.ceil(samples.length / TABLE_ROWS));
  const rows = [...samples].reverse().filter((_, index) => index % every === 0);
  const atText = (sample) =>
    store.player ? positionText(store.timeline, sample.at) : clockText(sample.at);
  return html`<${Table}
    caption=${title}
    columns=${[
      [store.player ? "Position" : "Time", atText],
      ...store.resources.map((name, index) => [name, (sample) => percent(sample.shares[index])]),
      ["Pending pods", (sample) => sample.pending],
    ]}
    rows=${rows}
    rowKey=${(sample) => sample.at}
  />`;
}
