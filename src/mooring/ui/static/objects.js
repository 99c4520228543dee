// The view that applies, exports and deletes objects.

import { html, useState } from "./vendor/preact-htm.js";
import { post } from "./api.js";
import { Heading, Problem, SureButton, Table, counted, useStore } from "./hooks.js";

const TEMPLATES = {
  Pod: `apiVersion: v1
kind: Pod
metadata:
  name: web
  namespace: default
spec:
  containers:
    - name: app
      image: nginx
      resources:
        requests: {cpu: "1", memory: 1Gi}
`,
  Deployment: `apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: default
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
        - name: app
          image: nginx
          resources:
            requests: {cpu: 500m, memory: 512Mi}
`,
  Node: `apiVersion: v1
kind: Node
metadata:
  name: node-new
  labels: {topology.kubernetes.io/zone: zone-a}
status:
  capacity: {cpu: "8", memory: 32Gi, pods: "110"}
  allocatable: {cpu: "8", memory: 32Gi, pods: "110"}
`,
  PriorityClass: `apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata:
  name: urgent
value: 1000000
description: Evicts pods of lower priority.
`,
};

export function ObjectsView() {
  const store = useStore();
  const [text, setText] = useState("");
  const [results, setResults] = useState([]);
  const [problem, setProblem] = useState("");
  const [note, setNote] = useState("");
  const act = async (work) => {
    setProblem("");
    setNote("");
    setResults([]);
    try {
      await work();
    } catch (error) {
      setProblem(error.message);
    }
  };
  const apply = () => act(async () => setResults(await post("/api/v1/apply", { text })));
  const replace = () =>
    act(async () => setResults(await post("/api/v1/import", { text, replaces: true })));
  const add = () =>
    act(async () => setResults(await post("/api/v1/import", { text, replaces: false })));
  const reset = () => act(async () => setNote((await post("/api/v1/reset", {})).message));
  const load = async (files) => {
    const texts = await Promise.all([...files].map((file) => file.text()));
    setText(texts.join("\n---\n"));
    setNote(`${counted(files.length, "file")} read: press Apply to store the objects`);
  };
  const copy = async () => {
    await navigator.clipboard.writeText(store.kubeconfig);
    setNote("copied");
  };
  return html`<div><${Heading}>Objects<//>
    ${store.kubeconfig &&
    html`<p>
      For kubectl: <code>${store.kubeconfig}</code>
      ${" "}<button type="button" onClick=${copy}>Copy</button>
    </p>`}
    <p><a href="/api/v1/export" download="cluster.json">Export all objects</a>, as a file that mooring reads.</p>
    <div
      class="editor"
      onDragOver=${(event) => event.preventDefault()}
      onDrop=${(event) => {
        event.preventDefault();
        load(event.dataTransfer.files);
      }}
    >
      <form class="controls" onSubmit=${(event) => event.preventDefault()}>
        <label>
          Template
          <select value="" onChange=${(event) => setText(TEMPLATES[event.target.value] || text)}>
            <option value="">choose ...</option>
            ${Object.keys(TEMPLATES).map((kind) => html`<option value=${kind}>${kind}</option>`)}
          </select>
        </label>
        <label>
          Files
          <input type="file" multiple accept=".yaml,.yml,.json" onChange=${(event) => load(event.target.files)} />
        </label>
      </form>
      <label for="yaml">YAML or JSON; several documents are separated by ---</label>
      <textarea
        id="yaml"
        rows="20"
        spellcheck="false"
        value=${text}
        onInput=${(event) => setText(event.target.value)}
      ></textarea>
      <p class="controls">
        <button type="button" class="main" onClick=${apply} disabled=${!text.trim()}>Apply</button>
        <button type="button" onClick=${add} disabled=${!text.trim()}>Import, and keep the others</button>
        <${SureButton} label="Replace all objects" onSure=${replace} isDisabled=${!text.trim()} />
        <${SureButton} label="Remove all objects" onSure=${reset} />
      </p>
    </div>
    <p role="status">${note}</p>
    <${Problem} text=${problem} />
    ${results.length > 0 &&
    html`<${Table}
      caption=${`${results.filter((one) => one.isOk).length} of ${results.length} objects stored`}
      columns=${[
        ["Line", (one) => one.line, (one) => one.line],
        ["Object", (one) => one.object, (one) => one.object],
        ["Outcome", (one) => html`<span class=${one.isOk ? "" : "problem"}>${one.message}</span>`],
      ]}
      rows=${results}
      rowKey=${(one) => `${one.line} ${one.object}`}
    />`}</div>`;
}
