// The simulator, compiled to WebAssembly: it counts, this file reads its numbers.

const LANES = 32;
const ABSENT = -1;
const OPS = ["ld", "st", "red", "atom", "lds", "sts"];
const isShared = (op) => op === "lds" || op === "sts";
const isAtomic = (op) => op === "red" || op === "atom";
const isOn = (mask, lane) => ((mask >>> lane) & 1) === 1;

// The names of the counts, in the order in which the module has them.
const COUNTS = [
  "requests", "sectors", "tags", "tag_wavefronts", "data_wavefronts", "bank_conflicts",
  "l2_sectors", "unique_sectors", "requested_bytes", "unique_bytes", "moved_bytes", "transactions",
];

function loadSimulator(base64) {
  const bytes = Uint8Array.from(atob(base64.trim()), (letter) => letter.charCodeAt(0));
  return WebAssembly.instantiate(bytes, {}).then(({ instance }) => {
    // It reads its rule sets at the first call, so that no control waits for that.
    instance.exports.arch_count();
    return instance.exports;
  });
}

// Counts one access by the rule set at a place: `addresses` of 32 lanes, `size`
// bytes each. Null where the architecture has no such access.
function countAccess(simulator, arch, { op, size, mask }, addresses) {
  addresses.forEach((address, lane) => simulator.set_lane(lane, BigInt(address)));
  if (simulator.count(arch, OPS.indexOf(op), size, mask) !== 0) return null;
  const list = (length, entry) => Array.from({ length }, (_, index) => entry(index));
  const value = (number) => (number === ABSENT ? null : number);
  const counts = {};
  COUNTS.forEach((name, index) => { counts[name] = value(simulator.field(index)); });
  return {
    counts,
    efficiency: simulator.efficiency(1),
    requestedEfficiency: simulator.efficiency(0),
    exact: simulator.exact() === 1,
    sectorBytes: simulator.sector_bytes(arch),
    lineBytes: simulator.line_bytes(arch),
    banks: simulator.shared_banks(arch),
    sectors: list(simulator.sectors(), (index) => ({
      address: Number(simulator.sector_address(index)),
      bytes: simulator.sector_bytes_used(index),
      line: simulator.sector_line(index),
      lanes: simulator.sector_lanes(index) >>> 0,
    })),
    lines: list(simulator.lines(), (index) => ({
      address: Number(simulator.line_address(index)),
      tagBank: value(simulator.line_tag_bank(index)),
    })),
    transactions: list(simulator.transactions(), (index) => ({
      address: Number(simulator.transaction_address(index)),
      bytes: simulator.transaction_bytes(index),
      lanes: simulator.transaction_lanes(index) >>> 0,
    })),
    words: list(simulator.words(), (index) => ({
      wavefront: simulator.word_wavefront(index),
      bank: simulator.word_bank(index),
      lanes: simulator.word_lanes(index) >>> 0,
    })),
    lanes: list(LANES, (lane) => ({
      sector: value(simulator.lane_sector(lane)),
      tagBank: value(simulator.lane_tag_bank(lane)),
      tagWavefront: value(simulator.lane_tag_wavefront(lane)),
      dataWavefront: value(simulator.lane_data_wavefront(lane)),
    })),
  };
}
