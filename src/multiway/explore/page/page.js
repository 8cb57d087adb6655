// The page's state is the query of its address; every control writes it, and every answer reads it.
"use strict";
const $ = (id) => document.getElementById(id);
const KEYS = ["image", "on", "other", "attack", "objective", "eps", "steps", "target"];
const PLOT = { responsive: true, displayModeBar: false };
let start, state, stops = null, stop = null, first = 0;
let inFocus = null, wanted = 0, busy = false, frames = null, playing = null, codesInSight = false;

function make(tag, text = "", attributes = {}) {
  const node = document.createElement(tag);
  node.textContent = text;
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

function say(text) {
  $("banner").textContent = text;
  $("banner").hidden = !text;
}

async function ask(path, query = {}) {
  let answer;
  try {
    answer = await (await fetch(`api/${path}?${new URLSearchParams(query)}`)).json();
  } catch {
    say("There is no answer: multiway explore has ended. Start it again and reload this page.");
    return null;
  }
  if (answer.error) { say(answer.error); return null; }
  return answer;
}

function draw(node, figure) {
  const ink = getComputedStyle(document.body).color;
  const layout = { ...figure.layout, font: { ...figure.layout.font, color: ink } };
  return Plotly.react(node, figure.data, layout, PLOT);
}

// State and address

function readAddress() {
  const query = new URLSearchParams(location.search);
  state = { ...start.default };
  for (const key of KEYS) if (query.has(key)) state[key] = query.get(key);
  return query.get("tour");
}

function writeAddress(push) {
  const query = new URLSearchParams(KEYS.filter((key) => state[key] !== "").map((key) => [key, state[key]]));
  if (stop !== null) query.set("tour", stop + 1);
  history[push ? "pushState" : "replaceState"](null, "", `?${query}`);
}

// Without `write` the address stays: a slider that moves writes it only where it is let go.
function change(values, write = true) {
  state = { ...state, ...values };
  const known = start.models.find((model) => model.name === state.on);
  if (known && !known.objectives.includes(state.objective)) state.objective = known.objectives[0];
  if (write) writeAddress(true);
  showControls();
  refresh();
}

// Controls

function segments(name, values) {
  $(name).replaceChildren(...values.map((value) => {
    const label = make("label");
    const input = make("input", "", { type: "radio", name, value });
    input.addEventListener("change", () => leaveTour({ [name]: value }));
    label.append(input, make("span", name === "attack" ? value.toUpperCase() : value));
    return label;
  }));
}

function leaveTour(values, write = true) {
  if (stop !== null) endTour(false);
  change(values, write);
}

function buildControls() {
  for (const name of ["on", "other"]) {
    $(name).replaceChildren(...start.models.map((model) => make("option", model.name, { value: model.name })));
  }
  $("target").replaceChildren(make("option", "any wrong class", { value: "" }),
    ...start.classes.map((text, number) => make("option", text, { value: number })));
  for (const name of ["on", "other", "target"]) {
    $(name).addEventListener("change", () => leaveTour({ [name]: $(name).value }));
  }
  segments("attack", start.attacks);
  segments("objective", start.objectives);
  Object.assign($("eps"), { max: start.eps.largest, step: start.eps.step });
  $("steps").max = start.steps;
  for (const name of ["eps", "steps"]) {
    $(name).addEventListener("input", () => leaveTour({ [name]: String(Number($(name).value)) }, false));
    $(name).addEventListener("change", () => writeAddress(true));
  }
  $("controls").addEventListener("submit", (event) => event.preventDefault());
  $("data").textContent = `Pick one of ${start.images} test images (${start.data}), attack it on one model, compare two.`;
}

function showControls() {
  for (const name of ["on", "other", "target"]) $(name).value = state[name];
  for (const name of ["attack", "objective"]) {
    $(`${name}-words`).textContent = start.words[name][state[name]] ?? "";
    for (const input of $(name).querySelectorAll("input")) input.checked = input.value === state[name];
  }
  const known = start.models.find((model) => model.name === state.on);
  for (const input of $("objective").querySelectorAll("input")) {
    input.disabled = Boolean(known) && !known.objectives.includes(input.value);
  }
  for (const name of ["eps", "steps"]) $(name).value = state[name];
  const eps = Number(state.eps);
  $("eps-value").textContent = `${eps.toPrecision(3).replace(/\.?0+$/, "") || 0} = ${(eps * 255).toFixed(1)}/255`;
  $("steps-value").textContent = state.attack === "fgsm" ? "1 (FGSM)" : state.steps;
  $("steps").disabled = state.attack === "fgsm";
  $("steps").parentElement.classList.toggle("off", state.attack === "fgsm");
  for (const input of $("thumbnails").querySelectorAll("input")) input.checked = input.value === state.image;
  const strip = $("thumbnails"), chosen = strip.querySelector("label:has(:checked)");
  if (chosen) strip.scrollLeft = chosen.offsetLeft - strip.offsetLeft - strip.clientWidth / 2;  // on a narrow screen
}

async function showThumbnails(from) {
  const answer = await ask("images", { first: from });
  if (!answer) return;
  first = from;
  $("thumbnails").replaceChildren(...answer.images.map((image) => {
    const label = make("label", "", { title: `image ${image.number}: ${image.class}` });
    const input = make("input", "", { type: "radio", name: "image", value: image.number });
    input.addEventListener("change", () => leaveTour({ image: input.value }));
    label.append(input, make("img", "", { src: image.source, alt: `image ${image.number}, class ${image.class}` }));
    return label;
  }));
  const last = Math.min(from + start.page, start.images) - 1;
  $("images-range").textContent = `${from} to ${last}`;
  $("images-back").disabled = from === 0;
  $("images-next").disabled = last + 1 >= start.images;
  showControls();
}

function pageOf(number) {
  const page = Math.floor(number / start.page) * start.page;
  return Number.isInteger(page) && page >= 0 && page < start.images ? page : 0;
}

// Answers. One question is under way at a time; what was asked for meanwhile comes next.

async function refresh() {
  wanted += 1;
  if (busy) return;
  busy = true;
  while (true) {
    const mine = wanted, asked = performance.now(), query = { ...state };
    const fresh = () => mine === wanted;
    $("results").setAttribute("aria-busy", "true");
    if (pageOf(Number(query.image)) !== first) await showThumbnails(pageOf(Number(query.image)));
    const answer = await ask("look", query);
    $("results").classList.toggle("stale", !answer);
    if (answer) await showLook(answer, asked);
    if (fresh() && answer) {
      const lines = await ask("breaking", query);
      if (lines && fresh()) await showBreaking(lines);
    }
    if (fresh() && answer && codesInSight) {
      const codes = await ask("codes", query);
      if (codes && fresh()) await showCodes(codes);
    } else frames = null;
    if (fresh()) break;
  }
  busy = false;
  $("results").setAttribute("aria-busy", "false");
  scrollToFocus();  // what came may have moved it
  inFocus = null;
}

async function showLook(answer, asked) {
  const gone = answer.missing;
  say(gone.length ? `${gone.join(", ")}: deleted from disk since this page was started. It is still shown from memory, but the commands under Code no longer find it.` : "");
  for (const name of ["clean", "adversarial", "difference"]) $(name).src = answer[name];
  $("verdict").textContent = answer.verdict;
  $("label").textContent = `class ${answer.label}`;
  $("change").textContent = answer.change;
  $("remarks").replaceChildren(...answer.remarks.map((text) => make("li", text)));
  $("command").textContent = answer.command;
  $("python").textContent = answer.python;
  $("agreement").textContent = answer.agreement === null ? ""
    : `Gradients: a brighter pixel raises the objective where orange, lowers it where blue; each map has its own scale. The two have the same sign at ${answer.agreement} % of the pixels; 50 % is chance.`;
  [0, 1].forEach((index) => showGradient(answer.models[index], index));
  await Promise.all([...answer.models.map(showModel), draw($("path-plot"), answer.path)]);
  while ($("models").children.length > answer.models.length) $("models").lastChild.remove();
  $("timing").textContent = `computed in ${answer.milliseconds} ms, shown after ${Math.round(performance.now() - asked)} ms`;
  $("timing").dataset.shown = Math.round(performance.now() - asked);
}

function showGradient(model, index) {
  const picture = $(`gradient-${index}`), caption = $(`gradient-${index}-name`);
  picture.parentElement.hidden = !model;
  if (!model) return;
  picture.parentElement.style.setProperty("--tint", model.colour);
  picture.src = model.gradient;
  picture.alt = `gradient of ${model.objective} at the clean image, ${model.name}`;
  caption.replaceChildren("gradient", make("small", `of ${model.objective}, ${model.name}`));
}

function showModel(model, index) {
  let card = $("models").children[index];
  if (!card) {
    card = make("article", "", { class: "model" });
    card.append(make("h2"), make("p", "", { class: "hint" }), make("dl"), make("div", "", { class: "plot" }));
    $("models").append(card);
  }
  card.style.setProperty("--tint", model.colour);
  card.querySelector("h2").replaceChildren(model.name, make("small", model.role));
  card.querySelector(".hint").textContent = model.trained;
  const facts = [];
  ["clean", "attacked"].forEach((moment, number) => {
    const right = model.right[number];
    const value = make("dd");
    value.append(make("span", `${model.decisions[number]} ${right ? "✓" : "✗"}`, { class: right ? "good" : "bad" }),
      ` margin ${model.margins[number]}`);
    facts.push(make("dt", moment), value);
  });
  card.querySelector("dl").replaceChildren(...facts);
  return draw(card.querySelector(".plot"), model.figure);
}

async function showBreaking(answer) {
  await draw($("eps-plot"), answer.figure);
  $("breaks").tBodies[0].replaceChildren(...answer.rows.map((row) => {
    const line = make("tr");
    const key = make("td"), mark = make("i");
    Object.assign(mark.style, { borderColor: row.colour, borderTopStyle: row.line });
    key.append(mark);
    line.append(key, ...["model", "crafted_on", "objective", "breaks"].map((key) => make("td", row[key])));
    return line;
  }));
}

// Outputs in three dimensions

async function showCodes(answer) {
  const count = answer.clouds.length;
  while ($("clouds").children.length > count) {
    Plotly.purge($("clouds").lastChild.lastChild);
    $("clouds").lastChild.remove();
  }
  while ($("clouds").children.length < count) {
    const box = make("div");
    box.append(make("h3"), make("div", "", { class: "plot" }));
    $("clouds").append(box);
  }
  frames = answer.clouds;
  $("frame").max = frames[0].figure.frames.length - 1;
  await showFrame();
}

async function showFrame() {
  if (!frames) return;
  const number = Number($("frame").value), last = Number($("frame").max);
  $("frame-value").textContent = `${Math.round(100 * number / last)} % of the attack`;
  await Promise.all(frames.map((cloud, index) => {
    const box = $("clouds").children[index];
    box.firstChild.textContent = `${cloud.model}: ${cloud.wrong[number]} of ${cloud.images} wrong`;
    const { layout } = cloud.figure;
    const scene = box.lastChild.layout?.scene;  // as it was turned
    const turned = scene ? { ...layout, scene: { ...layout.scene, camera: scene.camera } } : layout;
    return draw(box.lastChild, { data: cloud.figure.frames[number].data, layout: turned });
  }));
}

async function play() {
  if (playing || !frames) return;
  playing = true;
  for (let number = 0; number <= Number($("frame").max); number += 1) {
    $("frame").value = number;
    await showFrame();
    await new Promise((done) => setTimeout(done, 350));
  }
  playing = false;
}

// Tour

async function openTour(number, write = true) {
  if (!stops) {
    $("tour-start").disabled = true;
    const answer = await ask("tour");
    $("tour-start").disabled = false;
    if (!answer) return;
    stops = answer.stops;
    $("tour-dots").replaceChildren(...stops.map(() => make("li")));
  }
  showStop(number, write);
}

function showStop(number, write = true) {
  stop = Math.max(0, Math.min(stops.length - 1, Math.trunc(number) || 0));
  const { title, text, settings, focus } = stops[stop];
  $("tour").hidden = false;
  $("tour-title").replaceChildren(make("small", `Stop ${stop + 1} of ${stops.length}`), title);
  $("tour-text").replaceChildren(...text.split("`").map((part, odd) => (odd % 2 ? make("code", part) : part)));
  $("tour-back").disabled = stop === 0;
  $("tour-next").textContent = stop === stops.length - 1 ? "Done" : "Next →";
  [...$("tour-dots").children].forEach((dot, index) => dot.classList.toggle("done", index <= stop));
  for (const node of document.querySelectorAll(".focus")) node.classList.remove("focus");
  inFocus = $(focus === "eps" ? "eps-card" : focus);
  inFocus.classList.add("focus");
  makeRoom();
  change(settings, write);
  scrollToFocus();
}

function makeRoom() {  // for the tour, which stays at the top
  document.documentElement.style.setProperty("--room", `${stop === null ? 0 : $("tour").offsetHeight}px`);
}

function scrollToFocus() {
  if (!inFocus || stop === null) return;
  const top = inFocus.getBoundingClientRect().top + scrollY - $("tour").offsetHeight - 12;
  scrollTo({ top: Math.max(0, top), behavior: "instant" });
}

function endTour(write = true) {
  stop = inFocus = null;
  $("tour").hidden = true;
  makeRoom();
  for (const node of document.querySelectorAll(".focus")) node.classList.remove("focus");
  if (write) writeAddress(true);
}

// Copying, keys, and the way back

async function copy(button, text) {
  const label = button.textContent;
  try { await navigator.clipboard.writeText(text); button.textContent = "Copied"; }
  catch { button.textContent = "Cannot copy here"; }
  setTimeout(() => { button.textContent = label; }, 1200);
}

function step(by) {
  const next = Number(state.image) + by;
  if (next >= 0 && next < start.images) leaveTour({ image: String(next) });
}

function listen() {
  $("images-back").addEventListener("click", () => showThumbnails(Math.max(0, first - start.page)));
  $("images-next").addEventListener("click", () => showThumbnails(first + start.page));
  $("tour-start").addEventListener("click", () => openTour(0));
  $("tour-next").addEventListener("click", () => (stop === stops.length - 1 ? endTour() : showStop(stop + 1)));
  $("tour-back").addEventListener("click", () => showStop(stop - 1));
  $("tour-end").addEventListener("click", () => endTour());
  $("share").addEventListener("click", () => copy($("share"), location.href));
  $("code-open").addEventListener("click", () => $("code").showModal());
  for (const button of document.querySelectorAll("[data-copy]")) {
    button.addEventListener("click", () => copy(button, $(button.dataset.copy).textContent));
  }
  $("frame").addEventListener("input", showFrame);
  $("play").addEventListener("click", play);
  const keys = { "[": () => step(-1), "]": () => step(1), t: () => openTour(0), c: () => $("code").showModal(), s: () => $("share").click() };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || $("code").open) return;
    if (event.target.tagName === "SELECT") return;
    if (event.key === "Escape" && stop !== null) endTour();
    else keys[event.key]?.();
  });
  addEventListener("popstate", async () => {
    const number = readAddress();
    if (number && stops) { showStop(Number(number) - 1, false); return; }
    if (stop !== null) endTour(false);
    showControls();
    refresh();
  });
  addEventListener("resize", makeRoom);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", refresh);
  new IntersectionObserver(([entry]) => {
    codesInSight = entry.isIntersecting;
    if (codesInSight && !frames) refresh();
  }, { rootMargin: "100px" }).observe($("codes"));
}

async function begin() {
  start = await ask("start");
  if (!start) return;
  buildControls();
  const number = readAddress();
  await showThumbnails(pageOf(Number(state.image)));
  showControls();
  listen();
  if (number) await openTour(Number(number) - 1, false);
  if (stop === null) refresh();
}

begin();
