// The views of the cluster: all nodes, and one of them.

import { html, useMemo, useState } from "./vendor/preact-htm.js";
import { get, post, quoted } from "./api.js";
import {
  Heading,
  NodeLink,
  PodLink,
  Problem,
  SureButton,
  Table,
  counted,
  useDocument,
  useStore,
} from "./hooks.js";
import { Curves } from "./curves.js";
import { NodeMap } from "./map.js";
import { Rejections } from "./rejections.js";
import { NOT_READY, TAINTED, UNSCHEDULABLE, amountText, percent, share } from "./store.js";

const GROUPINGS = {
  group: ["machine type", (node) => node.group],
  zone: ["zone", (node) => node.zone || "no zone"],
  state: [
    "state",
    (node) =>
      node.flags & NOT_READY
        ? "not ready"
        : node.flags & UNSCHEDULABLE
          ? "unschedulable"
          : node.flags & TAINTED
            ? "tainted"
            : "ready",
  ],
  none: ["nothing", () => "all nodes"],
};

function grouped(nodes, grouping, sorting, resource) {
  const groups = new Map();
  for (const node of nodes) {
    const name = GROUPINGS[grouping][1](node);
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(node);
  }
  const compare =
    sorting === "fill"
      ? (a, b) => share(b, resource) - share(a, resource) || a.row - b.row
      : (a, b) => a.name.localeCompare(b.name, "en", { numeric: true });
  for (const members of groups.values()) members.sort(compare);
  return [...groups].sort((a, b) => b[1].length - a[1].length || a[0].localeCompare(b[0]));
}

const states = (node) =>
  [
    node.flags & NOT_READY && "not ready",
    node.flags & UNSCHEDULABLE && "unschedulable",
    node.flags & TAINTED && "tainted",
  ]
    .filter(Boolean)
    .join(", ") || "ready";

export function ClusterView() {
  const store = useStore();
  const [grouping, setGrouping] = useState("group");
  const [sorting, setSorting] = useState("name");
  const [resource, setResource] = useState(0);
  const [search, setSearch] = useState("");
  const [isTable, setIsTable] = useState(false);
  const names = [...store.resources, "pods"];
  const shown = resource === store.resources.length ? -1 : resource;
  const every = sorting === "fill" ? Math.floor(store.version / 4) : 0;
  const groups = useMemo(
    () => grouped([...store.nodes.values()], grouping, sorting, shown),
    [store.shape, grouping, sorting, shown, every],
  );
  const open = (name) => {
    location.hash = `#/nodes/${encodeURIComponent(name)}`;
  };
  return html`<div><${Heading}>Cluster<//>
    <${Totals} store=${store} />
    <form class="controls" onSubmit=${(event) => event.preventDefault()}>
      <label>
        Fill by
        <select value=${resource} onChange=${(event) => setResource(+event.target.value)}>
          ${names.map((name, index) => html`<option value=${index}>${name}</option>`)}
        </select>
      </label>
      <label>
        Group by
        <select value=${grouping} onChange=${(event) => setGrouping(event.target.value)}>
          ${Object.entries(GROUPINGS).map(
            ([key, [title]]) => html`<option value=${key}>${title}</option>`,
          )}
        </select>
      </label>
      <label>
        Sort by
        <select value=${sorting} onChange=${(event) => setSorting(event.target.value)}>
          <option value="name">name</option>
          <option value="fill">fill</option>
        </select>
      </label>
      <label>
        Search
        <input type="search" value=${search} onInput=${(event) => setSearch(event.target.value)} />
      </label>
      <button type="button" aria-pressed=${isTable} onClick=${() => setIsTable(!isTable)}>
        Table
      </button>
    </form>
    ${isTable
      ? html`<${NodeTable} store=${store} search=${search} />`
      : html`<div><${Legend} />
          <${NodeMap}
            groups=${groups}
            resource=${shown}
            resourceName=${names[resource]}
            search=${search}
            version=${store.version}
            onOpen=${open}
          /></div>`}
    <${Curves} store=${store} /></div>`;
}

const Legend = () => html`<p class="legend">
  <span>0 %</span><span class="scale" aria-hidden="true"></span><span>100 %</span>
  <span>one line across: unschedulable; a cross: not ready</span>
</p>`;

function Totals({ store }) {
  const nodes = [...store.nodes.values()];
  const totals = store.resources.map((name, index) => {
    let [used, all] = [0, 0];
    for (const node of nodes) {
      used += node.requested[index];
      all += node.allocatable[index];
    }
    return [name, used, all];
  });
  return html`<dl class="totals">
    ${totals.map(
      ([name, used, all]) => html`<div>
        <dt>${name}</dt>
        <dd>
          <progress aria-label=${`${name} requested`} max="1" value=${all ? used / all : 0}></progress>
          ${percent(all ? used / all : 0)}: ${amountText(name, used)} of ${amountText(name, all)}
        </dd>
      </div>`,
    )}
  </dl>`;
}

