// The player of a recording or of results: play, pause, step, scrub, speed, and markers.

import { html, useState } from "./vendor/preact-htm.js";
import { post } from "./api.js";
import { Problem, isTimed, positionText, timeText, useStore } from "./hooks.js";

const WIDTH = 1000;
const KEYS = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 };

export function Player() {
  const store = useStore();
  const [problem, setProblem] = useState("");
  const { player, timeline } = store;
  if (!player) return null;
  const send = async (command) => {
    try {
      store.player = await post("/api/v1/time", command);
      setProblem("");
      store.changed();
    } catch (error) {
      setProblem(error.message);
    }
  };
  const { position, end, isPlaying, speed } = player;
  const seek = (to) => send({ position: Math.max(0, Math.min(end, to)), isPlaying: false });
  const step = (by) => send({ step: by, isPlaying: false });
  const at = (where) => positionText(timeline, where);
  const grain = isTimed(timeline) && speed > 1 ? 1e6 : 1; // fractions of a second only flicker
  const speedText = (item) =>
    isTimed(timeline) ? `${timeText(item * 1e6)} a second` : `${item} ${timeline.unit}s a second`;
  // A microsecond is no useful step: the arrow keys go from instant to instant.
  const onKeyDown = (event) => {
    if (!(event.key in KEYS)) return;
    event.preventDefault();
    step(KEYS[event.key]);
  };
  const before = timeline.markers.filter((marker) => marker.position < position).pop();
  const after = timeline.markers.find((marker) => marker.position > position);
  const here = timeline.markers
    .filter((marker) => marker.position === position)
    .map((marker) => marker.text)
    .join("; ");
  const button = (label, isDisabled, act) =>
    html`<button type="button" disabled=${isDisabled} onClick=${act}>${label}</button>`;
  return html`<section class="player" aria-label="Time">
    <div class="controls">
      ${button(isPlaying ? "Pause" : "Play", !end, () => send({ isPlaying: !isPlaying }))}
      ${button("Step back", !position, () => step(-1))}
      ${button("Step forward", position >= end, () => step(1))}
      ${button("Previous marker", !before, () => seek(before.position))}
      ${button("Next marker", !after, () => seek(after.position))}
      <label>
        Speed
        <select value=${speed} onChange=${(event) => send({ speed: Number(event.target.value) })}>
          ${timeline.speeds.map(
            (item) => html`<option value=${item}>${speedText(item)}</option>`,
          )}
        </select>
      </label>
      <output>${at(isPlaying ? position - (position % grain) : position)} of ${isTimed(timeline) ? timeText(end) : end}${here && `; ${here}`}</output>
    </div>
    <input
      type="range"
      aria-label=${`Position: ${timeline.unit}`}
      aria-valuetext=${at(position)}
      min="0"
      max=${end}
      value=${position}
      onInput=${(event) => seek(Number(event.target.value))}
      onKeyDown=${onKeyDown}
    />
    <svg viewBox=${`0 0 ${WIDTH} 8`} preserveAspectRatio="none" aria-hidden="true">
      ${timeline.markers.map(
        (marker) => html`<rect
          class=${marker.kind}
          x=${end ? (marker.position / end) * (WIDTH - 2) : 0}
          width="2"
          height="8"
        />`,
      )}
    </svg>
    <${Problem} text=${problem} />
  </section>`;
}
