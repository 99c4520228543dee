// The view of the scheduler's configuration: edit, check, what if, apply.

import { html, useEffect, useRef, useState } from "./vendor/preact-htm.js";
import { get, post } from "./api.js";
import { Heading, NodeLink, PodLink, Problem, SureButton, Table, counted, useDocument } from "./hooks.js";

export function ConfigurationView() {
  const [current, problem] = useDocument(() => get("configuration"), 0);
  return html`<div><${Heading}>Configuration<//>
    <${Problem} text=${problem} />
    ${current && html`<${Editor} current=${current} />`}</div>`;
}

function Editor({ current }) {
  const [text, setText] = useState(current.text);
  const [running, setRunning] = useState(current.text);
  const [errors, setErrors] = useState([]);
  const [note, setNote] = useState("");
  const [problem, setProblem] = useState("");
  const [scope, setScope] = useState("pending");
  const [whatIf, setWhatIf] = useState(null);
  const area = useRef(null);

  useEffect(() => {
    if (whatIf?.state !== "running") return undefined;
    const timer = setTimeout(() => send(async () => setWhatIf(await get("what-if"))), 300);
    return () => clearTimeout(timer);
  }, [whatIf]);

  async function send(action) {
    setProblem("");
    try {
      await action();
    } catch (error) {
      setProblem(error.message);
    }
  }
  const show = (checked) => {
    setErrors(checked.errors);
    setNote(checked.message);
    return !checked.errors.length;
  };
  const check = () => send(async () => show(await post("/api/v1/check-configuration", { text })));
  const apply = () =>
    send(async () => {
      if (show(await post("/api/v1/apply-configuration", { text }))) setRunning(text);
    });
  const begin = () =>
    send(async () => {
      setWhatIf(null);
      const answer = await post("/api/v1/what-if", { text, scope });
      if (answer.errors) show(answer);
      else {
        show({ errors: [], message: "" });
        setWhatIf(answer);
      }
    });
  const cancel = () => send(async () => setWhatIf(await post("/api/v1/cancel-what-if", {})));

  return html`<div>
    <p>
      The KubeSchedulerConfiguration of the scheduler that runs.
      ${current.plugins.length > 0 && html`<span> Further plugins: ${current.plugins.join(", ")}.</span>`}
    </p>
    <label for="configuration">YAML or JSON</label>
    <${LinedText} id="configuration" text=${text} setText=${setText} area=${area} />
    <form class="controls" onSubmit=${(event) => event.preventDefault()}>
      <button type="button" onClick=${check}>Check</button>
      <${SureButton} label="Apply" onSure=${apply} />
      <button type="button" disabled=${text === running} onClick=${() => setText(running)}>
        Undo changes
      </button>
      <label>
        Decide
        <select value=${scope} onChange=${(event) => setScope(event.target.value)}>
          <option value="pending">the pending pods</option>
          <option value="all">all pods</option>
        </select>
      </label>
      <button type="button" class="main" onClick=${begin} disabled=${whatIf?.state === "running"}>
        What if
      </button>
    </form>
    <p role="status">${note}</p>
    <${Problem} text=${problem} />
    ${errors.length > 0 &&
    html`<${Table}
      caption=${counted(errors.length, "error")}
      columns=${[
        ["Line", (one) => (one.line ? html`<${LineButton} line=${one.line} area=${area} />` : ""), (one) => one.line],
        ["Field", (one) => html`<code>${one.path}</code>`, (one) => one.path],
        ["Problem", (one) => html`<span class="problem">${one.message}</span>`],
      ]}
      rows=${errors}
      rowKey=${(one) => `${one.line} ${one.path} ${one.message}`}
    />`}
    ${whatIf && html`<${WhatIf} status=${whatIf} cancel=${cancel} />`}
  </div>`;
}

/** A text with the numbers of its lines beside it. */
function LinedText({ id, text, setText, area }) {
  const numbers = useRef(null);
  const count = text.split("\n").length;
  const follow = () => {
    if (numbers.current) numbers.current.scrollTop = area.current.scrollTop;
  };
  return html`<div class="lined">
    <pre aria-hidden="true" ref=${numbers}>${Array.from({ length: count }, (_, line) => line + 1).join("\n")}</pre>
    <textarea
      id=${id}
      ref=${area}
      rows="24"
      wrap="off"
      spellcheck="false"
      value=${text}
      onScroll=${follow}
      onInput=${(event) => setText(event.target.value)}
    ></textarea>
  </div>`;
}

function LineButton({ line, area }) {
  const select = () => {
    const lines = area.current.value.split("\n");
    const start = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
    area.current.focus();
    area.current.setSelectionRange(start, start + (lines[line - 1] || "").length);
    const height = area.current.scrollHeight / lines.length;
    area.current.scrollTop = Math.max(0, (line - 5) * height);
  };
  return html`<button type="button" onClick=${select} aria-label=${`Go to line ${line}`}>${line}</button>`;
}

function WhatIf({ status, cancel }) {
  if (status.state === "running") {
    return html`<p role="status">
      <progress max=${status.total || 1} value=${status.done || 0} aria-label="Decided"></progress>
      ${status.total ? `${status.done} of ${status.total} decisions` : "copying the cluster ..."}
      ${" "}<button type="button" onClick=${cancel}>Cancel</button>
    </p>`;
  }
  if (status.state === "cancelled") return html`<p role="status">cancelled</p>`;
  if (status.state !== "done") return html`<${Problem} text=${status.problem} />`;
  const { result } = status;
  return html`<section>
    <h2>What if</h2>
    <p class="summary" role="status">
      ${result.differing} of ${counted(result.pods, "pod")} would have another node.
      ${" "}Placed: ${result.placedBefore} with the configuration in effect, ${result.placedAfter} with this one.
      ${(result.evictedBefore > 0 || result.evictedAfter > 0) &&
      html`<span> Evicted: ${result.evictedBefore}, and ${result.evictedAfter}.</span>`}
    </p>
    ${result.notes.map((note) => html`<p class="note" key=${note}>${note}</p>`)}
    <${Table}
      caption=${result.rows.length < result.pods ? `The first ${result.rows.length} pods` : "Pods"}
      columns=${[
        ["Pod", (row) => html`<${PodLink} name=${row.pod} />`, (row) => row.pod],
        ["Node now", (row) => html`<${NodeLink} name=${row.node || ""} />`, (row) => row.node || ""],
        ["In effect", (row) => html`<${NodeLink} name=${row.before || ""} />`, (row) => row.before || ""],
        ["With this one", (row) => html`<${NodeLink} name=${row.after || ""} />`, (row) => row.after || ""],
        ["Differs", (row) => (row.differs ? "yes" : ""), (row) => (row.differs ? 0 : 1)],
        ["Reason", (row) => row.reason || "", (row) => row.reason || ""],
      ]}
      rows=${result.rows}
      rowKey=${(row) => row.pod}
    />
  </section>`;
}
