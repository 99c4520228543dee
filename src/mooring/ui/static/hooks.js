// What the views have in common.

import { html, useEffect, useLayoutEffect, useReducer, useRef, useState } from "./vendor/preact-htm.js";
import { store } from "./store.js";

/** Draws the component again after each tick. */
export function useStore() {
  const [, again] = useReducer((count) => count + 1, 0);
  // Effects run after the next paint: an answer that comes before it would not be drawn.
  useLayoutEffect(() => store.subscribe(again), []);
  return store;
}

/** Reads a document now, and again every so many milliseconds; null while there is none. */
export function useDocument(read, everyMs, ...dependencies) {
  const [result, setResult] = useState({ value: null, problem: "" });
  useEffect(() => {
    let isOpen = true;
    let timer = 0;
    async function again() {
      try {
        const value = document.hidden ? undefined : await read();
        if (isOpen && value !== undefined) setResult({ value, problem: "" });
      } catch (error) {
        if (isOpen) setResult((last) => ({ value: last.value, problem: error.message }));
      }
      if (isOpen && everyMs) timer = setTimeout(again, everyMs);
    }
    setResult({ value: null, problem: "" });
    again();
    return () => {
      isOpen = false;
      clearTimeout(timer);
    };
  }, dependencies);
  return [result.value, result.problem];
}

/** A heading that takes the focus when the view opens, so that a screen reader tells it. */
export function Heading({ children }) {
  const ref = useRef(null);
  useEffect(() => ref.current && ref.current.focus({ preventScroll: true }), []);
  return html`<h1 tabindex="-1" ref=${ref}>${children}</h1>`;
}

export const Problem = ({ text }) => (text ? html`<p class="problem" role="alert">${text}</p>` : null);

export const PodLink = ({ name }) =>
  html`<a href=${`#/pods/${name.split("/").map(encodeURIComponent).join("/")}`}>${name}</a>`;

export const NodeLink = ({ name }) =>
  name ? html`<a href=${`#/nodes/${encodeURIComponent(name)}`}>${name}</a>` : "";

/** A button that asks once more before it acts. */
export function SureButton({ label, onSure, isDisabled = false }) {
  const [isAsked, setIsAsked] = useState(false);
  useEffect(() => {
    if (!isAsked) return undefined;
    const timer = setTimeout(() => setIsAsked(false), 4000);
    return () => clearTimeout(timer);
  }, [isAsked]);
  const act = () => {
    setIsAsked(!isAsked);
    if (isAsked) onSure();
  };
  return html`<button type="button" class=${isAsked ? "danger" : ""} disabled=${isDisabled} onClick=${act}>
    ${isAsked ? `Really ${label.toLowerCase()}` : label}
  </button>`;
}

/** A table: columns of [title, cell, sort key], sorted by a click on a title. */
export function Table({ caption, columns, rows, rowKey, limit = 200, initial = null }) {
  const [order, setOrder] = useState(initial);
  const [shown, setShown] = useState(limit);
  let sorted = rows;
  if (order) {
    const key = columns[order[0]][2];
    sorted = [...rows].sort((a, b) => compare(key(a), key(b)) * order[1]);
  }
  const turn = (index) =>
    setOrder(order && order[0] === index ? [index, -order[1]] : [index, 1]);
  const direction = (index) =>
    order && order[0] === index ? (order[1] > 0 ? "ascending" : "descending") : undefined;
  return html`<div class="table" tabindex="0" role="region" aria-label=${caption}>
    <table>
      <caption>${caption}</caption>
      <thead>
        <tr>
          ${columns.map(
            ([title, , key], index) => html`<th scope="col" aria-sort=${direction(index)}>
              ${key
                ? html`<button type="button" class="plain" onClick=${() => turn(index)}>
                    ${title}
                  </button>`
                : title}
            </th>`,
          )}
        </tr>
      </thead>
      <tbody>
        ${sorted.slice(0, shown).map(
          (row) => html`<tr key=${rowKey(row)}>
            ${columns.map(([, cell]) => html`<td>${cell(row)}</td>`)}
          </tr>`,
        )}
      </tbody>
    </table>
    ${rows.length > shown &&
    html`<button type="button" onClick=${() => setShown(shown + 5 * limit)}>
      ${shown} of ${rows.length} rows: show more
    </button>`}
  </div>`;
}

function compare(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), "en", { numeric: true });
}

export const secondsText = (seconds) =>
  seconds < 60
    ? `${seconds.toFixed(1)} s`
    : seconds < 3600
      ? `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`
      : `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;

/** Whether positions are times: numbers of microseconds. */
export const isTimed = (timeline) => timeline.unit === "time";

/** A virtual time: "1 d 2 h 3 min 4.5 s", without the parts that are 0. */
export function timeText(microseconds) {
  const seconds = Math.floor(microseconds / 1e6);
  const rest = (seconds % 60) + (microseconds % 1e6) / 1e6;
  const parts = [
    [Math.floor(seconds / 86400), "d"],
    [Math.floor(seconds / 3600) % 24, "h"],
    [Math.floor(seconds / 60) % 60, "min"],
    [+rest.toFixed(6), "s"],
  ].filter(([amount]) => amount);
  return parts.map(([amount, unit]) => `${amount} ${unit}`).join(" ") || "0 s";
}

/** A position: "step 3", or "time 1 min 2 s". */
export const positionText = (timeline, position) =>
  `${timeline.unit} ${isTimed(timeline) ? timeText(position) : position}`;

export const clockText = (timeS) =>
  new Date(timeS * 1000).toLocaleTimeString("en-GB", { hour12: false });

/** A number with its noun: "1 pod", "2 pods". */
export const counted = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;
