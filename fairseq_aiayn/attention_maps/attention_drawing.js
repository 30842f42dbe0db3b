// The weights of the data block, and the two pictures of a layer: lines between two columns of words,
// and a heat map for every head.

const LEVELS = 4095; // a weight is a whole number of 1/4095, in 16 bits

function decode(text) {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  return Float32Array.from(new Uint16Array(bytes.buffer), (level) => level / LEVELS);
}

// weights[((layer * heads + head) * queries + query) * keys + key], all counted from 0
function weightsOf(map, layer, head) {
  const size = map.queries.length * map.keys.length;
  return map.weights.subarray((layer * map.heads + head) * size).subarray(0, size);
}

// A map of pieces may have one of `whole` words.
function decoded(map) {
  return map && { ...map, weights: decode(map.weights), whole: decoded(map.whole) };
}

const page = JSON.parse(document.getElementById("attention").textContent);
const maps = new Map(page.maps.map((map) => [map.kind, decoded(map)]));

function mapOf(state) {
  const map = maps.get(state.kind);
  return (state.whole && map.whole) || map;
}

// Every weight above 0 of the heads as {head, query, key, weight}, at most `limit`, the largest.
function strongest(map, state, limit) {
  const positive = [];
  for (const head of state.heads) {
    for (const weight of weightsOf(map, state.layer, head)) if (weight > 0) positive.push(weight);
  }
  const few = positive.length <= limit;
  const least = few ? 0 : Float32Array.from(positive).sort()[positive.length - limit];
  const found = [];
  for (const head of state.heads) {
    weightsOf(map, state.layer, head).forEach((weight, i) => {
      if (weight <= 0 || weight < least || found.length === limit) return;
      const key = i % map.keys.length;
      found.push({ head, query: (i - key) / map.keys.length, key, weight });
    });
  }
  return { found, of: positive.length };
}

// The weights of one word as {head, query, key, weight}: a query's to all keys, a key's from all
// queries.
function weightsAt(map, state, word) {
  const isQuery = word.side === "query";
  return [...state.heads].flatMap((head) => {
    const weights = weightsOf(map, state.layer, head);
    return (isQuery ? map.keys : map.queries).map((_, other) => {
      const [query, key] = isQuery ? [word.index, other] : [other, word.index];
      return { head, query, key, weight: weights[query * map.keys.length + key] };
    });
  });
}

const SVG = "http://www.w3.org/2000/svg";
const MOST_LINES = 8000; // of all words; more makes a browser slow
const MOST_CELLS = 40000;
const CELL = 13; // px of a heat map's square
const TEXT = 11; // px of a label
const LONGEST_LABEL = 14; // characters
const LEAN = Math.PI / 3; // of a column's label

const colourOf = (head) => page.colours[head % page.colours.length];
const characters = new Intl.Segmenter(undefined, { granularity: "grapheme" });

function create(name, properties, ...children) {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
}

function shape(parent, name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
}

function shortened(word) {
  const parts = Array.from(characters.segment(word), (part) => part.segment);
  return parts.length <= LONGEST_LABEL ? word : parts.slice(0, LONGEST_LABEL - 1).join("") + "…";
}

// The heads' lines between the same words lie beside each other.
function lines(group, found, heads) {
  const place = new Map([...heads].map((head, i) => [head, (i + 0.5) / heads.size - 0.5]));
  group.replaceChildren();
  for (const { head, query, key, weight } of found) {
    const shift = 0.5 + 0.5 * place.get(head);
    shape(group, "line", {
      x1: 0,
      y1: query + shift,
      x2: 100,
      y2: key + shift,
      stroke: colourOf(head),
      "stroke-opacity": weight.toFixed(4),
      "data-head": head + 1,
    });
  }
}

// Between the columns, whose rows are 1 unit high whatever the size of the text.
function lineDrawing(svg, map, state) {
  const height = Math.max(map.queries.length, map.keys.length);
  const { found, of } = strongest(map, state, MOST_LINES);
  svg.setAttribute("viewBox", `0 0 100 ${height}`);
  svg.style.height = `calc(var(--row) * ${height})`;
  svg.replaceChildren();
  lines(shape(svg, "g", { class: "all" }), found, state.heads);
  shape(svg, "g", { class: "one" });
  return omitted(found.length, of, "lines");
}

function omitted(drawn, of, what) {
  const number = (count) => count.toLocaleString("en");
  return drawn === of ? "" : `Drawn are the strongest ${number(drawn)} of ${number(of)} ${what}.`;
}

