// What the page shows: the maps of the data block, as pieces and as whole words.

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

// Weights are summed over a word's keys and averaged over its queries: a row sums to 1 as before.
function merged(map) {
  const { queries, keys } = map.words; // the `texts` of words; `of` every piece, the number of its word
  const [height, width] = [queries.texts.length, keys.texts.length];
  const pieces = queries.texts.map((_, word) => queries.of.filter((one) => one === word).length);
  const weights = new Float32Array(map.layers * map.heads * height * width);
  let i = 0;
  for (let row = 0; row < map.layers * map.heads; row++) {
    for (const query of queries.of) {
      const start = (row * height + query) * width;
      for (const key of keys.of) weights[start + key] += map.weights[i++] / pieces[query];
    }
  }
  return { ...map, queries: queries.texts, keys: keys.texts, weights };
}

const page = JSON.parse(document.getElementById("attention").textContent);
const maps = new Map(page.maps.map((map) => [map.kind, { ...map, weights: decode(map.weights) }]));
const mergedMaps = new Map();

function mapOf(state) {
  const map = maps.get(state.kind);
  if (!state.whole || !map.words) return map;
  if (!mergedMaps.has(state.kind)) mergedMaps.set(state.kind, merged(map));
  return mergedMaps.get(state.kind);
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
