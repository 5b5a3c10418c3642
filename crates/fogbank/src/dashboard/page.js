// Draws one look a second. Nothing is kept but what is on the screen.
"use strict";

const SHADES = 64, ROW_MIN = 6, GAP = 2;
const byId = (id) => document.getElementById(id);
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const palettes = Object.fromEntries(["trusted", "cloud"].map((side) => {
  const hex = document.documentElement.dataset[side];
  return [side, Array.from({ length: SHADES }, (_, i) =>
    [0, 2, 4].map((at) => parseInt(hex.slice(6 * i + at, 6 * i + at + 2), 16)))];
}));

function short(value) {
  if (value === 0) return "0";
  const digits = Math.max(0, Math.min(2, 2 - Math.floor(Math.log10(Math.abs(value)))));
  return value.toLocaleString("en", { maximumFractionDigits: digits });
}
const milliseconds = (ms) => ms === null ? "none" : ms < 1000 ? short(ms) + " ms" : short(ms / 1000) + " s";
const span = (ms) => ms < 1000 ? short(ms) + " ms" : ms < 120000 ? short(ms / 1000) + " s" : short(ms / 60000) + " min";

function heat(id, bands, columns, side) {
  const canvas = byId(id), colours = palettes[side];
  const tall = bands.map((band) => Math.ceil(ROW_MIN / band.rows));
  const height = bands.reduce((sum, band, i) => sum + band.rows * tall[i], 0) + GAP * (bands.length - 1);
  canvas.width = columns;
  canvas.height = height;
  const context = canvas.getContext("2d"), image = context.createImageData(columns, height);
  const middles = [];
  let y = 0;
  bands.forEach((band, i) => {
    const shades = Uint8Array.from(atob(band.shades), (c) => c.charCodeAt(0));
    const from = y;
    for (let row = 0; row < band.rows; row++) {
      for (let again = 0; again < tall[i]; again++, y++) {
        for (let x = 0; x < columns; x++) {
          image.data.set([...colours[shades[row * columns + x]], 255], 4 * (y * columns + x));
        }
      }
    }
    middles.push([(from + y) / 2 / height, band.title]);
    y += GAP;
  });
  context.putImageData(image, 0, 0);
  if (bands.length > 1) labels(id + "-axis", middles);
}

function labels(id, middles) {
  let free = 0;
  const shown = middles.filter(([at]) => at >= free && (free = at + 0.05));
  byId(id).replaceChildren(...shown.map(([at, text]) => {
    const label = document.createElement("span");
    label.textContent = text;
    label.style.top = 100 * at + "%";
    return label;
  }));
}

/** A canvas as large as it is shown, in the pixels of the screen. */
function sharp(id) {
  const canvas = byId(id), scale = window.devicePixelRatio || 1;
  canvas.width = Math.round(canvas.clientWidth * scale);
  canvas.height = Math.round(canvas.clientHeight * scale);
  return [canvas.getContext("2d"), canvas.width, canvas.height, scale];
}

/** Bars from `base` upwards (or downwards, for a negative height). */
function bars(context, values, most, width, base, height) {
  values.forEach((value, i) => {
    if (!value) return;
    const x = Math.floor(i * width / values.length), next = Math.max(x + 1, Math.floor((i + 1) * width / values.length));
    const tall = height * value / Math.max(1, most);
    context.fillRect(x, base - Math.max(tall, 0), next - x, Math.abs(tall));
  });
}

function load(id, values, side) {
  const [context, width, height] = sharp(id);
  context.globalAlpha = 0.45;
  context.fillStyle = colour("--" + side);
  bars(context, values, Math.max(...values), width, height, height);
}

