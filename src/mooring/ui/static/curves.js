// Curves of the last 15 minutes, or of the positions that were shown: allocated shares, pending pods.

import { html, useState } from "./vendor/preact-htm.js";
import { Table, clockText, isTimed, positionText } from "./hooks.js";
import { percent } from "./store.js";

const WIDTH = 600;
const HEIGHT = 120;
const TABLE_ROWS = 15;

export function Curves({ store }) {
  const [isTable, setIsTable] = useState(false);
  const samples = store.curves.all;
  const title = titleOf(store);
  const pending = Math.max(1, ...samples.map((sample) => sample.pending));
  const lines = store.resources.map((name, index) => [name, (sample) => sample.shares[index]]);
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
          <${Chart} title="Allocated" top="100 %" samples=${samples} lines=${lines} />
          <${Chart}
            title="Pending pods"
            top=${String(pending)}
            samples=${samples}
            lines=${[["pending", (sample) => sample.pending / pending]]}
          />
        </div>`}</section>`;
}

function titleOf({ player, timeline }) {
  if (!player) return "Over the last 15 minutes";
  return isTimed(timeline) ? "Over the virtual time" : "Over the steps";
}

function Chart({ title, top, samples, lines }) {
  const last = samples[samples.length - 1];
  const first = samples[0];
  const span = last ? Math.max(1, last.at - first.at) : 1;
  const points = (value) =>
    samples
      .map((sample) => {
        const x = ((sample.at - first.at) / span) * WIDTH;
        return `${x.toFixed(1)},${(HEIGHT * (1 - Math.min(1, value(sample)))).toFixed(1)}`;
      })
      .join(" ");
  const label = `${title}: ${lines.map(([name]) => name).join(", ")}; the button above shows a table`;
  return html`<figure>
    <figcaption>
      ${title}, up to ${top}:
      ${lines.map(
        ([name], index) => html`<span key=${name}>
          <svg class="key" viewBox="0 0 24 4" aria-hidden="true"><line class=${`curve c${index % 6}`} x2="24" y1="2" y2="2" /></svg>
          ${name}
        </span>`,
      )}
    </figcaption>
    <svg class="chart" viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label=${label}>
      ${lines.map(
        ([name, value], index) => html`<polyline key=${name} class=${`curve c${index % 6}`} points=${points(value)} />`,
      )}
    </svg>
  </figure>`;
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
