"use strict";
// The S-curve with sliders. The formulas are those of lsh/curve.py, which a test compares; plots.py
// has drawn the same plot and numbers for the bands of the run.

const STEPS = 2000;

const curves = {
  // The probability that two documents of this similarity share a bucket.
  probability(similarity, bands, rows) {
    const oneBand = Math.pow(similarity, rows);
    return oneBand >= 1 ? 1 : -Math.expm1(bands * Math.log1p(-oneBand));
  },

  estimate: (bands, rows) => Math.pow(1 / bands, 1 / rows),

  inflection: (bands, rows) =>
    rows === 1 ? 0 : Math.pow((rows - 1) / (bands * rows - 1), 1 / rows),

  half: (bands, rows) => Math.pow(-Math.expm1(Math.log(0.5) / bands), 1 / rows),

  // Simpson's rule.
  integral(f, low, high) {
    const step = (high - low) / STEPS;
    let inner = 0;
    for (let i = 1; i < STEPS; i++) inner += (i % 2 ? 4 : 2) * f(low + i * step);
    return (step / 3) * (f(low) + inner + f(high));
  },

  falsePositiveRate: (bands, rows, threshold) =>
    curves.integral((s) => curves.probability(s, bands, rows), 0, threshold) / threshold,

  falseNegativeRate: (bands, rows, threshold) =>
    threshold >= 1
      ? 0
      : curves.integral((s) => 1 - curves.probability(s, bands, rows), threshold, 1) /
        (1 - threshold),

  // Of [similarity, count] pairs: how many share a bucket, and which share of those above the
  // threshold.
  expected(found, bands, rows, threshold) {
    let meeting = 0, similar = 0, similarMeeting = 0;
    for (const [similarity, count] of found) {
      const chance = count * curves.probability(similarity, bands, rows);
      meeting += chance;
      if (similarity >= threshold) {
        similar += count;
        similarMeeting += chance;
      }
    }
    return { meeting, recall: similar ? similarMeeting / similar : null };
  },

  // The numbers beside the plot, by name.
  written(given, bands, rows) {
    const at = given.threshold;
    const expected = curves.expected(given.found, bands, rows, at);
    const grouped = Math.round(expected.meeting).toFixed(0).replace(/\B(?=(\d{3})+$)/g, ",");
    const more = given.slots && bands * rows > given.slots;
    return {
      slots: `${bands} × ${rows} = ${bands * rows}` + (more ? `, more than the ${given.slots} of the sketch` : ""),
      recall: curves.probability(at, bands, rows).toFixed(4),
      estimate: curves.estimate(bands, rows).toFixed(3),
      inflection: curves.inflection(bands, rows).toFixed(3),
      half: curves.half(bands, rows).toFixed(3),
      "false-positives": curves.falsePositiveRate(bands, rows, at).toFixed(4),
      "false-negatives": curves.falseNegativeRate(bands, rows, at).toFixed(4),
      meeting: grouped,
      found: expected.recall === null ? "none is" : expected.recall.toFixed(4),
    };
  },

  // The points of the line in the plot.
  line({ left, right, top, bottom, steps }, bands, rows) {
    const points = [];
    for (let step = 0; step <= steps; step++) {
      const share = step / steps;
      const x = left + (right - left) * share;
      const y = bottom - (bottom - top) * curves.probability(share, bands, rows);
      points.push(`${x.toFixed(2)},${y.toFixed(2)}`);
    }
    return points.join(" ");
  },
};

function connect(explorer) {
  const given = JSON.parse(explorer.dataset.curves);
  const { left, right, top, bottom } = given.frame;
  const controls = explorer.querySelector("fieldset");
  const [bands, rows] = controls.querySelectorAll("input");
  const plot = explorer.querySelector("svg");

  function draw() {
    const [b, r] = [Number(bands.value), Number(rows.value)];
    for (const input of [bands, rows]) input.nextElementSibling.value = input.value;
    const written = curves.written(given, b, r);
    for (const place of explorer.querySelectorAll("[data-value]"))
      place.textContent = written[place.dataset.value];
    const line = curves.line(given.frame, b, r);
    plot.querySelector(".curve").setAttribute("points", line);
    plot.querySelector(".area").setAttribute(
      "points", `${left},${bottom} ${line} ${right},${bottom}`);
    const chance = curves.probability(given.threshold, b, r);
    plot.querySelector(".point").setAttribute("cy", bottom - (bottom - top) * chance);
    plot.querySelector(".strong").textContent =
      `threshold ${given.threshold}: ${written.recall} found`;
    plot.querySelector("title").textContent =
      `With ${b} bands of ${r} rows, two documents of similarity ${given.threshold} share a ` +
      `bucket with probability ${written.recall}`;
  }

  controls.addEventListener("input", draw);
  controls.querySelector("button").addEventListener("click", () => {
    for (const input of [bands, rows]) input.value = input.defaultValue;
    draw();
  });
  controls.hidden = false;
  draw();
}

if (typeof document !== "undefined") document.querySelectorAll("[data-curves]").forEach(connect);
