// The player of a recording: play, pause, step, scrub, speed, and markers.

import { html, useState } from "./vendor/preact-htm.js";
import { post } from "./api.js";
import { Problem, useStore } from "./hooks.js";

const WIDTH = 1000;

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
  const before = timeline.markers.filter((marker) => marker.position < position).pop();
  const after = timeline.markers.find((marker) => marker.position > position);
  const here = timeline.markers.find((marker) => marker.position === position);
  const button = (label, isDisabled, act) =>
    html`<button type="button" disabled=${isDisabled} onClick=${act}>${label}</button>`;
  return html`<section class="player" aria-label="Time">
    <div class="controls">
      ${button(isPlaying ? "Pause" : "Play", !end, () => send({ isPlaying: !isPlaying }))}
      ${button("Step back", !position, () => seek(position - 1))}
      ${button("Step forward", position >= end, () => seek(position + 1))}
      ${button("Previous marker", !before, () => seek(before.position))}
      ${button("Next marker", !after, () => seek(after.position))}
      <label>
        Speed
        <select value=${speed} onChange=${(event) => send({ speed: Number(event.target.value) })}>
          ${timeline.speeds.map(
            (item) => html`<option value=${item}>${item} ${timeline.unit}s a second</option>`,
          )}
        </select>
      </label>
      <output>${timeline.unit} ${position} of ${end}${here ? `; ${here.text}` : ""}</output>
    </div>
    <input
      type="range"
      aria-label=${`Position: ${timeline.unit}`}
      min="0"
      max=${end}
      value=${position}
      onInput=${(event) => seek(Number(event.target.value))}
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
