// The view of one attempt: the verdict of each plugin on each node.

import { html, useState } from "./vendor/preact-htm.js";
import { get } from "./api.js";
import { Heading, NodeLink, PodLink, Problem, clockText, counted, useDocument } from "./hooks.js";
import { store } from "./store.js";

const KINDS = ["weighted", "normalised", "raw"];
const PAGE = 200;

export function AttemptView({ name }) {
  const [text, setText] = useState("");
  const [plugin, setPlugin] = useState("");
  const [kind, setKind] = useState(KINDS[0]);
  const [[sort, order], setSort] = useState(["total", "descending"]);
  const [offset, setOffset] = useState(0);
  const words = { q: text, plugin, sort, order, offset, kind: kind === "raw" ? "raw" : "score" };
  const [page, problem] = useDocument(() => get(`attempts/${name}`, words), 0, name, ...Object.values(words));
  const [last, setLast] = useState(null);
  if (page && page !== last) setLast(page);
  const shown = page || last;
  const from = (change) => (event) => {
    change(event.target.value);
    setOffset(0);
  };
  const turn = (key) => {
    const isSame = key === sort && order === "descending";
    setSort([key, isSame ? "ascending" : "descending"]);
    setOffset(0);
  };
  return html`<div><${Heading}>Attempt ${name}<//>
    <${Problem} text=${problem} />
    ${shown && html`<${Summary} page=${shown} />`}
    <form class="controls" onSubmit=${(event) => event.preventDefault()}>
      <label>
        Node or reason contains
        <input type="search" value=${text} onInput=${from(setText)} />
      </label>
      <label>
        Plugin
        <select value=${plugin} onChange=${from(setPlugin)}>
          <option value="">all</option>
          ${pluginsOf(shown).map((item) => html`<option value=${item}>${item}</option>`)}
        </select>
      </label>
      <label>
        Scores
        <select value=${kind} onChange=${from(setKind)}>
          ${KINDS.map((item) => html`<option value=${item}>${item}</option>`)}
        </select>
      </label>
    </form>
    ${shown &&
    html`<${Verdicts} page=${shown} plugin=${plugin} kind=${kind} sort=${sort} order=${order} turn=${turn} />`}
    ${shown && html`<${Pager} page=${shown} setOffset=${setOffset} />`}</div>`;
}

const pluginsOf = (page) => (page ? [...new Set([...page.plugins, ...page.rejecting])].sort() : []);

function Summary({ page }) {
  const { attempt } = page;
  return html`<p>
    <${PodLink} name=${attempt.pod} />${store.player ? "" : ` at ${clockText(attempt.timeS)}`}:
    ${" "}<strong>${attempt.result}</strong>
    ${attempt.node && html`${attempt.result === "preempts" ? ", nominated to " : " on "}<${NodeLink} name=${attempt.node} />`}.
    ${" "}${page.message || attempt.message || ""}
  </p>`;
}

function Verdicts({ page, plugin, kind, sort, order, turn }) {
  const shown = page.plugins
    .map((name, index) => [name, index])
    .filter(([name]) => !plugin || name === plugin);
  const column = (key, title) => html`<th scope="col" aria-sort=${key === sort ? order : undefined}>
    <button type="button" class="plain" onClick=${() => turn(key)}>${title}</button>
  </th>`;
  const weight = (index) => (kind === "weighted" ? page.weights[index] : 1);
  const value = (node, index) => {
    const values = (kind === "raw" ? node.raw : node.scores) || [];
    const score = values[index];
    return score === undefined || score === null ? "" : score * weight(index);
  };
  const caption = `${counted(page.count, "node")}: the ${kind} score of each plugin, or the reason of the rejection`;
  return html`<div class="table" tabindex="0" role="region" aria-label=${caption}>
    <table>
      <caption>${caption}</caption>
      <thead>
        <tr>
          ${column("node", "Node")}${column("total", "Total")}
          ${shown.map(([name, index]) =>
            column(name, weight(index) === 1 ? name : `${name} x ${weight(index)}`),
          )}
          ${column("rejection", "Rejected by")}
        </tr>
      </thead>
      <tbody>
        ${page.nodes.map(
          (node) => html`<tr key=${node.node}>
            <td><${NodeLink} name=${node.node} /></td>
            <td>${node.total ?? (node.plugin ? "rejected" : "not scored")}</td>
            ${shown.map(([, index]) => html`<td>${value(node, index)}</td>`)}
            <td>${node.plugin ? `${node.plugin}: ${(node.reasons || []).join("; ")}` : ""}</td>
          </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

function Pager({ page, setOffset }) {
  if (page.count <= PAGE && !page.offset) return null;
  const end = page.offset + page.nodes.length;
  return html`<p class="controls">
    <button type="button" disabled=${!page.offset} onClick=${() => setOffset(page.offset - PAGE)}>
      Previous
    </button>
    <span role="status">${page.nodes.length ? page.offset + 1 : 0} to ${end} of ${page.count}</span>
    <button type="button" disabled=${end >= page.count} onClick=${() => setOffset(end)}>Next</button>
  </p>`;
}
