// The page asks only the server it came from, and puts texts into it as text, never as HTML.
"use strict";

const PAUSE = 350; // milliseconds without a change before the server is asked
const byId = (id) => document.getElementById(id);
const percent = (share) => `${(100 * share).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %`;
const score = (share) => (share > 0.9995 && share < 1 ? "> 99.9 %" : share > 0 && share < 0.0005 ? "< 0.1 %" : `${(100 * share).toFixed(1)} %`);
const count = (number) => number.toLocaleString("en", { notation: "compact", maximumFractionDigits: 2 });
const sides = [];
let key = null; // in memory only
let model = null;
let asked = 0; // the number of the latest question: answers to earlier ones are dropped
let running = null; // aborts the latest question
let timer = null;
let latestSide = 0;

function element(tag, text, className) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function request(path, { body, signal } = {}) {
  const headers = key === null ? {} : { Authorization: `Bearer ${key}` };
  if (body) headers["Content-Type"] = "application/json";
  const options = { method: body ? "POST" : "GET", headers, signal, body: body && JSON.stringify(body) };
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "The server does not answer.");
  }
  const answer = await response.json().catch(() => ({}));
  if (response.ok) return answer;
  throw new Refused(response.status, answer.error || `The server answered with ${response.status}.`);
}

// --- the parts of the page ---

function addSide(name) {
  const input = byId("input-template").content.cloneNode(true).firstElementChild;
  const result = byId("result-template").content.cloneNode(true).firstElementChild;
  const find = (part, selector) => part.querySelector(selector);
  const side = { name, input, result, maps: null, shown: 0, head: null };
  side.text = find(input, ".text");
  side.pair = find(input, ".pair");
  side.title = find(input, "legend");
  for (const [box, label] of [[side.text, ".text-label"], [side.pair, ".pair-label"]]) {
    box.id = `${label.slice(1)}-${name}`;
    find(input, label).htmlFor = box.id;
    box.addEventListener("input", () => later());
    box.addEventListener("focus", () => { latestSide = sides.indexOf(side); });
    box.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) classify();
    });
  }
  find(result, ".scroll").setAttribute("aria-label", `Heads of text ${name}, layers by heads`);
  find(result, ".thumbs").setAttribute("aria-label", `Attention maps of text ${name}`);
  side.from = find(result, ".from");
  side.from.id = `from-${name}`;
  find(result, ".from-label").htmlFor = side.from.id;
  side.from.addEventListener("change", () => showWords(side));
  find(result, "details").addEventListener("toggle", (event) => {
    if (event.target.open && side.question && !side.maps) explain(side, asked, running.signal);
  });
  byId("inputs").append(input);
  byId("results").append(result);
  sides.push(side);
}

function arrange() {
  const two = byId("compare").checked;
  const paired = model && (model.takes === "pairs" || byId("paired").checked);
  for (const id of ["inputs", "results"]) byId(id).classList.toggle("two", two);
  sides.forEach((side, number) => {
    side.input.hidden = number > 0 && !two;
    if (side.input.hidden) side.result.hidden = true;
    side.title.textContent = two ? `Text ${side.name}` : "Text to classify";
    side.result.querySelector("h2").textContent = two ? `Answer to text ${side.name}` : "Answer";
    side.input.querySelector(".pair-box").hidden = !paired;
  });
  if (!two) latestSide = 0;
}

function describeModel() {
  const { sizes, measured, labels } = model;
  byId("name").textContent = model.name;
  document.title = `${model.name} · BudgetFormer`;
  const facts = [`${labels.length} labels`, `${sizes.layers} layers × ${sizes.heads} heads${model.kept_heads ? ", some dropped for good" : ""}`, `${count(sizes.parameters)} parameters`];
  if (measured.accuracy !== undefined) facts.push(`accuracy ${percent(measured.accuracy)} on ${measured.rows ?? "its"} validation rows`);
  if (measured.macs < measured.macs_dense) facts.push(`${percent(measured.macs / measured.macs_dense)} of the work of all heads`);
  byId("facts").textContent = `${facts.join(" · ")}. Labels: ${labels.slice(0, 12).join(", ")}${labels.length > 12 ? ", …" : ""}.`;
  byId("paired-label").hidden = model.takes !== "texts or pairs";
  const cap = byId("cap");
  byId("cap-box").hidden = !model.budgeted || sizes.heads < 2;
  cap.min = 1;
  cap.max = sizes.heads;
  cap.value = sizes.heads;
  showCap();
  byId("examples").replaceChildren(...model.examples.map((example) => {
    const item = element("li");
    const button = element("button", example.pair === undefined ? example.text : `${example.text} / ${example.pair}`);
    button.type = "button";
    button.addEventListener("click", () => useExample(example));
    item.append(button);
    return item;
  }));
  byId("examples-box").hidden = !model.examples.length;
  arrange();
}

