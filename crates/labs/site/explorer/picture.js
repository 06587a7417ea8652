// Draws who goes where: lanes, then the sectors of each line, the transactions, or
// the banks of shared memory. What is drawn is what the simulator said; only the
// place of a lane's bytes within its sector comes from the addresses.

// Okabe and Ito's colours, as in the draw crate, with whether white reads on them.
const PAINTS = [
  ["#56b4e9", false], ["#e69f00", false], ["#009e73", false], ["#cc79a7", false],
  ["#f0e442", false], ["#0072b2", true], ["#d55e00", true], ["#999999", false],
];
const paint = (index) => PAINTS[index % PAINTS.length];
const LANE_HEIGHT = 26;
const BOX_HEIGHT = 36;
// What a bank's number needs, and the numbers of the wavefronts beside the banks.
const BANK_WIDTH = 19;
const WAVEFRONT_WIDTH = 30;

// Widest picture with two rows of lanes, and with lines too narrow for arrows.
const NARROW = 640;
// Lines up to which an arrow goes from each lane to its bytes.
const LINES_WITH_ARROWS = 6;

function element(name, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// "0–7, 12": the lanes of a mask, runs of three and more shortened.
function laneList(mask) {
  const parts = [];
  for (let lane = 0; lane < LANES; lane += 1) {
    if (!isOn(mask, lane)) continue;
    let end = lane;
    while (end + 1 < LANES && isOn(mask, end + 1)) end += 1;
    if (end - lane >= 2) parts.push(`${lane}–${end}`);
    else for (let one = lane; one <= end; one += 1) parts.push(String(one));
    lane = end;
  }
  return parts.join(", ");
}

const lanesIn = (mask) => Array.from({ length: LANES }, (_, lane) => lane).filter((lane) => isOn(mask, lane));

// A picture that grows downwards.
class Picture {
  constructor(width) {
    this.width = width;
    this.height = 0;
    this.parts = [];
  }

  rect(x, y, width, height, kind, fill) {
    const attributes = { x, y, width: Math.max(width, 0.5), height, rx: 2 };
    if (kind) attributes.class = kind;
    if (fill) attributes.fill = fill;
    this.parts.push(element("rect", attributes));
  }

  text(x, y, text, kind, anchor = "middle") {
    const attributes = { x, y, "text-anchor": anchor };
    if (kind) attributes.class = kind;
    this.parts.push(element("text", attributes, text));
  }

  arrow(from, to, color) {
    const middle = (from.y + to.y) / 2;
    const d = `M${from.x},${from.y} C${from.x},${middle} ${to.x},${middle} ${to.x},${to.y}`;
    this.parts.push(element("path", { d, class: "thread", stroke: color }));
  }

  finish(title, description) {
    const { width, height } = this;
    const attributes = {
      viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-labelledby": "picture-title picture-text",
    };
    const svg = element("svg", attributes);
    svg.append(element("title", { id: "picture-title" }, title), element("desc", { id: "picture-text" }, description));
    svg.append(...this.parts);
    return svg;
  }
}

// The lanes in one row, or two of 16. Returns the middle of each lane's lower edge.
function drawLanes(picture, state, colorOf) {
  const perRow = picture.width < NARROW ? LANES / 2 : LANES;
  const pitch = picture.width / perRow;
  const anchors = [];
  for (let lane = 0; lane < LANES; lane += 1) {
    const x = (lane % perRow) * pitch;
    const y = picture.height + Math.floor(lane / perRow) * (LANE_HEIGHT + 4);
    if (isOn(state.mask, lane)) {
      const [color, dark] = paint(colorOf(lane));
      picture.rect(x + 1, y, pitch - 2, LANE_HEIGHT, "edge-paint", color);
      picture.text(x + pitch / 2, y + 18, lane, dark ? "white" : "black");
    } else {
      picture.rect(x + 1, y, pitch - 2, LANE_HEIGHT, "off");
      picture.text(x + pitch / 2, y + 18, lane, "off-text");
    }
    anchors.push({ x: x + pitch / 2, y: y + LANE_HEIGHT });
  }
  picture.height += (LANES / perRow) * (LANE_HEIGHT + 4);
  return perRow === LANES ? anchors : null;
}

// Fills the bytes that lanes take in the box of `bytes` from `address` on; what
// lies side by side is one piece.
function fillBytes(picture, box, address, bytes, lanes, addresses, size, color) {
  const scale = box.width / bytes;
  const pieces = [];
  const starts = lanesIn(lanes).map((lane) => addresses[lane]).sort((a, b) => a - b);
  for (const from of starts) {
    const start = Math.max(from, address);
    const end = Math.min(from + size, address + bytes);
    const last = pieces.at(-1);
    if (last && start <= last.end) last.end = Math.max(last.end, end);
    else if (end > start) pieces.push({ start, end });
  }
  for (const { start, end } of pieces) {
    picture.rect(box.x + (start - address) * scale, box.y, (end - start) * scale, box.height, null, color);
  }
}

// The lanes where they fit, else how many there are.
function fitted(mask, width) {
  const list = laneList(mask);
  return list.length * 6 <= width ? list : `${lanesIn(mask).length}×`;
}

function drawLines(picture, view, state, addresses, anchors, base) {
  const order = view.lines.map((_, index) => index).sort((a, b) => view.lines[a].address - view.lines[b].address);
  const wide = picture.width >= NARROW;
  const columns = Math.max(1, Math.min(order.length, Math.floor(picture.width / (wide ? 150 : 160))));
  const arrows = anchors && order.length <= Math.min(columns, LINES_WITH_ARROWS);
  const slot = picture.width / columns;
  const width = Math.min(slot - 12, 480);
  const boxes = Math.max(1, Math.round(view.lineBytes / view.sectorBytes));
  const top = picture.height + (arrows ? 84 : 20);
  const rowHeight = BOX_HEIGHT + 56;
  order.forEach((line, place) => {
    const { address, tagBank } = view.lines[line];
    const x = (place % columns) * slot + (slot - width) / 2;
    const y = top + Math.floor(place / columns) * rowHeight;
    const boxWidth = width / boxes;
    for (let index = 0; index < boxes; index += 1) {
      const box = { x: x + index * boxWidth, y, width: boxWidth, height: BOX_HEIGHT };
      picture.rect(box.x, y, boxWidth, BOX_HEIGHT, "box");
      const start = address + index * view.sectorBytes;
      const sector = view.sectors.find((candidate) => candidate.address === start);
      if (!sector) continue;
      const [color] = paint(line);
      fillBytes(picture, box, start, view.sectorBytes, sector.lanes, addresses, state.size, color);
      picture.rect(box.x, y, boxWidth, BOX_HEIGHT, "edge");
      picture.text(box.x + boxWidth / 2, y + BOX_HEIGHT + 13, fitted(sector.lanes, boxWidth), "small");
      if (arrows) {
        for (const lane of lanesIn(sector.lanes)) {
          const middle = Math.max(addresses[lane], start) + Math.min(state.size, view.sectorBytes) / 2 - start;
          const share = Math.min(middle / view.sectorBytes, 1);
          picture.arrow(anchors[lane], { x: box.x + boxWidth * share, y }, color);
        }
      }
    }
    picture.text(x + width / 2, y + BOX_HEIGHT + 28, `line at byte ${address - base}`);
    if (tagBank !== null) picture.text(x + width / 2, y + BOX_HEIGHT + 43, `tag bank ${tagBank}`, "small");
  });
  picture.height = top + Math.ceil(order.length / columns) * rowHeight;
}

function drawTransactions(picture, view, state, addresses, base) {
  const most = Math.max(...view.transactions.map(({ bytes }) => bytes));
  const widest = Math.min(picture.width * (picture.width < NARROW ? 0.35 : 0.5), 480);
  const height = 20;
  picture.height += 16;
  view.transactions.forEach(({ address, bytes, lanes }, index) => {
    const box = { x: 1, y: picture.height, width: (widest * bytes) / most, height };
    picture.rect(box.x, box.y, box.width, height, "box");
    fillBytes(picture, box, address, bytes, lanes, addresses, state.size, paint(index)[0]);
    picture.rect(box.x, box.y, box.width, height, "edge");
    const place = `${bytes} B at ${address - base}: lane${lanesIn(lanes).length === 1 ? "" : "s"} `;
    const list = fitted(lanes, picture.width - widest - 20 - 6 * place.length);
    picture.text(widest + 12, box.y + 15, `${place}${list}`, null, "start");
    picture.height += height + 5;
  });
}

// Banks as columns, data wavefronts as rows. A cell is the word that a bank gives,
// with the first lane that it is for.
function drawBanks(picture, view) {
  const { banks } = view;
  const rows = Math.max(...view.words.map(({ wavefront }) => wavefront)) + 1;
  const left = WAVEFRONT_WIDTH;
  const pitch = (picture.width - left) / banks;
  const row = 22;
  picture.height += 24;
  picture.text(0, picture.height, "bank", "small", "start");
  for (let bank = 0; bank < banks; bank += 4) picture.text(left + pitch * (bank + 0.5), picture.height, bank, "small");
  const top = picture.height + 8;
  for (let wavefront = 0; wavefront < rows; wavefront += 1) {
    const y = top + wavefront * row;
    picture.text(0, y + 15, wavefront, "small", "start");
    picture.rect(left, y + 1, picture.width - left, row - 2, "box");
  }
  for (const { wavefront, bank, lanes } of view.words) {
    const served = lanesIn(lanes);
    const [color, dark] = paint(wavefront);
    const x = left + pitch * bank;
    const y = top + wavefront * row;
    picture.rect(x + 0.5, y + 1, pitch - 1, row - 2, null, color);
    picture.text(x + pitch / 2, y + 15, `${served[0]}${served.length > 1 ? "+" : ""}`, dark ? "white" : "black");
  }
  picture.height = top + rows * row;
}

// The picture and its legend.
function draw(view, state, addresses, available, sentence) {
  const shared = isShared(state.op);
  // A narrow page scrolls the picture of the banks.
  const least = shared ? Math.max(NARROW, WAVEFRONT_WIDTH + BANK_WIDTH * view.banks) : 280;
  const picture = new Picture(Math.max(available, least));
  const base = shared ? 0 : BASE;
  const transactionOf = (lane) => view.transactions.findIndex(({ lanes }) => isOn(lanes, lane));
  const colorOf = (lane) => {
    const { sector, dataWavefront } = view.lanes[lane];
    if (shared) return dataWavefront ?? 0;
    return sector === null ? Math.max(transactionOf(lane), 0) : view.sectors[sector].line;
  };
  const anchors = drawLanes(picture, state, colorOf);
  let legend = "No lane is on: the instruction sends no request.";
  if (shared && view.words.length > 0) {
    drawBanks(picture, view);
    legend = "Each row is a data wavefront: every bank gives one word. A number is the first lane that the word is for, + says that there are more.";
  } else if (view.transactions.length > 0) {
    drawTransactions(picture, view, state, addresses, base);
    legend = "Each bar is a memory transaction, as long as it moves bytes, filled where lanes use them; beside it its size, its first byte and its lanes (n×: n of them).";
  } else if (view.sectors.length > 0) {
    drawLines(picture, view, state, addresses, anchors, base);
    legend = `Each box is a sector of ${view.sectorBytes} bytes, filled where lanes use it, with the lanes below (n×: n of them). ${view.lineBytes / view.sectorBytes} make a line. Lanes have the colour of their line.`;
  } else if (state.mask !== 0) {
    legend = `The rules of compute capability ${state.cc} don't say which sectors are touched.`;
  }
  return { svg: picture.finish("Lanes of the warp, and where their bytes lie", sentence), legend };
}
