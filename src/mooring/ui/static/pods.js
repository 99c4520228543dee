// The views of pods: a list, and one pod with the reasons why it is where it is.

import { html, useEffect, useState } from "./vendor/preact-htm.js";
import { get, post, quoted } from "./api.js";
import {
  Heading,
  NodeLink,
  PodLink,
  Problem,
  SureButton,
  Table,
  clockText,
  counted,
  isTimed,
  positionText,
  secondsText,
  timeText,
  useDocument,
} from "./hooks.js";
import { store } from "./store.js";

/** The states of a pod whose node is the one that it is nominated to. */
const WAITING = ["binding", "active", "backoff", "unschedulable", "gated"];
const STATES = ["", "bound", "binding", "active", "backoff", "unschedulable", "gated"];

export function PodsView() {
  const [state, setState] = useState("");
  const [text, setText] = useState("");
  const [more, setMore] = useState([]);
  const [page, problem] = useDocument(() => get("pods", { state, q: text }), 2000, state, text);
  useEffect(() => setMore([]), [state, text]);
  const last = more.length ? more[more.length - 1] : page;
  const rows = [page, ...more].flatMap((part) => (part ? part.pods : []));
  const goOn = async () => setMore([...more, await get("pods", { state, q: text, after: last.next })]);
  return html`<div><${Heading}>Pods<//>
    <form class="controls" onSubmit=${(event) => event.preventDefault()}>
      <label>
        State
        <select value=${state} onChange=${(event) => setState(event.target.value)}>
          ${STATES.map((name) => html`<option value=${name}>${name || "all"}</option>`)}
        </select>
      </label>
      <label>
        Name contains
        <input type="search" value=${text} onInput=${(event) => setText(event.target.value)} />
      </label>
    </form>
    <${Problem} text=${problem} />
    <${Table}
      caption=${page ? `${last.next ? "at least " : ""}${counted(rows.length, "pod")}` : "Pods"}
      limit=${1000}
      columns=${[
        ["Pod", (pod) => html`<${PodLink} name=${pod.pod} />`, (pod) => pod.pod],
        ["State", (pod) => pod.state, (pod) => pod.state],
        ["Node", (pod) => html`<${NodeLink} name=${pod.node} />`, (pod) => pod.node || ""],
        ["Requests", (pod) => pod.requests, (pod) => pod.requests],
        ["Priority", (pod) => pod.priority || 0, (pod) => pod.priority || 0],
      ]}
      rows=${rows}
      rowKey=${(pod) => pod.pod}
    />
    ${last && last.next && html`<button type="button" onClick=${goOn}>More pods</button>`}</div>`;
}

export function PodView({ name }) {
  const [message, setMessage] = useState("");
  const [document, problem] = useDocument(() => get(`pods/${quoted(name)}`), 2000, name);
  const remove = async () => {
    const [namespace, podName] = name.split("/");
    try {
      setMessage((await post("/api/v1/delete", { kind: "Pod", namespace, name: podName })).message);
    } catch (error) {
      setMessage(error.message);
    }
  };
  if (!document) return html`<div><${Heading}>Pod ${name}<//><${Problem} text=${problem} /></div>`;
  const { row, attempts, object } = document;
  return html`<div><${Heading}>Pod ${name}<//>
    <${Problem} text=${problem} />
    <p role="status">${message}</p>
    <p>
      <strong>${row.state}</strong>
      ${row.node && html`${WAITING.includes(row.state) ? ", nominated to " : " on "}<${NodeLink} name=${row.node} />`}
      ; requests ${row.requests}; priority ${row.priority || 0}.
    </p>
    ${store.isWritable && html`<p><${SureButton} label="Delete" onSure=${remove} /></p>`}
    <${Why} name=${name} state=${row.state} key=${`${name} ${row.state}`} />
    <${Attempts} attempts=${[...attempts].reverse()} caption="Attempts, the latest first" />
    <details>
      <summary>Object</summary>
      <pre tabindex="0">${JSON.stringify(object, null, 2)}</pre>
    </details></div>`;
}

/** Asks mooring to decide the pod now, and on a copy of the cluster, where changes can be tried. */
function Why({ name, state }) {
  const [count, setCount] = useState(0);
  const isBound = state === "bound";
  const nothing = async () => ({});
  const ask = isBound ? nothing : () => get(`explain/${quoted(name)}`);
  const [live, problem] = useDocument(ask, 0, name, count);
  const [copy, copyProblem] = useDocument(() => get(`help/${quoted(name)}`), 0, name, count);
  if (!live || (isBound && !copy)) {
    const text = problem || (isBound ? copyProblem : "");
    return html`<div><h2>Why</h2>
      <${Problem} text=${text} />
      ${!text && html`<p role="status">Deciding ...</p>`}</div>`;
  }
  const explanation = isBound ? copy.explanation : live.explanation;
  const remedies = copy?.explanation?.remedies || [];
  if (store.player && !explanation) {
    return html`<div><h2>Why</h2>
      <p class="note">${live.note || copy?.note}</p></div>`;
  }
  return html`<div><h2>Why</h2>
    <p><button type="button" onClick=${() => setCount(count + 1)}>Decide again</button></p>
    <ul>
      ${(live.note || copy?.note) && html`<li>${live.note || copy.note}</li>`}
      ${live.queue && html`<li>In queue "${live.queue}" for ${secondsText(live.inQueueS || 0)}; ${counted(live.attempts || 0, "attempt")}.</li>`}
      ${live.backoffS > 0 && html`<li>Backoff: ${secondsText(live.backoffS)} more.</li>`}
      ${live.gatedBy && html`<li>Gated by ${live.gatedBy}.</li>`}
      ${live.nominatedNode && html`<li>Nominated to <${NodeLink} name=${live.nominatedNode} />.</li>`}
      ${live.evicting?.length > 0 && html`<li>Being evicted for it: ${live.evicting.join(", ")}.</li>`}
      ${Object.entries(live.requeuedBy || {}).map(
        ([plugin, events]) => html`<li>Requeued by events of ${plugin}: ${events.join(", ") || "none"}.</li>`,
      )}
    </ul>
    ${explanation && html`<p class="summary">${explanation.summary}</p>`}
    ${!isBound && html`<${Remedies} remedies=${remedies} problem=${copyProblem} isKnown=${Boolean(copy)} />`}
    ${explanation && html`<${Explanation} explanation=${explanation} />`}</div>`;
}

