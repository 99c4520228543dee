// A part of a node's view: the pods that wait, by the reasons why this node rejects them.

import { html, useState } from "./vendor/preact-htm.js";
import { get, quoted } from "./api.js";
import { PodLink, Problem, Table, counted, useDocument } from "./hooks.js";
import { store } from "./store.js";

/** Pods that are named in one row. */
const NAMED = 20;

export function Rejections({ name, state }) {
  const [count, setCount] = useState(0);
  const [last, setLast] = useState(null);
  // Over a recording the steps change; elsewhere each look makes the scheduler decide.
  const everyMs = store.player ? 2000 : 0;
  const read = () => get(`rejections/${quoted(name)}`);
  const [document, problem] = useDocument(read, everyMs, name, state, count);
  if (document && document !== last) setLast(document);
  const shown = document || last;
  return html`<section><h2>Pending pods: what this node rejects</h2>
    <${Problem} text=${problem} />
    ${!shown && !problem && html`<p role="status">Deciding ...</p>`}
    ${shown && html`<${Groups} shown=${shown} />`}
    ${!store.player &&
    html`<p><button type="button" onClick=${() => setCount(count + 1)}>Decide again</button></p>`}</section>`;
}

function Groups({ shown }) {
  const { groups, lookedAt, note, pending } = shown;
  const rest = lookedAt && pending > lookedAt;
  const fits = store.player ? "not rejected in its attempt" : "would fit now";
  const reasons = (group) =>
    group.rejections.map((item) => `${item.plugin}: ${item.reasons.join(", ")}`).join("; ") || fits;
  return html`<div>
    ${!pending && html`<p class="note">No pod waits.</p>`}
    ${note && html`<p class="note">${note}</p>`}
    ${groups.length > 0 &&
    html`<${Table}
      caption=${`${rest ? "The first " : ""}${counted(lookedAt, "pending pod")}, by reason`}
      columns=${[
        ["Pods", (group) => group.pods.length, (group) => group.pods.length],
        ["Rejected by", reasons, reasons],
        ["Which", (group) => html`<${Names} pods=${group.pods} />`],
      ]}
      rows=${groups}
      rowKey=${reasons}
    />`}
    ${rest && html`<p class="note">and ${pending - lookedAt} more of lower priority, or newer</p>`}</div>`;
}

const Names = ({ pods }) => html`<span>
  ${pods.slice(0, NAMED).map(
    (pod) => html`<span key=${pod.pod}>
      <${PodLink} name=${pod.pod} /> (${pod.state}${pod.attempt > 0 &&
      html`, <a href=${`#/attempts/${pod.attempt}`}>step ${pod.attempt}</a>`})${" "}
    </span>`,
  )}
  ${pods.length > NAMED && `and ${pods.length - NAMED} more`}
</span>`;
