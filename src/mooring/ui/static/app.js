// The page: its navigation, and the view that the address names.

import { html, render, useEffect, useState } from "./vendor/preact-htm.js";
import { openSession } from "./api.js";
import { ClusterView, NodeView } from "./cluster.js";
import { ConfigurationView } from "./configuration.js";
import { counted, useStore } from "./hooks.js";
import { ObjectsView } from "./objects.js";
import { Player } from "./player.js";
import { PodView, PodsView } from "./pods.js";
import { DecisionsView, QueueView } from "./queue.js";
import { store } from "./store.js";
import { AttemptView } from "./verdicts.js";

const VIEWS = {
  cluster: ["Cluster", ClusterView],
  pods: ["Pods", PodsView],
  queue: ["Queue", QueueView],
  decisions: ["Decisions", DecisionsView],
  objects: ["Objects", ObjectsView],
  configuration: ["Configuration", ConfigurationView],
};

/** The views that only change things. */
const WRITING = ["objects", "configuration"];

/** The views whose navigation entry is that of another one. */
const PARENTS = { nodes: "cluster", attempts: "decisions" };

/** The parts of a route: "#/pods/default/web" has "pods" and "default/web". */
export function route(hash) {
  const [view = "cluster", ...rest] = hash.replace(/^#\/?/, "").split("/").filter(Boolean);
  try {
    return [view, rest.map(decodeURIComponent).join("/")];
  } catch {
    return [view, rest.join("/")];
  }
}

function View({ view, name }) {
  if (view === "nodes" && name) return html`<${NodeView} name=${name} key=${name} />`;
  if (view === "pods" && name) return html`<${PodView} name=${name} key=${name} />`;
  if (view === "attempts" && name) return html`<${AttemptView} name=${name} key=${name} />`;
  const [, Component] = VIEWS[view] || VIEWS.cluster;
  return html`<${Component} key=${view} />`;
}

function Status() {
  const { connection, problem, counts, rate } = useStore();
  if (connection === "denied") return html`<p class="banner" role="alert">${problem}</p>`;
  if (connection === "disconnected") {
    return html`<p class="banner" role="alert">Disconnected: ${problem}. Trying again ...</p>`;
  }
  if (!counts) return html`<p role="status">Reading the cluster ...</p>`;
  const waiting = counts.active + counts.backoff + counts.unschedulable + counts.gated;
  return html`<p class="counts">
    <span>${counted(counts.nodes, "node")}</span>
    <span>${counts.bound} bound</span>
    <span>${waiting} pending: ${counts.active} active, ${counts.backoff} in backoff,
      ${" "}${counts.unschedulable} unschedulable, ${counts.gated} gated</span>
    <span>${rate.toFixed(0)} decisions/s</span>
  </p>`;
}

function App() {
  const { counts, connection, isWritable } = useStore();
  const [[view, name], setRoute] = useState(route(location.hash));
  useEffect(() => {
    const follow = () => setRoute(route(location.hash));
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  useEffect(() => {
    const [title] = VIEWS[view] || [view];
    document.title = name ? `${name} - mooring` : `${title} - mooring`;
  }, [view, name]);
  return html`<div><header>
      <nav aria-label="Views">
        <strong>mooring</strong>
        ${Object.entries(VIEWS)
          .filter(([key]) => isWritable || !WRITING.includes(key))
          .map(
          ([key, [title]]) => html`<a
            href=${`#/${key}`}
            aria-current=${key === (PARENTS[view] || view) ? "page" : undefined}
            >${title}</a
          >`,
        )}
      </nav>
      <${Status} />
      <${Player} />
    </header>
    <main>${counts && connection !== "denied" && html`<${View} view=${view} name=${name} />`}</main></div>`;
}

async function begin() {
  const root = document.getElementById("app");
  try {
    await openSession();
  } catch (error) {
    store.connection = "denied";
    store.problem = error.message;
    render(html`<${App} />`, root);
    return;
  }
  render(html`<${App} />`, root);
  await store.begin();
}

begin();
