// The page of attention: the weights in its data, the two pictures of a layer, which are lines
// between two columns of words and a heat map of every head, and what is chosen. A `view` is what
// readView returns; layers, heads, queries and keys are counted from 0.

const MOST_LINES = 8000; // the largest weights; more lines make a browser slow
const LARGEST = 6; // weights that are told as numbers
const OTHER = { query: "key", key: "query" };

const page = JSON.parse(document.getElementById("attention").textContent);

// The weights of a head: those of the first query to each key, then those of the second query.
function weightsOf({ map, layer }, head) {
  const size = map.query.length * map.key.length;
  const start = (layer * map.heads + head) * size;
  return map.levels.slice(start, start + size).map((level) => level / page.most);
}

// The visible weights of all heads shown, largest first, as {head, query, key, weight}: of a word,
// {side: "query" or "key", index}, or of all words for null.
function visibleWeights(view, word) {
  const found = [];
  for (const head of view.heads) {
    weightsOf(view, head).forEach((weight, i) => {
      const key = i % view.map.key.length;
      const place = { query: (i - key) / view.map.key.length, key };
      if (weight >= page.visible && (!word || place[word.side] === word.index)) {
        found.push({ head, weight, ...place });
      }
    });
  }
  return found.sort((a, b) => b.weight - a.weight);
}

function create(name, properties, ...children) {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
}

// An element for each word of a side.
function wordsOf(view, side, name) {
  return view.map[side].map((word, index) => {
    const element = create(name, { textContent: word, title: word, dir: "auto" });
    Object.assign(element.dataset, { side, index });
    return element;
  });
}

// The markup, of numbers alone, of a line in an SVG in which a word is 1 high and the columns are
// 100 apart.
function lineOf({ head, query, key, weight }) {
  const { heads } = view;
  const beside = 0.25 + (heads.indexOf(head) + 0.5) / (2 * heads.length); // beside other heads
  const ends = `x1="0" y1="${query + beside}" x2="100" y2="${key + beside}"`;
  const ink = `stroke="${page.colours[head]}" stroke-opacity="${weight.toFixed(4)}"`;
  return `<line ${ends} ${ink} data-head="${head + 1}"/>`;
}

// A pixel for each weight, which the style sheet makes larger.
function heatMap(view, head) {
  const [width, height] = [view.map.key.length, view.map.query.length];
  const ariaLabel = `Heat map of head ${head + 1}`;
  const canvas = create("canvas", { width, height, role: "img", ariaLabel });
  const context = canvas.getContext("2d");
  context.fillStyle = page.colours[head];
  weightsOf(view, head).forEach((weight, i) => {
    context.globalAlpha = weight;
    context.fillRect(i % width, Math.floor(i / width), 1, 1);
  });
  const caption = create("figcaption", { textContent: `Head ${head + 1}` });
  caption.style.setProperty("--head", page.colours[head]);
  const queries = create("div", { className: "queries" }, ...wordsOf(view, "query", "span"));
  const keys = create("div", { className: "keys" }, ...wordsOf(view, "key", "span"));
  const cells = create("div", { className: "cells" }, canvas);
  cells.style.setProperty("--columns", width);
  return create("figure", {}, caption, create("div", { className: "heat" }, keys, queries, cells));
}

// What is chosen, the controls that choose it, and the address that holds it

const at = (id) => document.getElementById(id);
const svg = document.querySelector("svg");
const picture = document.querySelector(".picture");
const controls = document.querySelector(".controls");

let chosen; // kind, layer, heads, view, words, and query or key; numbers from 1
let view; // what `chosen` says, as far as this page has it
let preview = null; // the word under the pointer, as `pinned`; in a heat map also its `key`

function readView() {
  const kind = page.maps.find((each) => each.kind === chosen.get("kind")) ?? page.maps[0];
  const map = (chosen.get("words") === "whole" && kind.whole) || kind.pieces;
  const index = (name, count) => {
    const given = chosen.get(name) - 1;
    return Number.isInteger(given) && given >= 0 && given < count ? given : null;
  };
  const heads = chosen.get("heads")?.split(",");
  const isShown = (head) => !heads || heads.includes(String(head + 1));
  const side = ["query", "key"].find((name) => index(name, map[name].length) !== null);
  return {
    kind,
    map,
    layer: index("layer", map.layers) ?? kind.layer,
    heads: [...Array(map.heads).keys()].filter(isShown),
    style: chosen.get("view") === "heat" ? "heat" : "lines",
    pinned: side ? { side, index: index(side, map[side].length) } : null,
  };
}

// Takes new values of `chosen`; null takes one away.
function choose(changes) {
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) chosen.delete(name);
    else chosen.set(name, value);
  }
  draw();
  history.replaceState(null, "", `#${chosen}`.replaceAll("%2C", ","));
}

function pin(word) {
  choose({ query: null, key: null, ...(word && { [word.side]: word.index + 1 }) });
  if (word) at(word.side).children[word.index].focus();
}

const isPinned = ({ side, index }) => view.pinned?.side === side && view.pinned.index === index;

function draw() {
  view = readView();
  preview = null;
  const { kind, map, heads, style } = view;
  at("kind-title").textContent = kind.title;
  markChoices();
  for (const side of ["query", "key"]) {
    at(`${side}-title`).textContent = kind.titles[side];
    at(side).replaceChildren(...wordsOf(view, side, "button"));
  }
  const height = Math.max(map.query.length, map.key.length);
  svg.setAttribute("viewBox", `0 0 100 ${height}`);
  svg.style.height = `calc(var(--row) * ${height})`;
  at("lines").hidden = style !== "lines";
  at("heat-maps").hidden = style !== "heat";
  const maps = style === "heat" ? heads.map((head) => heatMap(view, head)) : [];
  at("heat-maps").replaceChildren(...maps);
  drawWord();
}