function useExample(example) {
  const side = sides[latestSide];
  side.text.value = example.text;
  side.pair.value = example.pair ?? "";
  if (model.takes === "texts or pairs") byId("paired").checked = example.pair !== undefined;
  arrange();
  classify();
}

function showCap() {
  const { value, max } = byId("cap");
  const free = model.default_budget === null ? "no cap" : `the model's default (${percent(model.default_budget)})`;
  const said = value === max ? free : `${value} of ${max} (${percent(value / max)})`;
  byId("cap-value").textContent = said;
  byId("cap").setAttribute("aria-valuetext", said);
}

// --- asking ---

function later() {
  clearTimeout(timer);
  timer = setTimeout(classify, PAUSE);
}

function budget() {
  const { value, max } = byId("cap");
  return model.budgeted && value !== max ? { max_budget: value / max } : {};
}

async function classify() {
  clearTimeout(timer);
  if (!model) return;
  const number = ++asked;
  if (running) running.abort();
  running = new AbortController();
  const { signal } = running;
  const paired = model.takes === "pairs" || byId("paired").checked;
  const filled = sides.filter((side) => !side.input.hidden && (side.text.value.trim() || (paired && side.pair.value.trim())));
  sides.forEach((side) => { if (!filled.includes(side)) side.result.hidden = true; });
  byId("problem").textContent = "";
  byId("results").classList.add("stale");
  if (!filled.length) {
    byId("status").textContent = "Type a text, or choose an example.";
    return;
  }
  const items = filled.map((side) => (paired ? { text: side.text.value, pair: side.pair.value } : side.text.value));
  try {
    const body = { [paired ? "pairs" : "texts"]: items, details: true, ...budget() };
    const { answers, timings } = await request("classify", { body, signal });
    if (number !== asked) return;
    byId("results").classList.remove("stale");
    filled.forEach((side, place) => {
      const item = items[place];
      side.question = { ...(paired ? item : { text: item }), ...budget() };
      side.maps = null;
      showAnswer(side, answers[place]);
    });
    const both = filled.length > 1;
    const said = filled.map((side, place) => `${both ? `Text ${side.name}: ` : ""}${inWords(answers[place])}`);
    byId("status").textContent = `${said.join(" ")} (${timings.total_ms.toFixed(0)} ms)`;
    for (const side of filled) if (side.result.querySelector("details").open) await explain(side, number, signal);
  } catch (error) {
    if (error.name !== "AbortError" && number === asked) complain(error);
  }
}

async function explain(side, number, signal) {
  const problem = side.result.querySelector(".maps-problem");
  try {
    const answer = await request("explain", { body: side.question, signal });
    if (number !== asked) return;
    problem.textContent = "";
    side.maps = answer;
    showMaps(side);
  } catch (error) {
    if (error.name === "AbortError" || number !== asked) return;
    if (error.status === 401) return void complain(error);
    side.result.querySelector(".maps-body").hidden = true;
    problem.textContent = error.message;
  }
}

function complain(error) {
  byId("status").textContent = "";
  if (error.status !== 401) {
    byId("problem").textContent = error.message;
    return;
  }
  byId("problem").textContent = key === null ? "" : "This key is not accepted.";
  key = null;
  byId("key").hidden = false;
  byId("key-value").focus();
}

// --- showing ---

function work(answer) {
  const ran = answer.heads.reduce((sum, heads) => sum + heads, 0);
  const all = model.kept_heads ? model.kept_heads.reduce((sum, own) => sum + own.length, 0) : model.sizes.layers * model.sizes.heads;
  return { ran, all, saved: 1 - answer.macs / answer.macs_dense };
}

function inWords(answer) {
  const { ran, all, saved } = work(answer);
  return `${answer.label}, ${score(answer.score)}; ${ran} of ${all} heads ran, ${percent(Math.max(0, saved))} of the work saved.`;
}

