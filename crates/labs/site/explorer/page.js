// The page: reads the controls, counts, and shows.

const byId = (id) => document.getElementById(id);
const NUMBERS = ["size", "fields", "field", "group", "stride", "offset"];
const NAMES = ["cc", "op", "layout", ...NUMBERS];
const VERBS = { ld: "load", st: "store", red: "add", atom: "add and read", lds: "load", sts: "store" };

const laneBoxes = Array.from(document.querySelectorAll("#lanes input"));
// How long the address waits for the next change: browsers allow few in a row.
const ADDRESS_WAIT_MS = 200;

let simulator = null;
let state = { ...DEFAULTS };
let pictureWidth = 0;
let addressTimer = 0;
// Fills the table of lanes, which is done when it is opened.
let fillLanes = () => {};

const plural = (count, one) => `${count} ${one}${count === 1 ? "" : "s"}`;
const percent = (share) => `${Math.round(share * 1000) / 10} %`;

// The state that the controls have. A field that is empty or out of bounds keeps
// its last value until it is left.
function readControls() {
  const read = { ...state };
  for (const name of NAMES) {
    const value = READERS[name](byId(name).value);
    if (value !== undefined) read[name] = value;
  }
  read.field = Math.min(read.field, read.fields - 1);
  let mask = 0;
  for (const box of laneBoxes) if (box.checked) mask |= 1 << Number(box.value);
  read.mask = mask >>> 0;
  return read;
}

// Sets the controls to the state; one that is being typed into is left alone.
function writeControls(typed) {
  for (const name of NAMES) {
    const control = byId(name);
    if (control !== typed) control.value = String(state[name]);
  }
  byId("field").max = String(state.fields - 1);
  for (const name of ["stride", "offset"]) byId(`${name}-slider`).value = String(state[name]);
  laneBoxes.forEach((box, lane) => { box.checked = isOn(state.mask, lane); });
  const presets = Array.from(byId("preset").options, (option) => option.value);
  const mask = maskText(state.mask);
  byId("preset").value = presets.includes(mask) ? mask : "custom";
  for (const part of document.querySelectorAll("[data-layouts]")) {
    part.hidden = !part.dataset.layouts.split(" ").includes(state.layout);
  }
}

// The counts in a sentence or two.
function summary(view) {
  const { counts } = view;
  const lanes = lanesIn(state.mask).length;
  const said = [plural(counts.requests, "request")];
  const add = (count, one) => { if (count !== null) said.push(plural(count, one)); };
  add(counts.transactions, "transaction");
  add(counts.sectors, "sector");
  if (!isShared(state.op)) add(counts.tags, "line");
  add(counts.tag_wavefronts, "tag wavefront");
  add(counts.data_wavefronts, "data wavefront");
  add(counts.bank_conflicts, "bank conflict");
  let text = `${lanes} of 32 lanes ${VERBS[state.op]} ${plural(state.size, "byte")} each: ${said.join(", ")}.`;
  if (!Number.isNaN(view.efficiency)) {
    text += ` Of ${plural(counts.moved_bytes, "byte")} moved ${counts.unique_bytes} are used: ${percent(view.efficiency)}.`;
  }
  return text;
}

// What matters most, for screens on which the controls hide the result.
function brief(view) {
  const { sectors, transactions, data_wavefronts: waves } = view.counts;
  const [count, one] = [[sectors, "sector"], [transactions, "transaction"], [waves, "data wavefront"]].find(([n]) => n !== null) ??
    [view.counts.requests, "request"];
  return plural(count, one) + (Number.isNaN(view.efficiency) ? "" : `, ${percent(view.efficiency)} used`);
}

function showCounts(view) {
  const values = { ...view.counts };
  for (const [name, share] of [["unique_efficiency", view.efficiency], ["requested_efficiency", view.requestedEfficiency]]) {
    values[name] = Number.isNaN(share) ? null : percent(share);
  }
  for (const entry of byId("counts").children) {
    const value = values[entry.dataset.count] ?? null;
    entry.classList.toggle("absent", value === null);
    entry.lastElementChild.textContent = value === null ? "not defined" : String(value);
  }
}

function showLanes(view, addresses) {
  const base = isShared(state.op) ? 0 : BASE;
  const cell = (value) => (value === null ? "–" : String(value));
  const rows = addresses.map((address, lane) => {
    const row = document.createElement("tr");
    const name = document.createElement("th");
    name.scope = "row";
    name.textContent = String(lane);
    row.append(name);
    const { sector, tagBank, tagWavefront, dataWavefront } = view.lanes[lane];
    const used = sector === null ? null : view.sectors[sector];
    const at = isOn(state.mask, lane) ? address - base : "off";
    const values = [at, used && used.address - base, used && view.lines[used.line].address - base, tagBank, tagWavefront, dataWavefront];
    for (const value of values) {
      const data = document.createElement("td");
      data.className = "n";
      data.textContent = cell(value);
      row.append(data);
    }
    return row;
  });
  byId("lane-rows").replaceChildren(...rows);
}