function NodeTable({ store, search }) {
  const rows = [...store.nodes.values()].filter((node) => node.name.includes(search));
  const columns = [
    ["Node", (node) => html`<${NodeLink} name=${node.name} />`, (node) => node.name],
    ["Group", (node) => node.group, (node) => node.group],
    ["Zone", (node) => node.zone, (node) => node.zone],
    ["State", states, states],
    ["Pods", (node) => node.pods, (node) => node.pods],
    ...store.resources.map((name, index) => [
      name,
      (node) => percent(share(node, index)),
      (node) => share(node, index),
    ]),
  ];
  return html`<${Table}
    caption="Nodes"
    columns=${columns}
    rows=${rows}
    rowKey=${(node) => node.row}
    initial=${[0, 1]}
  />`;
}

export function NodeView({ name }) {
  const store = useStore();
  const [message, setMessage] = useState("");
  const [document, problem] = useDocument(() => get(`nodes/${quoted(name)}`), 2000, name);
  const node = [...store.nodes.values()].find((one) => one.name === name);
  const act = async (work) => {
    try {
      setMessage(await work());
    } catch (error) {
      setMessage(error.message);
    }
  };
  const cordon = (unschedulable) =>
    act(async () => {
      const object = { apiVersion: "v1", kind: "Node", metadata: { name }, spec: { unschedulable } };
      const [result] = await post("/api/v1/apply", { text: JSON.stringify(object) });
      return result.message;
    });
  const remove = (pod) =>
    act(async () => {
      const [namespace, podName] = pod.split("/");
      return (await post("/api/v1/delete", { kind: "Pod", namespace, name: podName })).message;
    });
  if (!document) return html`<div><${Heading}>Node ${name}<//><${Problem} text=${problem} /></div>`;
  const { object, pods } = document;
  const labels = Object.entries(object.metadata.labels || {});
  // Of a mooring in this process the pods are decided again when the node or its pods change.
  const change = [pods.map((pod) => pod.pod), object.spec, object.metadata.labels];
  const state = store.isWritable ? JSON.stringify(change) : "";
  const taints = object.spec?.taints || [];
  return html`<div><${Heading}>Node ${name}<//>
    <${Problem} text=${problem} />
    <p role="status">${message}</p>
    ${node &&
    html`<section aria-label="Resources"><p>${node.group}; ${states(node)}.</p>
      <dl class="totals">
        ${store.resources.map(
          (resource, index) => html`<div>
            <dt>${resource}</dt>
            <dd>
              <progress
                aria-label=${`${resource} requested`}
                max="1"
                value=${share(node, index)}
              ></progress>
              ${percent(share(node, index))}: ${amountText(resource, node.requested[index])} of
              ${" "}${amountText(resource, node.allocatable[index])}
            </dd>
          </div>`,
        )}
      </dl>
      ${store.isWritable &&
      html`<p>
        ${node.flags & UNSCHEDULABLE
          ? html`<button type="button" onClick=${() => cordon(false)}>Uncordon</button>`
          : html`<${SureButton} label="Cordon" onSure=${() => cordon(true)} />`}
      </p>`}</section>`}
    ${taints.length > 0 &&
    html`<section><h2>Taints</h2>
      <ul>
        ${taints.map((taint) => html`<li>${taint.key}${taint.value ? `=${taint.value}` : ""}:${taint.effect}</li>`)}
      </ul></section>`}
    <${Table}
      caption=${`${counted(pods.length, "pod")} on this node`}
      columns=${[
        ["Pod", (pod) => html`<${PodLink} name=${pod.pod} />`, (pod) => pod.pod],
        ["Requests", (pod) => pod.requests, (pod) => pod.requests],
        ["Priority", (pod) => pod.priority || 0, (pod) => pod.priority || 0],
        ["Created", (pod) => pod.created, (pod) => pod.created],
        ...(store.isWritable
          ? [["Action", (pod) => html`<${SureButton} label="Delete" onSure=${() => remove(pod.pod)} />`]]
          : []),
      ]}
      rows=${pods}
      rowKey=${(pod) => pod.pod}
    />
    <${Rejections} name=${name} state=${state} />
    <details>
      <summary>Labels (${labels.length})</summary>
      <ul>
        ${labels.map(([key, value]) => html`<li>${key}=${value}</li>`)}
      </ul>
    </details>
    <details>
      <summary>Object</summary>
      <pre tabindex="0">${JSON.stringify(object, null, 2)}</pre>
    </details></div>`;
}
