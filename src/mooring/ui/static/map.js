// The map: every node a tile on a canvas, filled by the resource that is shown.

import { html, useEffect, useRef, useState } from "./vendor/preact-htm.js";
import { NOT_READY, TAINTED, UNSCHEDULABLE, percent, share } from "./store.js";

const TITLE_HEIGHT = 22;
const GAP = 2;

/** The colours of a fill from 0 to 1: dark blue to yellow, which the colour-blind can tell apart. */
const COLOURS = [
  [0, 32, 77],
  [60, 77, 110],
  [124, 123, 120],
  [187, 175, 113],
  [255, 234, 70],
];

export function colour(fill) {
  const place = Math.max(0, Math.min(1, fill)) * (COLOURS.length - 1);
  const index = Math.min(COLOURS.length - 2, Math.floor(place));
  const part = place - index;
  const mixed = COLOURS[index].map((from, channel) =>
    Math.round(from + (COLOURS[index + 1][channel] - from) * part),
  );
  return `rgb(${mixed.join(",")})`;
}

/** The side of a tile, so that all fit into a window of usual height. */
export const tileSide = (count) => (count > 20000 ? 4 : count > 3000 ? 8 : count > 600 ? 12 : 18);

/** The places of all tiles: [node, x, y], and the titles of the groups: [text, y]. */
export function layout(groups, width, side) {
  const tiles = [];
  const titles = [];
  const perLine = Math.max(1, Math.floor(width / (side + GAP)));
  let y = 0;
  for (const [name, nodes] of groups) {
    titles.push([`${name} (${nodes.length})`, y]);
    y += TITLE_HEIGHT;
    nodes.forEach((node, index) => {
      const line = Math.floor(index / perLine);
      tiles.push([node, (index % perLine) * (side + GAP), y + line * (side + GAP)]);
    });
    y += Math.ceil(nodes.length / perLine) * (side + GAP) + 8;
  }
  return { tiles, titles, height: Math.max(y, 40), perLine };
}

/** A text about a node: its name, how full it is, and its state. */
export function nodeText(node, resource, resourceName) {
  const states = [
    [UNSCHEDULABLE, "unschedulable"],
    [NOT_READY, "not ready"],
    [TAINTED, "tainted"],
  ].filter(([bit]) => node.flags & bit);
  const words = states.map(([, text]) => text).join(", ");
  const fill = percent(share(node, resource));
  return `${node.name}: ${fill} of ${resourceName}, ${node.pods} ${node.pods === 1 ? "pod" : "pods"}${words ? `, ${words}` : ""}`;
}

/**
 * @param {{groups: [string, object[]][], resource: number, resourceName: string, search: string,
 *   version: number, onOpen: (name: string) => void}} properties
 */
export function NodeMap({ groups, resource, resourceName, search, version, onOpen }) {
  const canvas = useRef(null);
  const frame = useRef(null);
  const [width, setWidth] = useState(0);
  const [selected, setSelected] = useState(0);
  const [hovered, setHovered] = useState(-1);
  const side = tileSide(groups.reduce((sum, [, nodes]) => sum + nodes.length, 0));
  const { tiles, titles, height, perLine } = layout(groups, width, side);

  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(entry.contentRect.width));
    observer.observe(frame.current);
    return () => observer.disconnect();
  }, []);

  useEffect(() => {
    if (width) draw(canvas.current, { tiles, titles, width, height, side, resource, search, selected });
  }, [width, height, side, resource, search, selected, version, groups]);

  const at = (event) => {
    const box = canvas.current.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    return tiles.findIndex(
      ([, left, top]) => x >= left && x < left + side && y >= top && y < top + side,
    );
  };
  const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: perLine, ArrowUp: -perLine };
  const onKeyDown = (event) => {
    if (event.key === "Enter" && tiles[selected]) onOpen(tiles[selected][0].name);
    else if (event.key === "Home") setSelected(0);
    else if (event.key === "End") setSelected(tiles.length - 1);
    else if (event.key in steps) {
      setSelected(Math.max(0, Math.min(tiles.length - 1, selected + steps[event.key])));
    } else return;
    event.preventDefault();
  };
  const told = tiles[hovered] || tiles[Math.min(selected, tiles.length - 1)];
  return html`<div class="map" ref=${frame}>
    <canvas
      ref=${canvas}
      tabindex="0"
      role="application"
      aria-label=${`Map of ${tiles.length} nodes: arrow keys select a node, Enter opens it`}
      aria-describedby="map-node"
      onKeyDown=${onKeyDown}
      onMouseMove=${(event) => setHovered(at(event))}
      onMouseLeave=${() => setHovered(-1)}
      onClick=${(event) => {
        const index = at(event);
        if (index >= 0) onOpen(tiles[index][0].name);
      }}
    ></canvas>
    <p id="map-node" aria-live="polite">
      ${told ? nodeText(told[0], resource, resourceName) : "no nodes"}
    </p>
  </div>`;
}

function draw(canvas, { tiles, titles, width, height, side, resource, search, selected }) {
  const scale = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  const style = getComputedStyle(canvas);
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  context.fillStyle = style.color;
  context.font = "13px system-ui, sans-serif";
  context.textBaseline = "top";
  for (const [text, y] of titles) context.fillText(text, 0, y + 4);
  const cache = new Map();
  tiles.forEach(([node, x, y]) => {
    const fill = Math.round(100 * share(node, resource));
    if (!cache.has(fill)) cache.set(fill, colour(fill / 100));
    context.globalAlpha = search && !node.name.includes(search) ? 0.15 : 1;
    context.fillStyle = cache.get(fill);
    context.fillRect(x, y, side, side);
    if (node.flags & (UNSCHEDULABLE | NOT_READY)) hatch(context, x, y, side, node.flags);
  });
  context.globalAlpha = 1;
  if (tiles[selected] && document.activeElement === canvas) {
    const [, x, y] = tiles[selected];
    context.strokeStyle = style.outlineColor;
    context.lineWidth = 3;
    context.strokeRect(x - 1, y - 1, side + 2, side + 2);
  }
}

/** Draws one diagonal for a node that takes no pods, a cross for one that is not ready. */
function hatch(context, x, y, side, flags) {
  context.strokeStyle = "#d81b60";
  context.lineWidth = Math.max(1, side / 8);
  context.beginPath();
  context.moveTo(x, y + side);
  context.lineTo(x + side, y);
  if (flags & NOT_READY) {
    context.moveTo(x, y);
    context.lineTo(x + side, y + side);
  }
  context.stroke();
}
