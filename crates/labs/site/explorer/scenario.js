// The state as a scenario file, which `coalescope sim` counts to the same numbers.

const TYPES = { 1: "unsigned char", 2: "unsigned short", 4: "float", 8: "double", 16: "float4" };
const ATOMIC_TYPES = { 4: "unsigned", 8: "unsigned long long" };

const typeOf = (state) => (isAtomic(state.op) ? ATOMIC_TYPES : TYPES)[state.size];

// The element in the kernel: `data[e].f1`.
function elementText(state, index) {
  switch (state.layout) {
    case "aos":
      return `data[${index}].f${state.field}`;
    case "aosoa":
      return `data[${index} / ${state.group}].f${state.field}[${index} % ${state.group}]`;
    default:
      return `data[${index}]`;
  }
}

// What each lane executes.
function statement(state, element) {
  const one = state.size === 8 ? "1ull" : "1u";
  switch (state.op) {
    case "st":
    case "sts":
      return `store(${element});`;
    case "red":
      return `atomicAdd(&${element}, ${one});`;
    case "atom":
      return `old[lane] = atomicAdd(&${element}, ${one});`;
    default:
      return `load(${element});`;
  }
}

// In one line, with numbers, for the page.
function kernelLine(state) {
  const terms = [];
  if (state.stride !== 0) terms.push(state.stride === 1 ? "lane" : `${state.stride} * lane`);
  if (state.offset !== 0 || terms.length === 0) terms.push(String(state.offset));
  const sum = terms.join(" + ");
  const index = state.layout === "aosoa" && terms.length > 1 ? `(${sum})` : sum;
  return statement(state, elementText(state, index));
}

function scenarioText(state, title) {
  const type = typeOf(state);
  const blocks = state.layout === "aosoa";
  const structs = state.layout !== "soa";
  const length = blocks ? elements(state) / state.group : elements(state);
  const named = structs ? (blocks ? "Block" : "Record") : type;
  const lines = [
    `title = ${JSON.stringify(title)}`,
    "",
    "[params]",
    `stride = ${state.stride}`,
    `offset = ${state.offset}`,
    `mask = { type = "unsigned", value = 0x${maskText(state.mask)} }   # the lanes that are on, lane 0 the lowest bit`,
    "",
    "[launch]",
    "grid = [1]",
    "block = [32]",
    "",
  ];
  if (structs) {
    const fields = Array.from({ length: state.fields }, (_, field) => `"${type} f${field}${blocks ? `[${state.group}]` : ""}"`);
    lines.push(`[struct.${named}]`, `fields = [${fields.join(", ")}]`, "");
  }
  const buffers = [];
  if (!isShared(state.op)) {
    const all = "offset + 31 * stride";
    const shape = blocks ? `(${all}) / ${state.group} + 1` : `${all} + 1`;
    buffers.push(`data = { type = "${named}", shape = ["${shape}"] }`);
  }
  if (state.op === "atom") buffers.push(`old = { type = "${type}", shape = [32] }`);
  if (buffers.length > 0) lines.push("[buffers]", ...buffers, "");
  lines.push("[kernel]", "code = '''");
  if (isShared(state.op)) lines.push(`__shared__ ${named} data[${length}];`);
  lines.push(
    "int lane = threadIdx.x;",
    "int e = offset + stride * lane;",
    `if (mask >> lane & 1) ${statement(state, elementText(state, "e"))}`,
    "'''",
    "",
  );
  return lines.join("\n");
}
