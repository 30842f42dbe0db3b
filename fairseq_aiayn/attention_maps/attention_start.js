// Everything is in place: listen, then draw what the address says.

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
