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
  const input = create("input", { type, name, value });
  const label = create("label", {}, input, create("span", { textContent: text }));
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
  at("whole").hidden = !maps.get(state.kind).whole;
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
      const shown = { type: "button", textContent: word, title: word, dir: "auto" };
      const button = create("button", shown);
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

// A word's ground is as strong as the mean of its weights over the heads shown.
function markWords(word, found) {
  const sums = new Map();
  for (const { query, key, weight } of found) {
    const other = word.side === "query" ? key : query;
    sums.set(other, (sums.get(other) ?? 0) + weight);
  }
  for (const side of ["query", "key"]) {
    const tabStop = pinned?.side === side ? pinned.index : 0;
    for (const button of buttonsOf(side)) {
      const index = Number(button.dataset.index);
      const sum = word && word.side !== side ? (sums.get(index) ?? 0) : 0;
      button.style.setProperty("--weight", (sum / Math.max(1, state.heads.size)).toFixed(4));
      button.classList.toggle("chosen", word?.side === side && word.index === index);
      button.setAttribute("aria-pressed", isPinned({ side, index }));
      button.tabIndex = index === tabStop ? 0 : -1;
    }
  }
}

const buttonsOf = (side) => [...at(COLUMN[side]).children];
const isPinned = (word) => pinned?.side === word.side && pinned.index === word.index;

const isolate = (text) => create("bdi", { textContent: text });

function tell(map, word, found) {
  const list = at("largest");
  list.replaceChildren();
  at("reading").replaceChildren("Point at a word, or choose one, to read its weights.");
  if (!word) return;
  const isQuery = word.side === "query";
  const verb = isQuery ? " looks at" : " is looked at by";
  const none = state.heads.size ? "" : ": no head is chosen";
  at("reading").replaceChildren(isolate(wordsOf(word.side)[word.index]), verb + none);
  const asked = found.filter(({ key, weight }) => (word.key == null ? weight >= LEAST : key === word.key));
  asked.sort((a, b) => b.weight - a.weight);
  for (const { head, query, key, weight } of asked.slice(0, LARGEST)) {
    const number = create("b", { textContent: weight.toFixed(2) });
    const other = isolate(isQuery ? map.keys[key] : map.queries[query]);
    const where = create("small", { textContent: `head ${head + 1}` });
    const item = create("li", {}, number, " ", other, " ", where);
    item.style.setProperty("--head", colourOf(head));
    list.append(item);
  }
}

function pin(word) {
  pinned = word;
  preview = null;
  drawWord();
  writeAddress();
}

const wordAt = (event) => {
  const button = event.target.closest("[data-side]");
  return button && { side: button.dataset.side, index: Number(button.dataset.index) };
};

// Up and down go through a column, left and right to the word opposite.
function nextWord(key, { side, index }) {
  const last = wordsOf(side).length - 1;
  const otherSide = side === "query" ? "key" : "query";
  const opposite = Math.min(index, wordsOf(otherSide).length - 1);
  const steps = {
    ArrowDown: { side, index: Math.min(index + 1, last) },
    ArrowUp: { side, index: Math.max(index - 1, 0) },
    Home: { side, index: 0 },
    End: { side, index: last },
    ArrowRight: { side: "key", index: side === "query" ? opposite : index },
    ArrowLeft: { side: "query", index: side === "key" ? opposite : index },
  };
  return steps[key] ?? null;
}

function listenToWords(box) {
  let wasPinned = false; // before the press that also moves the focus here
  box.addEventListener("pointerdown", (event) => {
    const word = wordAt(event);
    wasPinned = word !== null && isPinned(word);
  });
  box.addEventListener("click", (event) => {
    const word = wordAt(event);
    if (!word) return;
    const letGo = event.detail === 0 ? isPinned(word) : wasPinned; // 0: by the keyboard
    pin(letGo ? null : word);
  });
  box.addEventListener("focusin", (event) => {
    const word = wordAt(event);
    if (word && !isPinned(word) && event.target.matches(":focus-visible")) pin(word);
  });
  box.addEventListener("keydown", (event) => {
    const word = wordAt(event);
    const next = word && !event.altKey && !event.ctrlKey && !event.metaKey && nextWord(event.key, word);
    if (!next) return;
    event.preventDefault();
    pin(next);
    buttonsOf(next.side)[next.index].focus();
  });
  box.addEventListener("pointerover", (event) => {
    if (event.pointerType !== "touch") look(wordAt(event));
  });
  box.addEventListener("pointerleave", () => look(null));
}

function look(word) {
  const same = (a, b) => a?.side === b?.side && a?.index === b?.index && a?.key === b?.key;
  if (same(word, preview)) return;
  preview = word;
  drawWord();
}

function listenToHeatMaps(box) {
  const wordUnder = (event) => {
    const found = event.target.closest("svg")?.spot(event);
    return found ? { side: "query", index: found.query, key: found.key } : null;
  };
  box.addEventListener("pointermove", (event) => look(wordUnder(event)));
  box.addEventListener("pointerleave", () => look(null));
  box.addEventListener("click", (event) => {
    const word = wordUnder(event);
    if (word) pin(isPinned(word) ? null : { side: "query", index: word.index });
  });
}

function listenToControls() {
  document.querySelector(".controls").addEventListener("change", (event) => {
    const { name, value, checked } = event.target;
    if (event.target === at("word")) {
      const [side, index] = value.split(" ");
      pin(value ? { side, index: Number(index) } : null);
      return;
    }
    if (name === "head") checked ? state.heads.add(Number(value)) : state.heads.delete(Number(value));
    else if (name === "layer") state.layer = Number(value);
    else if (name) state[name] = value;
    else state.whole = checked;
    if (name === "kind" || !name) {
      pinned = null; // other words
      chooseKind();
    }
    draw();
  });
  const chooseHeads = (heads) => {
    state.heads = new Set(heads);
    draw();
  };
  at("all").addEventListener("click", () => chooseHeads(Array(mapOf(state).heads).keys()));
  at("none").addEventListener("click", () => chooseHeads([]));
}

function start() {
  readAddress();
  chooseKind();
  draw();
}

for (const kind of maps.keys()) {
  choice(at("kinds").querySelector(".row"), "radio", "kind", kind, page.kinds[kind].name);
}
choice(at("views").querySelector(".row"), "radio", "view", "lines", "Lines");
choice(at("views").querySelector(".row"), "radio", "view", "heat", "Heat maps");
listenToControls();
listenToWords(at("lines"));
listenToHeatMaps(at("heat-maps"));
addEventListener("keydown", (event) => event.key === "Escape" && pin(null));
addEventListener("hashchange", start);
addEventListener("resize", () => state.view === "heat" && draw());
document.querySelector("main").hidden = false;
start();