function showAnswer(side, answer) {
  const find = (selector) => side.result.querySelector(selector);
  const { ran, all, saved } = work(answer);
  side.result.hidden = false;
  find(".answer").textContent = `${answer.label} · ${score(answer.score)}`;
  const notes = [];
  if (answer.reason) notes.push(`${answer.reason}.`);
  if (answer.truncated) notes.push(`The text was cut to its first ${answer.tokens} tokens.`);
  if (answer.shed_budget !== null) notes.push(`The server is loaded and capped the heads to ${percent(answer.shed_budget)}.`);
  find(".notes").textContent = notes.join(" ");
  const scores = Object.entries(answer.scores).sort((a, b) => b[1] - a[1]).slice(0, 10);
  find(".scores tbody").replaceChildren(...scores.map(([label, share]) => scoreRow(label, share)));
  find(".saved span").style.width = `${Math.max(0, 100 * saved)}%`;
  find(".work").textContent = `${percent(saved)} fewer multiply-adds than with all heads: ${count(answer.macs)} instead of ${count(answer.macs_dense)}, for ${answer.tokens} tokens.`;
  find(".summary").textContent = `${ran} of ${all} heads ran; by layer, from layer 1: ${answer.heads.join(", ")}.`;
  find(".legend").hidden = !answer.details;
  showGrid(side, answer);
}

function scoreRow(label, share) {
  const row = element("tr");
  const name = element("th", label);
  name.scope = "row";
  const bar = element("div", undefined, "bar");
  const part = element("span");
  part.style.width = `${100 * share}%`;
  bar.append(part);
  const value = element("div", undefined, "value");
  value.append(bar, element("span", score(share), "number"));
  const cell = element("td");
  cell.append(value);
  row.append(name, cell);
  return row;
}

function showGrid(side, answer) {
  const { layers, heads } = model.sizes;
  const { details } = answer;
  const top = element("tr");
  const column = (text, title, className) => {
    const cell = element("th", undefined, className);
    cell.scope = "col";
    const short = element("span", text);
    short.setAttribute("aria-hidden", "true");
    cell.append(short, element("span", title, "unseen"));
    return cell;
  };
  top.append(column("", "Layer", "layer"));
  for (let head = 0; head < heads; head++) top.append(column(String(head + 1), `Head ${head + 1}`));
  if (details) top.append(column("budget", "Budget that the layer asks for", "wide"));
  const rows = Array.from({ length: layers }, (_, layer) => {
    const row = element("tr");
    const name = element("th", `L${layer + 1}`);
    name.scope = "row";
    row.append(name);
    for (let head = 0; head < heads; head++) row.append(headCell(details, layer, head));
    if (details) row.append(element("td", percent(details.budgets[layer])));
    return row;
  });
  side.result.querySelector(".grid thead").replaceChildren(top);
  side.result.querySelector(".grid tbody").replaceChildren(...rows);
  side.result.querySelector(".grid").style.minWidth = `${2.2 + 1.25 * heads + 3.2}rem`;
}

function headCell(details, layer, head) {
  if (model.kept_heads && !model.kept_heads[layer].includes(head)) {
    const gap = element("td", undefined, "head gone");
    gap.append(element("span", "dropped for good", "unseen"));
    return gap;
  }
  const ran = details ? details.kept[layer][head] : true;
  const cell = element("td", undefined, ran ? "head ran" : "head");
  if (details) {
    const relevance = 100 * details.relevance[layer][head];
    cell.style.setProperty("--relevance", `${relevance}%`);
    cell.append(element("span", ran && relevance < 0.5 ? "<1" : relevance.toFixed(0)));
    cell.append(element("span", ` percent relevant, ${ran ? "ran" : "skipped"}`, "unseen"));
  } else {
    cell.append(element("span", "ran", "unseen"));
  }
  return cell;
}

// --- attention maps ---

function showMaps(side) {
  const { layers, tokens } = side.maps;
  const heads = layers.flatMap((layer) => layer.heads.filter((head) => head.map).map((head) => ({ ...head, layer: layer.layer })));
  side.heads = heads;
  side.shown = Math.min(side.shown, heads.length - 1);
  side.result.querySelector(".maps-body").hidden = false;
  side.result.querySelector(".thumbs").replaceChildren(...heads.map((head, number) => thumb(side, head, number)));
  const before = side.from.value;
  const choices = [["all", "all tokens together"], ...tokens.map((token, place) => [String(place), `${place + 1}: ${token}`])];
  side.from.replaceChildren(...choices.map(([value, text]) => {
    const option = element("option", text);
    option.value = value;
    return option;
  }));
  side.from.value = choices.some(([value]) => value === before) ? before : "all";
  showWords(side);
}