const ruler = document.createElement("canvas").getContext("2d");

// Where the squares of every heat map lie, so that their labels have room, all in px.
function layout(map) {
  ruler.font = `bold ${TEXT}px ${getComputedStyle(document.body).fontFamily}`;
  const lengths = (words) => words.map((word) => ruler.measureText(shortened(word)).width);
  const [queries, keys] = [lengths(map.queries), lengths(map.keys)];
  const [across, down] = [keys.length * CELL, queries.length * CELL];
  const beyond = keys.map((length, i) => length * Math.cos(LEAN) + TEXT + (i + 0.5) * CELL - across);
  const left = Math.max(...queries) + 10;
  const top = Math.max(...keys) * Math.sin(LEAN) + 14;
  const width = left + across + Math.max(2, ...beyond);
  return { left, top, across, down, width, height: top + down + 2 };
}

function labels(svg, map, { left, top }) {
  const label = (word, index, place) => {
    const attributes = { ...place, "font-size": TEXT, "data-index": index };
    shape(shape(svg, "text", attributes, shortened(word)), "title", {}, word);
  };
  map.queries.forEach((word, i) => {
    label(word, i, { class: "query", x: left - 6, y: top + (i + 0.5) * CELL });
  });
  map.keys.forEach((word, i) => {
    const [x, y] = [left + (i + 0.5) * CELL + TEXT / 4, top - 5];
    label(word, i, { class: "key", x, y, transform: `rotate(${(-LEAN * 180) / Math.PI} ${x} ${y})` });
  });
}

function heatMap(box, map, head, cells, place) {
  const caption = create("figcaption", { textContent: `Head ${head + 1}` });
  caption.style.setProperty("--head", colourOf(head));
  const scroll = create("div", { className: "scroll" });
  box.append(create("figure", {}, caption, scroll));
  const { width, height, left, top } = place;
  const name = { role: "img", "aria-label": `Heat map of head ${head + 1}` };
  const svg = shape(scroll, "svg", { width, height, "data-head": head + 1, ...name });
  const frame = { x: left, y: top, width: place.across, height: place.down };
  shape(svg, "rect", { class: "frame", ...frame });
  labels(svg, map, place);
  const group = shape(svg, "g", { class: "cells", fill: colourOf(head) });
  for (const { query, key, weight } of cells) {
    const [x, y] = [left + key * CELL, top + query * CELL];
    const size = { x, y, width: CELL - 1, height: CELL - 1 };
    shape(group, "rect", { ...size, "fill-opacity": weight.toFixed(4) });
  }
  shape(svg, "rect", { class: "band", ...frame });
  if (scroll.scrollWidth > scroll.clientWidth) scroll.tabIndex = 0; // scrolled by the arrow keys
  svg.spot = (event) => spot(event, svg, map, place);
}

// The query and key under the pointer, or null.
function spot(event, svg, map, { left, top }) {
  const area = svg.getBoundingClientRect();
  const key = Math.floor((event.clientX - area.left - left) / CELL);
  const query = Math.floor((event.clientY - area.top - top) / CELL);
  const inside = query >= 0 && query < map.queries.length && key < map.keys.length;
  return inside ? { query, key: key >= 0 ? key : null } : null;
}

function heatMaps(box, map, state) {
  const { found, of } = strongest(map, state, MOST_CELLS);
  box.replaceChildren();
  const place = layout(map);
  for (const head of state.heads) {
    heatMap(box, map, head, found.filter((cell) => cell.head === head), place);
  }
  return omitted(found.length, of, "cells");
}

// Frames the row or column of a word in every heat map; null frames nothing.
function bands(box, map, word) {
  for (const svg of box.querySelectorAll("svg")) {
    const [frame, band] = [svg.querySelector(".frame"), svg.querySelector(".band")];
    for (const name of ["x", "y", "width", "height"]) {
      band.setAttribute(name, frame.getAttribute(name));
    }
    band.toggleAttribute("hidden", word === null);
    const [start, size] = word?.side === "query" ? ["y", "height"] : ["x", "width"];
    band.setAttribute(start, Number(frame.getAttribute(start)) + (word?.index ?? 0) * CELL - 0.5);
    band.setAttribute(size, CELL);
    for (const text of svg.querySelectorAll("text")) {
      const chosen = text.matches(`.${word?.side}`) && Number(text.dataset.index) === word.index;
      text.classList.toggle("chosen", chosen);
    }
  }
}
