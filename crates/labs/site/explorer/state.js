// What is chosen: its defaults and bounds, the page's address, and the addresses
// of the lanes.

const DEFAULTS = {
  cc: "9.0", op: "ld", size: 4, layout: "soa", fields: 3, field: 0, group: 32, stride: 1, offset: 0, mask: 0xffffffff,
};

// Where an array of global memory starts, as in `coalescope sim` without a device.
const BASE = 0x700000000000;

// Most shared memory that a block's arrays may take: 48 KB.
const SHARED_BYTES = 48 * 1024;

const wholeNumber = (text, least, most) => {
  if (!/^\d{1,9}$/.test(text)) return undefined;
  const number = Number(text);
  return number >= least && number <= most ? number : undefined;
};
const oneOf = (text, allowed) => (allowed.includes(text) ? text : undefined);
const oneNumberOf = (text, allowed) => (allowed.includes(Number(text)) && /^\d+$/.test(text) ? Number(text) : undefined);

// Reads a value of the state from text; undefined where it is none.
const READERS = {
  cc: (text) => oneOf(text, Array.from(document.getElementById("cc").options, (option) => option.value)),
  op: (text) => oneOf(text, OPS),
  size: (text) => oneNumberOf(text, [1, 2, 4, 8, 16]),
  layout: (text) => oneOf(text, ["soa", "aos", "aosoa"]),
  fields: (text) => wholeNumber(text, 1, 16),
  field: (text) => wholeNumber(text, 0, 15),
  group: (text) => oneNumberOf(text, [4, 8, 16, 32, 64, 128]),
  stride: (text) => wholeNumber(text, 0, 1024),
  offset: (text) => wholeNumber(text, 0, 4096),
  mask: (text) => (/^[0-9a-f]{8}$/.test(text) ? parseInt(text, 16) : undefined),
};

const maskText = (mask) => mask.toString(16).padStart(8, "0");

// The state as the address keeps it: what does not matter to a layout is left out.
function stateToHash(state) {
  const keys = ["cc", "op", "size", "layout"];
  if (state.layout !== "soa") keys.push("fields", "field");
  if (state.layout === "aosoa") keys.push("group");
  keys.push("stride", "offset");
  const parts = keys.map((key) => `${key}=${state[key]}`);
  return `#${parts.join("&")}&mask=${maskText(state.mask)}`;
}

// The state that an address keeps, and what of it could not be read.
function stateFromHash(hash) {
  const state = { ...DEFAULTS };
  const unread = [];
  for (const [key, text] of new URLSearchParams(hash.replace(/^#/, ""))) {
    const read = Object.hasOwn(READERS, key) ? READERS[key](text) : undefined;
    if (read === undefined) unread.push(text === "" ? key : `${key}=${text}`);
    else state[key] = read;
  }
  if (state.field >= state.fields) {
    unread.push(`field=${state.field} of ${state.fields}`);
    state.field = state.fields - 1;
  }
  return { state, unread };
}

// The element, counted from the start of the array, whose value a lane takes.
const elementOf = (state, lane) => state.offset + state.stride * lane;

// Bytes from the start of the array to what a lane takes.
function byteOf(state, lane) {
  const element = elementOf(state, lane);
  const { size, fields, field, group } = state;
  switch (state.layout) {
    case "aos":
      return (element * fields + field) * size;
    case "aosoa":
      return ((Math.floor(element / group) * fields + field) * group + (element % group)) * size;
    default:
      return element * size;
  }
}

// Elements of the array: up to the last that a lane takes, whole blocks of an AoSoA.
function elements(state) {
  const all = elementOf(state, LANES - 1) + 1;
  return state.layout === "aosoa" ? Math.ceil(all / state.group) * state.group : all;
}

const arrayBytes = (state) => elements(state) * state.size * (state.layout === "soa" ? 1 : state.fields);

function addressesOf(state) {
  const base = isShared(state.op) ? 0 : BASE;
  return Array.from({ length: LANES }, (_, lane) => base + byteOf(state, lane));
}

// Why a state cannot be counted, in words; null where it can.
function refusal(state) {
  if (isAtomic(state.op) && state.size !== 4 && state.size !== 8) {
    return "An atomicAdd of integers takes 4 or 8 bytes: choose one of them.";
  }
  if (isShared(state.op) && arrayBytes(state) > SHARED_BYTES) {
    return `The array takes ${arrayBytes(state)} bytes, and a block's shared arrays have ${SHARED_BYTES} at most: lower the stride or the offset.`;
  }
  return null;
}
