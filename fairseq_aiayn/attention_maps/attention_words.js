// The words: marked by their weights, told as numbers, chosen by pointer and keyboard.

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

function isolate(text) {
  const element = document.createElement("bdi");
  element.textContent = text;
  return element;
}

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
    const item = document.createElement("li");
    item.style.setProperty("--head", colourOf(head));
    const number = document.createElement("b");
    number.textContent = weight.toFixed(2);
    const where = document.createElement("small");
    where.textContent = `head ${head + 1}`;
    item.append(number, " ", isolate(isQuery ? map.keys[key] : map.queries[query]), " ", where);
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