function markChoices() {
  const { kind, map, layer, heads, style } = view;
  at("words").parentElement.hidden = !kind.whole;
  const words = map === kind.whole ? "whole" : "pieces";
  const now = { kind: kind.kind, layer: String(layer + 1), view: style, words };
  for (const input of controls.querySelectorAll("input")) {
    const { name, value } = input;
    input.checked = name === "head" ? heads.includes(value - 1) : now[name] === value;
    input.parentElement.hidden = value > { layer: map.layers, head: map.heads }[name];
  }
}

// The lines and, of a word that is looked at, its own alone, its row or column, and its numbers.
function drawWord() {
  const word = preview ?? view.pinned;
  const found = visibleWeights(view, word);
  const [most, of] = [MOST_LINES, found.length].map((count) => count.toLocaleString("en"));
  const isCut = found.length > MOST_LINES;
  at("omitted").textContent = isCut ? `Drawn are the strongest ${most} of ${of} lines.` : "";
  svg.innerHTML = found.slice(0, MOST_LINES).map(lineOf).join("");
  at("heat-maps").dataset.band = word?.side ?? "";
  at("heat-maps").style.setProperty("--index", word?.index ?? 0);
  for (const element of picture.querySelectorAll("[data-side]")) {
    const place = { side: element.dataset.side, index: Number(element.dataset.index) };
    element.classList.toggle("chosen", word?.side === place.side && word.index === place.index);
    if (element.matches("button")) element.ariaPressed = isPinned(place);
  }
  tell(word, found);
}

function tell(word, found) {
  at("largest").replaceChildren();
  at("reading").replaceChildren("Point at a word, or choose one, to read its weights.");
  if (!word) return;
  const isolated = (side, index) => create("bdi", { textContent: view.map[side][index] });
  const verb = word.side === "query" ? " looks at" : " is looked at by";
  const none = view.heads.length ? "" : ": no head is chosen";
  at("reading").replaceChildren(isolated(word.side, word.index), verb + none);
  const asked = found.filter(({ key }) => word.key === undefined || key === word.key);
  for (const each of asked.slice(0, LARGEST)) {
    const number = create("b", { textContent: each.weight.toFixed(2) });
    const other = isolated(OTHER[word.side], each[OTHER[word.side]]);
    const where = create("small", { textContent: `head ${each.head + 1}` });
    const item = create("li", {}, number, " ", other, " ", where);
    item.style.setProperty("--head", page.colours[each.head]);
    at("largest").append(item);
  }
}

// The word of an event: in a heat map, that of the cell or of the label.
function wordAt({ target, offsetX, offsetY }) {
  const { side, index: place } = target.dataset;
  if (side) return { side, index: Number(place) };
  if (!target.matches("canvas")) return null;
  const [across, down] = [offsetX / target.clientWidth, offsetY / target.clientHeight];
  const index = Math.min(Math.floor(down * target.height), target.height - 1);
  const key = Math.min(Math.floor(across * target.width), target.width - 1);
  return { side: "query", index, key };
}

function look(word) {
  if (JSON.stringify(word) === JSON.stringify(preview)) return;
  preview = word;
  drawWord();
}

function addChoices(group, type, name, choices) {
  for (const [value, text] of choices) {
    const span = create("span", { textContent: text });
    if (name === "head") span.style.setProperty("--head", page.colours[value - 1]);
    at(group).append(create("label", {}, create("input", { type, name, value }), span));
  }
}

function buildControls() {
  const numbers = (name) => {
    const count = Math.max(...page.maps.map(({ pieces }) => pieces[name]));
    return Array.from({ length: count }, (_, i) => [i + 1, i + 1]);
  };
  addChoices("kinds", "radio", "kind", page.maps.map(({ kind, name }) => [kind, name]));
  addChoices("layers", "radio", "layer", numbers("layers"));
  addChoices("heads", "checkbox", "head", numbers("heads"));
  addChoices("views", "radio", "view", [["lines", "Lines"], ["heat", "Heat maps"]]);
  addChoices("words", "radio", "words", [["pieces", "Pieces"], ["whole", "Whole words"]]);
}

function start() {
  chosen = new URLSearchParams(location.hash.slice(1) || page.start);
  draw();
}

controls.addEventListener("change", ({ target: { name, value } }) => {
  const shown = [...controls.querySelectorAll("[name=head]:checked")].map((input) => input.value);
  const otherWords = name === "kind" || name === "words" ? { query: null, key: null } : {};
  choose(name === "head" ? { heads: shown.join() } : { [name]: value, ...otherWords });
});
at("all").addEventListener("click", () => choose({ heads: null }));
at("none").addEventListener("click", () => choose({ heads: "" }));
picture.addEventListener("click", (event) => {
  const word = wordAt(event);
  if (word) pin(isPinned(word) ? null : word);
});
picture.addEventListener("focusin", (event) => look(wordAt(event)));
picture.addEventListener("pointermove", (event) => {
  if (event.pointerType !== "touch") look(wordAt(event));
});
picture.addEventListener("pointerleave", () => look(null));
addEventListener("keydown", (event) => event.key === "Escape" && pin(null));
addEventListener("hashchange", start);
buildControls();
document.querySelector("main").hidden = false;
start();