function say(note) {
  byId("note").textContent = note;
  byId("note").hidden = note === "";
}

// The place of the rule set that is chosen among those of the simulator.
const chosenRules = () => Number(byId("cc").selectedOptions[0].dataset.rules);

// Counts the state and shows everything; `unread` is what an address had that is
// not known here.
function show(unread = []) {
  const notes = unread.length > 0 ? [`Not known here, and left out: ${unread.join(", ")}.`] : [];
  const text = scenarioText(state, `Explorer: ${kernelLine(state)}`);
  byId("kernel").textContent = kernelLine(state);
  byId("scenario-text").textContent = text;
  byId("save").href = `data:application/toml;charset=utf-8,${encodeURIComponent(text)}`;
  byId("link").href = stateToHash(state);
  byId("command").textContent = `coalescope sim explorer.toml --arch ${state.cc}`;
  byId("copied").textContent = "";
  const addresses = addressesOf(state);
  const refused = refusal(state);
  const view = refused === null ? countAccess(simulator, chosenRules(), state, addresses) : null;
  byId("show-scenario").disabled = view === null;
  if (view === null) {
    const chosen = byId("op").selectedOptions[0].textContent;
    notes.push(refused ?? `Compute capability ${state.cc} has no ${chosen} of ${plural(state.size, "byte")} a lane.`);
    byId("summary").textContent = "Nothing is counted.";
    byId("brief").textContent = "Nothing is counted";
    byId("scenario").hidden = true;
    byId("show-scenario").setAttribute("aria-expanded", "false");
    for (const entry of byId("counts").children) entry.lastElementChild.textContent = "–";
    // What was drawn is of another state.
    byId("picture").replaceChildren();
    byId("legend").textContent = "";
    byId("evidence").textContent = "";
    fillLanes = () => byId("lane-rows").replaceChildren();
    fillLanes();
  } else {
    const sentence = summary(view);
    byId("summary").textContent = sentence;
    byId("brief").textContent = brief(view);
    const picture = draw(view, state, addresses, pictureWidth, sentence);
    byId("picture").replaceChildren(picture.svg);
    byId("legend").textContent = picture.legend;
    byId("evidence").textContent = view.exact
      ? ""
      : `Not known to be exact: compute capability ${state.cc}, ${byId("cc").selectedOptions[0].textContent.split("·")[1].trim()}.`;
    showCounts(view);
    fillLanes = () => showLanes(view, addresses);
    if (byId("by-lane").open) fillLanes();
  }
  say(notes.join(" "));
}

function update(typed) {
  state = readControls();
  writeControls(typed);
  show();
  clearTimeout(addressTimer);
  addressTimer = setTimeout(() => history.replaceState(null, "", stateToHash(state)), ADDRESS_WAIT_MS);
}

function readAddress() {
  clearTimeout(addressTimer);
  const { state: read, unread } = stateFromHash(location.hash);
  state = read;
  writeControls();
  show(unread);
}

function listen() {
  const form = byId("controls");
  form.addEventListener("input", ({ target }) => {
    if (target.id === "preset") {
      if (target.value === "custom") return;
      const mask = parseInt(target.value, 16);
      laneBoxes.forEach((box, lane) => { box.checked = isOn(mask, lane); });
    }
    if (target.id.endsWith("-slider")) byId(target.id.replace("-slider", "")).value = target.value;
    update(target);
  });
  // What was typed out of bounds becomes what is counted once it is left.
  form.addEventListener("change", () => writeControls());
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", (event) => {
    event.preventDefault();
    state = { ...DEFAULTS };
    writeControls();
    update();
  });
  byId("show-scenario").addEventListener("click", () => {
    const hidden = !byId("scenario").hidden;
    byId("scenario").hidden = hidden;
    byId("show-scenario").setAttribute("aria-expanded", String(!hidden));
  });
  byId("copy").addEventListener("click", () => {
    const text = byId("scenario-text");
    const done = () => { byId("copied").textContent = "Copied."; };
    const select = () => {
      getSelection().selectAllChildren(text);
      byId("copied").textContent = "Selected: copy it with Ctrl+C.";
    };
    if (navigator.clipboard) navigator.clipboard.writeText(text.textContent).then(done, select);
    else select();
  });
  addEventListener("hashchange", readAddress);
  byId("by-lane").addEventListener("toggle", () => fillLanes());
  addEventListener("resize", () => {
    if (byId("picture").clientWidth === pictureWidth) return;
    pictureWidth = byId("picture").clientWidth;
    show();
  });
}

loadSimulator(byId("simulator").textContent).then(
  (loaded) => {
    simulator = loaded;
    pictureWidth = byId("picture").clientWidth;
    listen();
    readAddress();
    document.body.dataset.ready = "true";
  },
  (error) => say(`The simulator could not be started: ${error.message}. It needs a browser with WebAssembly.`),
);