function latency(look) {
  const [context, width, height, scale] = sharp("latency");
  const { p50, p99 } = look.latency_ms, columns = look.columns;
  const most = 1.15 * Math.max(1, ...p99.filter((ms) => ms !== null));
  context.fillStyle = colour("--trusted");
  context.globalAlpha = 0.22;
  bars(context, p99.map((ms) => ms ?? 0), most, width, height, height);
  context.globalAlpha = 1;
  context.fillStyle = colour("--trusted");
  p50.forEach((ms, i) => {
    if (ms === null) return;
    const x = Math.floor(i * width / columns), next = Math.ceil((i + 1) * width / columns);
    context.fillRect(x, height - height * ms / most - scale, next - x, 2 * scale);
  });
  labels("latency-axis", [[0.04, milliseconds(most)], [0.5, milliseconds(most / 2)], [0.98, "0"]]);
}

function beat(look) {
  const [context, width, height, scale] = sharp("beat");
  const [reads, writes, others] = look.beat.kinds, middle = height / 2;
  context.fillStyle = colour("--cloud");
  bars(context, reads, Math.max(...reads), width, middle, middle * 0.94);
  context.globalAlpha = 0.55;
  const below = writes.map((count, i) => count + others[i]);
  bars(context, below, Math.max(...below), width, middle, -middle * 0.94);
  context.globalAlpha = 1;
  context.fillStyle = colour("--line");
  context.fillRect(0, Math.round(middle), width, scale);
  byId("beat-from").textContent = "-" + span(look.beat.column_ms * look.columns);
  byId("beat-caption").textContent = look.beat.epoch_ms > 0
    ? `Up: cells asked for. Down: buckets written, and the rest. A point every ${span(look.beat.interval_ms)}, an epoch every ${span(look.beat.epoch_ms)}, busy or idle.`
    : "Up: cells asked for. Down: buckets written, and the rest. Epochs follow each other back to back: their pace shows load.";
}

function list(id, figures) {
  byId(id).replaceChildren(...Object.entries(figures).flatMap(([name, value]) => {
    const [term, data] = [document.createElement("dt"), document.createElement("dd")];
    term.textContent = name.replaceAll("_", " ");
    data.textContent = value.toLocaleString("en");
    return [term, data];
  }));
}

function tiles(look) {
  const recent = Math.max(1, Math.min(look.columns, Math.round(5000 / look.column_ms)));
  const seconds = recent * look.column_ms / 1000;
  const sum = (values) => values.slice(-recent).reduce((a, b) => a + b, 0);
  const last = (values) => values.slice(-recent).filter((ms) => ms !== null).pop() ?? null;
  byId("rate").textContent = short(sum(look.answered) / seconds);
  byId("p50").textContent = milliseconds(last(look.latency_ms.p50));
  byId("p99").textContent = milliseconds(last(look.latency_ms.p99));
  byId("traffic").textContent = short((sum(look.bytes.up) + sum(look.bytes.down)) / seconds / 1e6) + " MB/s";
  byId("epochs").textContent = (look.figures.public.epochs ?? 0).toLocaleString("en");
}

function draw(look) {
  const whole = look.columns * look.column_ms;
  document.querySelectorAll(".from").forEach((at) => { at.textContent = "-" + span(whole); });
  document.querySelectorAll(".half").forEach((at) => { at.textContent = "-" + span(whole / 2); });
  tiles(look);
  heat("keys", look.keys, look.columns, "trusted");
  heat("places", look.places, look.columns, "cloud");
  load("keys-load", look.asked, "trusted");
  load("places-load", look.touched, "cloud");
  latency(look);
  beat(look);
  list("public", look.figures.public);
  list("secret", look.figures.secret);
}

async function look() {
  const state = byId("state");
  try {
    if (!document.hidden) {
      const reply = await fetch("/live.json");
      if (!reply.ok) throw new Error(reply.status);
      const seen = await reply.json();
      if (seen.columns) draw(seen);
      state.textContent = seen.columns ? `The last ${span(seen.columns * seen.column_ms)}, a look a second.` : "The store is being opened.";
      state.className = "";
    }
  } catch {
    state.textContent = "The proxy does not answer: it has stopped, or this page cannot reach it.";
    state.className = "lost";
  }
  setTimeout(look, 1000);
}
look();
