// The two pictures of a layer: lines between two columns of words, and a heat map for every head.

const SVG = "http://www.w3.org/2000/svg";
const MOST_LINES = 8000; // of all words; more makes a browser slow
const MOST_CELLS = 40000;
const LARGEST_CELL = 15; // px of a heat map's square
const SMALLEST_CELL = 10; // its labels are as small
const LARGEST_TEXT = 11; // px of a label
const LONGEST_LABEL = 14; // characters
const LEAN = Math.PI / 3; // of a column's label

const colourOf = (head) => page.colours[head % page.colours.length];
const characters = new Intl.Segmenter(undefined, { granularity: "grapheme" });

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
function layout(map, cell) {
  const text = Math.min(cell, LARGEST_TEXT);
  ruler.font = `bold ${text}px ${getComputedStyle(document.body).fontFamily}`;
  const lengths = (words) => words.map((word) => ruler.measureText(shortened(word)).width);
  const [queries, keys] = [lengths(map.queries), lengths(map.keys)];
  const last = keys.length - 1;
  const beyond = keys.map((length, i) => length * Math.cos(LEAN) + text - (last - i + 0.5) * cell);
  const left = Math.max(...queries) + 10;
  const top = Math.max(...keys) * Math.sin(LEAN) + 14;
  const [across, down] = [keys.length * cell, queries.length * cell];
  const width = left + across + Math.max(2, ...beyond);
  return { cell, text, left, top, across, down, width, height: top + down + 2 };
}

// Two heat maps beside each other where their squares are not too small for it.
function fittingLayout(box, map, state) {
  const half = box.clientWidth / 2 - 16; // half of the gap, see attention_page.css
  for (let cell = LARGEST_CELL; state.heads.size > 1 && cell >= SMALLEST_CELL; cell--) {
    const place = layout(map, cell);
    if (place.width <= half) return place;
  }
  return layout(map, LARGEST_CELL);
}

function labels(svg, map, { cell, left, top, text }) {
  const label = (word, index, place) => {
    const attributes = { ...place, "font-size": text, "data-index": index };
    shape(shape(svg, "text", attributes, shortened(word)), "title", {}, word);
  };
  map.queries.forEach((word, i) => {
    label(word, i, { class: "query", x: left - 6, y: top + (i + 0.5) * cell });
  });
  map.keys.forEach((word, i) => {
    const [x, y] = [left + (i + 0.5) * cell + text / 4, top - 5];
    label(word, i, { class: "key", x, y, transform: `rotate(${(-LEAN * 180) / Math.PI} ${x} ${y})` });
  });
}

function heatMap(box, map, head, cells, place) {
  const figure = document.createElement("figure");
  const caption = document.createElement("figcaption");
  caption.textContent = `Head ${head + 1}`;
  caption.style.setProperty("--head", colourOf(head));
  const scroll = document.createElement("div");
  scroll.className = "scroll";
  figure.append(caption, scroll);
  box.append(figure);
  const { width, height, left, top, cell } = place;
  const name = { role: "img", "aria-label": `Heat map of head ${head + 1}` };
  const svg = shape(scroll, "svg", { width, height, "data-head": head + 1, ...name });
  const frame = { x: left, y: top, width: place.across, height: place.down };
  shape(svg, "rect", { class: "frame", ...frame });
  labels(svg, map, place);
  const group = shape(svg, "g", { class: "cells", fill: colourOf(head) });
  for (const { query, key, weight } of cells) {
    const [x, y] = [left + key * cell, top + query * cell];
    const size = { x, y, width: cell - 1, height: cell - 1 };
    shape(group, "rect", { ...size, "fill-opacity": weight.toFixed(4) });
  }
  shape(svg, "rect", { class: "band", ...frame });
  if (scroll.scrollWidth > scroll.clientWidth) scroll.tabIndex = 0; // scrolled by the arrow keys
  svg.spot = (event) => spot(event, svg, map, place);
  svg.cell = cell;
}

// The query and key under the pointer, or null.
function spot(event, svg, map, { left, top, cell }) {
  const area = svg.getBoundingClientRect();
  const key = Math.floor((event.clientX - area.left - left) / cell);
  const query = Math.floor((event.clientY - area.top - top) / cell);
  const inside = query >= 0 && query < map.queries.length && key < map.keys.length;
  return inside ? { query, key: key >= 0 ? key : null } : null;
}

function heatMaps(box, map, state) {
  const { found, of } = strongest(map, state, MOST_CELLS);
  box.replaceChildren();
  const place = fittingLayout(box, map, state);
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
    band.setAttribute(start, Number(frame.getAttribute(start)) + (word?.index ?? 0) * svg.cell - 0.5);
    band.setAttribute(size, svg.cell);
    for (const text of svg.querySelectorAll("text")) {
      const chosen = text.matches(`.${word?.side}`) && Number(text.dataset.index) === word.index;
      text.classList.toggle("chosen", chosen);
    }
  }
}
