// The views of the scheduling queue and of the decisions as they are made.

import { html, useState } from "./vendor/preact-htm.js";
import { get } from "./api.js";
import {
  Heading,
  NodeLink,
  PodLink,
  Problem,
  Table,
  counted,
  secondsText,
  useDocument,
  useStore,
} from "./hooks.js";
import { Attempts } from "./pods.js";

export function QueueView() {
  const [queue, problem] = useDocument(() => get("queue"), 1000);
  if (!queue) return html`<div><${Heading}>Queue<//><${Problem} text=${problem} /></div>`;
  const parts = [
    ["Active", queue.active, queue.counts.active, "scheduled next, highest priority first"],
    ["Backoff", queue.backoff, queue.counts.backoff, "retried when the backoff is over"],
    ["Gated", queue.gated, queue.counts.gated, "held back by a PreEnqueue plugin"],
    ["Waiting in Permit", queue.permit, queue.counts.permit, "a node is reserved"],
    ["Nominated", queue.nominated, queue.counts.nominated, "preemption makes room"],
  ];
  return html`<div><${Heading}>Queue<//>
    <${Problem} text=${problem} />
    <${Table}
      caption=${`Unschedulable: ${counted(queue.counts.unschedulable, "pod")}, by reason`}
      columns=${[
        ["Pods", (reason) => reason.count, (reason) => reason.count],
        ["Reason", (reason) => reason.message || "no message yet", (reason) => reason.message],
        ["Plugins", (reason) => reason.plugins.join(", "), (reason) => reason.plugins.join()],
        ["Requeued by", (reason) => reason.events.join(", ")],
        [
          "The first of them",
          (reason) =>
            reason.pods.slice(0, 5).map((pod) => html`<${PodLink} name=${pod} key=${pod} /> `),
        ],
      ]}
      rows=${queue.reasons}
      rowKey=${(reason) => `${reason.message} ${reason.plugins}`}
    />
    <div class="parts">
      ${parts.map(
        ([title, pods, count, note]) => html`<section key=${title}>
          <h2>${title}: ${count}</h2>
          <p class="note">${note}</p>
          <ol>
            ${pods.slice(0, 50).map(
              (pod) => html`<li key=${pod.pod}>
                <${PodLink} name=${pod.pod} /> ${details(pod)}
                ${pod.node && html`<span> on <${NodeLink} name=${pod.node} /></span>`}
              </li>`,
            )}
          </ol>
          ${count > 50 && html`<p class="note">and ${count - Math.min(50, pods.length)} more</p>`}
        </section>`,
      )}
    </div></div>`;
}

function details(pod) {
  const words = [];
  if (pod.backoffS !== undefined) words.push(`${secondsText(pod.backoffS)} left`);
  else if (pod.waitsS) words.push(secondsText(pod.waitsS));
  if (pod.priority) words.push(`priority ${pod.priority}`);
  if (pod.attempts) words.push(counted(pod.attempts, "attempt"));
  if (pod.plugins?.length) words.push(pod.plugins.join(", "));
  return words.join("; ");
}

const RESULTS = ["", "scheduled", "unschedulable", "preempts", "rejected", "error"];

export function DecisionsView() {
  const store = useStore();
  const [result, setResult] = useState("");
  const [text, setText] = useState("");
  const [paused, setPaused] = useState(null);
  const isFiltered = Boolean(result || text);
  const [matching, problem] = useDocument(
    () => get("attempts", { result, q: text }),
    1000,
    result,
    text,
  );
  const latest = isFiltered || !store.attempts.length ? matching || [] : store.attempts;
  const attempts = paused || latest;
  return html`<div><${Heading}>Decisions<//>
    <form class="controls" onSubmit=${(event) => event.preventDefault()}>
      <label>
        Result
        <select value=${result} onChange=${(event) => setResult(event.target.value)}>
          ${RESULTS.map((name) => html`<option value=${name}>${name || "all"}</option>`)}
        </select>
      </label>
      <label>
        Pod contains
        <input type="search" value=${text} onInput=${(event) => setText(event.target.value)} />
      </label>
      <button
        type="button"
        aria-pressed=${Boolean(paused)}
        onClick=${() => setPaused(paused ? null : latest)}
      >
        Pause
      </button>
    </form>
    <${Problem} text=${problem} />
    <${Attempts}
      attempts=${attempts}
      caption=${`The latest decisions; ${store.rate.toFixed(0)} a second`}
      withPods=${true}
    /></div>`;
}