/** The smallest changes that help, each tried on a copy of the cluster. */
function Remedies({ remedies, problem, isKnown }) {
  if (problem) return html`<p class="note">What would help was not searched: ${problem}.</p>`;
  if (!isKnown) return html`<p class="note" role="status">Searching what would help ...</p>`;
  if (!remedies.length) return html`<p class="note">No small change would help.</p>`;
  return html`<div><h3>It would fit with</h3>
    <ul class="remedies">
      ${remedies.map(
        (remedy) => html`<li>
          ${remedy.changes.join(" and ")}${remedy.node && html`: then it goes to <${NodeLink} name=${remedy.node} />`}
        </li>`,
      )}
    </ul></div>`;
}

function Explanation({ explanation }) {
  const { nodes = [], notes = {}, rejections = [] } = explanation;
  const plugins = [
    ...new Set(
      nodes.flatMap((node) => [
        ...Object.keys(node.scores || {}),
        ...(node.rejections || []).map((item) => item.plugin),
      ]),
    ),
  ].sort();
  const cell = (node, plugin) => {
    const rejected = (node.rejections || []).filter((item) => item.plugin === plugin);
    if (!rejected.length) return node.scores?.[plugin] ?? "";
    return rejected.flatMap((item) => (item.causes.length ? item.causes : item.reasons)).join("; ");
  };
  const key = (node, plugin) => {
    const isRejected = (node.rejections || []).some((item) => item.plugin === plugin);
    return isRejected ? -1 : (node.scores?.[plugin] ?? 0);
  };
  const isFeasible = nodes.some((node) => node.total !== undefined && node.total !== null);
  return html`<div>${rejections.length > 0 &&
    html`<ul>
      ${rejections.map(
        (item) => html`<li>
          ${item.plugin}: ${(item.causes.length ? item.causes : item.reasons).join("; ")}
        </li>`,
      )}
    </ul>`}
    ${Object.entries(notes).map(
      ([plugin, lines]) => html`<section key=${plugin}><h3>${plugin}</h3>
        <ul>
          ${lines.map((line) => html`<li>${line}</li>`)}
        </ul></section>`,
    )}
    <${Table}
      caption="Each node: the weighted score of each plugin, or why the plugin rejects it"
      columns=${[
        ["Node", (node) => html`<${NodeLink} name=${node.name} />`, (node) => node.name],
        ["Group", (node) => node.group, (node) => node.group],
        ["Total", (node) => node.total ?? "rejected", (node) => node.total ?? -1],
        ...plugins.map((plugin) => [
          plugin,
          (node) => cell(node, plugin),
          (node) => key(node, plugin),
        ]),
      ]}
      rows=${nodes}
      rowKey=${(node) => node.name}
      limit=${100}
      initial=${isFeasible ? [2, -1] : [0, 1]}
    />
    <details>
      <summary>As mooring explain prints it</summary>
      <pre tabindex="0">${explanation.text.join("\n")}</pre>
    </details></div>`;
}

/** The time of an attempt; it opens the verdicts, if they were kept. */
function AttemptTime({ attempt }) {
  const { player, timeline } = store;
  let text = clockText(attempt.timeS);
  if (player) text = isTimed(timeline) ? timeText(attempt.timeS * 1e6) : positionText(timeline, attempt.number);
  if (!attempt.isWhole) return text;
  const label = `${text}: attempt ${attempt.number}, the verdict on each node`;
  return html`<a href=${`#/attempts/${attempt.number}`} aria-label=${label}>${text}</a>`;
}

/** A table of attempts. */
export function Attempts({ attempts, caption, withPods = false }) {
  return html`<${Table}
    caption=${caption}
    limit=${300}
    columns=${[
      ["Time", (attempt) => html`<${AttemptTime} attempt=${attempt} />`],
      ...(withPods ? [["Pod", (attempt) => html`<${PodLink} name=${attempt.pod} />`]] : []),
      ["Result", (attempt) => html`<span class=${`result ${attempt.result}`}>${attempt.result}</span>`],
      ["Node", (attempt) => html`<${NodeLink} name=${attempt.node} />`],
      [
        "Why",
        (attempt) =>
          attempt.message ||
          [
            attempt.evaluated && `${attempt.feasible || 0} of ${attempt.evaluated} nodes were feasible`,
            attempt.runnerUp &&
              `score ${attempt.score}; next best ${attempt.runnerUp} with ${attempt.runnerUpScore}`,
          ]
            .filter(Boolean)
            .join("; "),
      ],
      ["Plugins", (attempt) => (attempt.plugins || []).join(", ")],
      ["Evicts", (attempt) => (attempt.victims || []).join(", ")],
    ]}
    rows=${attempts}
    rowKey=${(attempt) => attempt.number}
  />`;
}
