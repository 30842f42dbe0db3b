// What is chosen, the controls that choose it, and the address that holds it.

const LARGEST = 6; // weights that are told as numbers
const LEAST = 0.005; // none that would be told as 0.00
const at = (id) => document.getElementById(id);

const state = { kind: page.maps[0].kind, layer: 0, heads: new Set(), view: "lines", whole: false };
let pinned = null; // {side: "query" or "key", index}
let writing = null; // the timer of the address
let preview = null; // the same, of the word under the pointer; in a heat map also its `key`

const COLUMN = { query: "queries", key: "keys" }; // of a side: in a map, in page.kinds, and as an element
const wordsOf = (side) => mapOf(state)[COLUMN[side]];

// Layers and heads of another kind may be fewer, a sentence's words others.
function keepInRange() {
  const map = mapOf(state);
  state.layer = Math.min(state.layer, map.layers - 1);
  const known = [...Array(map.heads).keys()];
  state.heads = new Set(known.filter((head) => state.heads.has(head)));
  if (pinned && !(pinned.index < wordsOf(pinned.side).length)) pinned = null;
}

function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1) || page.start);
  const number = (name) => (/^[1-9]\d*$/.test(given.get(name)) ? given.get(name) - 1 : null);
  state.kind = maps.has(given.get("kind")) ? given.get("kind") : page.maps[0].kind;
  state.view = given.get("view") === "heat" ? "heat" : "lines";
  state.whole = given.get("words") === "whole";
  const map = maps.get(state.kind);
  state.layer = number("layer") ?? Math.max(0, map.layers - 2); // Figures 3 to 5: layer 5 of 6
  const heads = given.has("heads") ? given.get("heads").split(",").filter(Boolean) : null;
  state.heads = new Set(heads ? heads.map((head) => head - 1) : Array(map.heads).keys());
  const side = ["query", "key"].find((name) => number(name) !== null);
  pinned = side ? { side, index: number(side) } : null;
  keepInRange();
}

// Soon, as browsers refuse it when a key that is held down asks for it at every word.
function writeAddress() {
  clearTimeout(writing);
  writing = setTimeout(() => history.replaceState(null, "", `#${addressOf()}`), 150);
}

function addressOf() {
  const { kind, layer, heads, view, whole } = state;
  const chosen = { kind, layer: layer + 1, heads: [...heads].map((head) => head + 1).join(), view };
  if (whole) chosen.words = "whole";
  if (pinned) chosen[pinned.side] = pinned.index + 1;
  return new URLSearchParams(chosen).toString().replaceAll("%2C", ",");
}

function choice(box, type, name, value, text) {
  const label = document.createElement("label");
  const input = document.createElement("input");
  const shown = document.createElement("span");
  Object.assign(input, { type, name, value });
  shown.textContent = text;
  label.append(input, shown);
  box.append(label);
  return label;
}

function buildChoices() {
  const row = (id) => at(id).querySelector(".row");
  row("layers").replaceChildren();
  row("heads").replaceChildren();
  const map = mapOf(state);
  for (let i = 0; i < map.layers; i++) choice(row("layers"), "radio", "layer", i, i + 1);
  for (let i = 0; i < map.heads; i++) {
    const label = choice(row("heads"), "checkbox", "head", i, i + 1);
    label.style.setProperty("--head", colourOf(i));
  }
  at("whole").hidden = !maps.get(state.kind).words;
  at("repeat").textContent = map.heads > page.colours.length ? `, which repeats after ${page.colours.length}` : "";
}

function markChoices() {
  for (const input of document.querySelectorAll(".controls input")) {
    const { name, value } = input;
    if (name === "head") input.checked = state.heads.has(Number(value));
    else if (name) input.checked = String(state[name]) === value;
    else input.checked = state.whole;
  }
}

function buildWords() {
  const select = at("word");
  select.replaceChildren(new Option("all words", ""));
  for (const side of ["query", "key"]) {
    const group = document.createElement("optgroup");
    group.label = at(`${side}-title`).textContent = page.kinds[state.kind][COLUMN[side]];
    if (side === "key") group.label += ", looked at";
    const buttons = wordsOf(side).map((word, index) => {
      group.append(new Option(word, `${side} ${index}`));
      const button = document.createElement("button");
      Object.assign(button, { type: "button", textContent: word, title: word, dir: "auto" });
      Object.assign(button.dataset, { side, index });
      return button;
    });
    at(COLUMN[side]).replaceChildren(...buttons);
    select.append(group);
  }
}

function chooseKind() {
  at("kind-text").textContent = page.kinds[state.kind].text;
  buildChoices();
  buildWords();
}

function draw() {
  keepInRange();
  const [map, isLines] = [mapOf(state), state.view === "lines"];
  at("lines").hidden = !isLines;
  at("heat-maps").hidden = isLines;
  at("omitted").textContent = isLines
    ? lineDrawing(at("lines").querySelector("svg"), map, state)
    : heatMaps(at("heat-maps"), map, state);
  markChoices();
  drawWord();
  writeAddress();
}

// The word that is looked at: its lines alone, its row or column, its weights as numbers.
function drawWord() {
  const [map, word] = [mapOf(state), preview ?? pinned];
  const found = word ? weightsAt(map, state, word) : [];
  if (state.view === "lines") {
    const svg = at("lines").querySelector("svg");
    svg.classList.toggle("isolated", word !== null);
    lines(svg.querySelector(".one"), found.filter(({ weight }) => weight > 0), state.heads);
  } else {
    bands(at("heat-maps"), map, word);
  }
  markWords(word, found);
  tell(map, word, found);
  at("word").value = pinned ? `${pinned.side} ${pinned.index}` : "";
}