function thumb(side, head, number) {
  const button = element("button");
  button.type = "button";
  const picture = element("canvas");
  picture.setAttribute("aria-hidden", "true"); // the caption and the words below say it
  draw(picture, head.map);
  const relevance = head.relevance === null ? "" : `, ${percent(head.relevance)} relevant`;
  const caption = `Layer ${head.layer + 1}, head ${head.head + 1}${relevance}${head.kept ? "" : ", skipped"}`;
  button.append(picture, element("span", caption));
  button.addEventListener("click", () => {
    side.shown = number;
    showWords(side);
  });
  return button;
}

function draw(canvas, map) {
  const size = map.length;
  const context = canvas.getContext("2d");
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const [from, to] = dark ? [[18, 23, 28], [124, 196, 240]] : [[255, 255, 255], [11, 92, 138]];
  canvas.width = size;
  canvas.height = size;
  const image = context.createImageData(size, size);
  map.forEach((row, y) => row.forEach((value, x) => {
    const strength = Math.sqrt(Math.min(1, Math.max(0, value))); // so that small shares are seen as well
    for (let c = 0; c < 3; c++) image.data[4 * (y * size + x) + c] = from[c] + strength * (to[c] - from[c]);
    image.data[4 * (y * size + x) + 3] = 255;
  }));
  context.putImageData(image, 0, 0);
}

function showWords(side) {
  const { tokens } = side.maps;
  const head = side.heads[side.shown];
  side.result.querySelectorAll(".thumbs button").forEach((button, number) => button.setAttribute("aria-pressed", String(number === side.shown)));
  const chosen = side.from.value === "all" ? null : Number(side.from.value);
  const shares = chosen === null
    ? tokens.map((_, to) => head.map.reduce((sum, row) => sum + row[to], 0) / head.map.length)
    : head.map[chosen];
  const highest = Math.max(...shares, 1e-9);
  side.result.querySelector(".words").replaceChildren(...tokens.flatMap((token, place) => {
    const word = element("span", token, place === chosen ? "chosen" : "");
    word.style.setProperty("--share", `${(100 * shares[place]) / highest}%`);
    return [word, " "];
  }));
  const order = shares.map((share, place) => [share, place]).sort((a, b) => b[0] - a[0]).slice(0, 3);
  const said = order.map(([share, place]) => `“${tokens[place]}” ${percent(share)}`).join(", ");
  const cut = side.maps.answer.tokens > tokens.length ? ` Only the first ${tokens.length} of ${side.maps.answer.tokens} tokens are shown.` : "";
  side.result.querySelector(".most").textContent = `Layer ${head.layer + 1}, head ${head.head + 1} looks most at ${said}.${cut}`;
}

// --- start ---

// A link such as #text=Shares+rose.&text=A+late+goal.&cap=2 fills the page in; what follows # is sent to no server.
function followLink() {
  const link = new URLSearchParams(location.hash.slice(1));
  const texts = link.getAll("text");
  if (!texts.length) return;
  const pairs = link.getAll("pair");
  byId("compare").checked = texts.length > 1;
  if (model.takes === "texts or pairs") byId("paired").checked = pairs.length > 0;
  sides.forEach((side, place) => {
    side.text.value = texts[place] ?? "";
    side.pair.value = pairs[place] ?? "";
  });
  if (link.has("cap")) byId("cap").value = link.get("cap");
  showCap();
  arrange();
}

async function start() {
  try {
    const first = !model;
    model = await request("model");
    byId("key").hidden = true;
    byId("problem").textContent = "";
    byId("status").textContent = "Type a text, or choose an example.";
    describeModel();
    if (first) followLink();
    if (sides.some((side) => side.text.value.trim())) classify();
  } catch (error) {
    if (error.status === 503) {
      byId("status").textContent = "The model is loading…";
      setTimeout(start, 1000);
    } else {
      complain(error);
    }
  }
}

for (const name of ["A", "B"]) addSide(name);
arrange();
byId("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  if (model) classify();
  else start();
});
byId("key").addEventListener("submit", (event) => {
  event.preventDefault();
  const typed = byId("key-value").value.trim();
  byId("key-value").value = "";
  if (!/^[ -~]+$/.test(typed)) { // it travels in a header
    byId("problem").textContent = "A key has letters, digits and signs of ASCII only.";
    return;
  }
  key = typed;
  start().then(() => { if (model && key !== null) sides[0].text.focus(); });
});
byId("cap").addEventListener("input", () => {
  showCap();
  later();
});
for (const id of ["compare", "paired"]) byId(id).addEventListener("change", () => {
  arrange();
  later();
});
start();
