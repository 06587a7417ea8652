#!/usr/bin/env python3
"""Files of `warp` lines for `coalescope measure --warps`.

    scripts/warp-patterns.py SET [--seed N] [--count N] > FILE

    random        random patterns of all operations and widths
    hash-bits     pairs of lines that differ in one address bit from 28 up, each
                  beside a known bank
    narrow-stores designed stores of 1, 2 and 4 bytes: so many lines in so many
                  tag banks and data banks
    store-groups  stores of 1 and 2 bytes with the tag bank of every lane given
    operations    each operation, cache operator, atomic and type with a few
                  patterns that tell rules apart

The same arguments give the same lines. Addresses are 47-bit virtual addresses;
`measure --warps` reserves them where they are.
"""

import argparse
import json
import random
import sys

LANES = 32
FULL = 0xFFFF_FFFF
LINE = 128
# What is known of the tag-bank hash of compute capability 9.0 (line bits 0-20);
# designed patterns stay within these bits.
HASH = (0b0_1111_0111_1010_1011_0101, 0b1_1010_1101_0101_1101_1010)
SUPER = 1 << 28  # bytes over which HASH is known


def bank(line):
    return sum(((line & mask).bit_count() & 1) << bit for bit, mask in enumerate(HASH))


def lines_in_banks(banks, count, rng, spread=1 << 12):
    """`count` distinct line numbers, the i-th in tag bank banks[i % len(banks)]."""
    chosen = []
    seen = set()
    for index in range(count):
        while True:
            line = rng.randrange(spread)
            if line not in seen and bank(line) == banks[index % len(banks)]:
                seen.add(line)
                chosen.append(line)
                break
    return chosen


def base_of(rng, align=SUPER):
    """A place in the middle of the address space, seldom taken by anything."""
    return rng.randrange((1 << 40) // align, (1 << 46) // align) * align


def fill(addresses):
    """32 addresses from those of the first lanes."""
    return addresses + [addresses[0]] * (LANES - len(addresses))


def first(lanes):
    return (1 << lanes) - 1


class Writer:
    def __init__(self, name):
        self.name, self.number = name, 0

    def line(self, op, width, mask, addresses, family, **more):
        record = {"id": f"{self.name}-{self.number}", "op": op, "width": width, "mask": mask,
                  "addresses": addresses, "family": family, **more}
        self.number += 1
        print(json.dumps(record, separators=(",", ":")))


# ---- random ------------------------------------------------------------------

def masks(rng):
    kind = rng.random()
    if kind < 0.55:
        return FULL
    if kind < 0.65:
        return first(rng.randrange(1, LANES + 1))
    if kind < 0.75:
        return rng.choice([0x5555_5555, 0xAAAA_AAAA, 0x0000_FFFF, 0xFFFF_0000, 0x1111_1111, 0x00FF_00FF])
    if kind < 0.80:
        return 1 << rng.randrange(LANES)
    density = rng.random()
    mask = sum((rng.random() < density) << lane for lane in range(LANES))
    return mask or 1


def scattered(rng, width, span):
    return [rng.randrange(max(1, span // width)) * width for _ in range(LANES)]


def global_pattern(rng, width):
    """Offsets of the lanes from a base, and the family's name."""
    kind = rng.randrange(13)
    at = rng.randrange(0, 64) * width
    if kind == 0:
        return [at + lane * width for lane in range(LANES)], "contiguous"
    if kind == 1:
        order = list(range(LANES))
        rng.shuffle(order)
        return [at + lane * width for lane in order], "permuted"
    if kind == 2:
        stride = rng.choice([2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 48, 64, 65, 96, 128])
        return [at + lane * stride * width for lane in range(LANES)], f"stride{stride}"
    if kind == 3:
        stride = 1 << rng.randrange(9, 23)
        return [at + lane * stride for lane in range(LANES)], f"bigstride{stride}"
    if kind == 4:
        stride = rng.randrange(128 // width, 4096 // width) * width
        return [at + lane * stride for lane in range(LANES)], "oddstride"
    if kind == 5:
        some = scattered(rng, width, 1 << 16)[:rng.choice([1, 2, 3, 4, 5, 8, 16])]
        return [rng.choice(some) for _ in range(LANES)], f"unique{len(some)}"
    if kind == 6:
        some = [rng.randrange(1 << 14) for _ in range(rng.choice([1, 2, 3, 4, 6, 8, 12, 16, 24]))]
        return [rng.choice(some) * LINE + rng.randrange(LINE // width) * width for _ in range(LANES)], \
            f"lines{len(some)}"
    if kind == 7:
        columns, pitch = rng.choice([1, 2, 4, 8, 16]), rng.choice([64, 96, 128, 160, 192, 256, 384, 512, 1000, 1024, 4096])
        pitch = pitch // width * width
        return [at + lane // columns * pitch + lane % columns * width for lane in range(LANES)], \
            f"tile{columns}p{pitch}"
    if kind == 8:
        size, gap = rng.choice([2, 4, 8, 16]), rng.choice([1, 2, 4, 8, 32])
        return [at + (lane // size * size * gap + lane % size) * width for lane in range(LANES)], \
            f"group{size}s{gap}"
    if kind == 9:
        step = 1 << rng.randrange(7, 13)
        return [lane * step + rng.randrange(step // width) * width for lane in range(LANES)], f"jitter{step}"
    span = 1 << rng.choice([6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 20, 22, 24, 26, 27, 28, 29])
    return scattered(rng, width, span), f"random{span}"


def shared_pattern(rng, width):
    kind = rng.randrange(7)
    if kind == 0:
        at = rng.randrange(32) * width
        return [at + lane * width for lane in range(LANES)], "contiguous"
    if kind == 1:
        stride = rng.randrange(1, 1 + 1024 // width // 4)
        return [lane * stride * width % 32768 for lane in range(LANES)], f"stride{stride}"
    if kind == 2:
        order = list(range(LANES))
        rng.shuffle(order)
        return [lane * width for lane in order], "permuted"
    if kind == 3:
        some = scattered(rng, width, 4096)[:rng.choice([1, 2, 3, 4, 8, 16])]
        return [rng.choice(some) for _ in range(LANES)], f"unique{len(some)}"
    if kind == 4:
        half = scattered(rng, width, 2048)[:16]
        return [half[lane // 2] for lane in range(LANES)], "pairs"
    if kind == 5:
        size, gap = rng.choice([2, 4, 8, 16]), rng.choice([2, 4, 8, 9, 32])
        return [(lane // size * size * gap + lane % size) * width % 32768 for lane in range(LANES)], \
            f"group{size}s{gap}"
    span = 1 << rng.randrange(7, 16)
    return scattered(rng, width, span), f"random{span}"


# Weight of each operation and width among the random lines.
RANDOM = [
    ("ld", 1, 4), ("ld", 2, 4), ("ld", 4, 9), ("ld", 8, 8), ("ld", 16, 9),
    ("ld.cg", 4, 2), ("ld.cg", 16, 2), ("ld.nc", 4, 2), ("ld.nc", 8, 2), ("ld.nc", 16, 2),
    ("st", 1, 11), ("st", 2, 11), ("st", 4, 9), ("st", 8, 6), ("st", 16, 6),
    ("red", 4, 4), ("red", 8, 4), ("atom", 4, 5), ("atom", 8, 5),
    ("lds", 1, 1), ("lds", 2, 1), ("lds", 4, 3), ("lds", 8, 4), ("lds", 16, 6),
    ("sts", 1, 1), ("sts", 2, 1), ("sts", 4, 2), ("sts", 8, 3), ("sts", 16, 3),
]


def random_lines(out, rng, count):
    weights = [weight for _, _, weight in RANDOM]
    for _ in range(count):
        op, width, _ = rng.choices(RANDOM, weights)[0]
        mask = masks(rng)
        more = {}
        if op in ("lds", "sts"):
            addresses, family = shared_pattern(rng, width)
            # Without a type it would stand for a load of which one half is used.
            more = {"type": "b64"} if width == 8 else {}
        elif rng.random() < 0.05:
            addresses = [rng.randrange((1 << 40) // width, (1 << 46) // width) * width for _ in range(LANES)]
            family = "far"
        else:
            offsets, family = global_pattern(rng, width)
            base = base_of(rng, 1 << 30) + rng.randrange(1 << 13) * LINE
            addresses = [base + offset for offset in offsets]
        out.line(op, width, mask, addresses, family, **more)


# ---- hash bits ---------------------------------------------------------------

def hash_bits(out, rng):
    """Two lanes: a line, and one whose address differs in the bit and, below it,
    by a line of known bank. They conflict in exactly one of the four."""
    partners = {}
    line = 1
    while len(partners) < 4:
        partners.setdefault(bank(line), line)
        line += 1
    for bit in range(28, 47):
        for index, line in sorted(partners.items()):
            while True:
                base = rng.randrange(1 << 19, 1 << 25) << 21 | rng.randrange(1 << 13) * LINE
                other = base ^ 1 << bit ^ line * LINE
                if min(base, other) >= 1 << 32 and max(base, other) < 1 << 46 or bit == 46:
                    break
            out.line("ld", 4, 3, fill([base, other]), f"bit{bit}^bank{index}")


# ---- narrow stores -----------------------------------------------------------

def narrow_stores(out, rng):
    def store(width, lanes, banks, offsets, family, mask=None, order=None):
        base = base_of(rng)
        lines = lines_in_banks(banks, lanes, rng)
        addresses = [base + line * LINE + offsets(i) for i, line in enumerate(lines)]
        if mask is not None:
            spread = [lane for lane in range(LANES) if mask >> lane & 1][:lanes]
            full = [addresses[0]] * LANES
            for lane, address in zip(spread, addresses):
                full[lane] = address
            out.line("st", width, sum(1 << lane for lane in spread), full, family)
            return
        out.line("st", width, first(lanes), fill(addresses), family)

    same = lambda i: 0
    own = lambda i: 4 * i
    for lanes in range(2, 33):
        store(1, lanes, [0], same, f"tag1-data1-k{lanes}")
    for lanes in (5, 6, 7, 8, 9, 12, 16, 17, 20, 24, 28, 31, 32):
        store(2, lanes, [0], same, f"tag1-data1-k{lanes}")
        store(1, lanes, [0], own, f"tag1-own-k{lanes}")
        store(4, lanes, [0], same, f"tag1-data1-k{lanes}")
    for lanes in (8, 10, 12, 16, 20, 24, 28, 32):
        store(1, lanes, [0, 1], same, f"tag2-data1-k{lanes}")
        store(1, lanes, [0, 1, 2, 3], same, f"tag4-data1-k{lanes}")
        store(4, lanes, [0, 1, 2, 3], same, f"tag4-data1-k{lanes}")
        store(1, lanes, [0, 1, 2, 3], own, f"tag4-own-k{lanes}")
        store(2, lanes, [0, 1, 2, 3], same, f"tag4-data1-k{lanes}")
        store(1, lanes, [0, 1, 2], same, f"tag3-data1-k{lanes}")
    for lanes in (8, 16, 24, 32):
        for banks in (2, 4, 8, 16):
            store(1, lanes, [0], lambda i: 4 * (i % banks), f"tag1-cyc{banks}-k{lanes}")
            store(1, lanes, [0], lambda i: 4 * (i * banks // lanes), f"tag1-blk{banks}-k{lanes}")
    # Uneven tag banks: most lines in one, some in the others.
    for lanes in (12, 16, 20, 24, 28, 32):
        for pattern in ([0, 0, 0, 1], [0, 0, 1, 2], [0, 0, 0, 0, 0, 0, 0, 1], [0] * 5 + [1] * 5):
            store(1, lanes, pattern, same, f"tag{''.join(map(str, pattern))}-data1-k{lanes}")
    # Which lanes they are.
    for mask in (0xFFFF_0000, 0x5555_5555, 0xAAAA_AAAA, 0x00FF_FF00, 0x0F0F_0F0F, 0xF0F0_F0F0):
        store(1, 16, [0], same, f"tag1-data1-mask{mask:08x}", mask)
        store(1, 16, [0, 1], same, f"tag2-data1-mask{mask:08x}", mask)
        store(1, 12, [0], own, f"tag1-own-mask{mask:08x}", mask)
    # Two lanes a line: in one word, in two words of one bank (there is none in
    # a line), in two banks.
    for width, gap in ((1, 1), (1, 4), (2, 2), (2, 4), (1, 64)):
        for count in (5, 8, 12, 16):
            base = base_of(rng)
            lines = lines_in_banks([0], count, rng)
            near = [base + line * LINE + gap * half for line in lines for half in (0, 1)]
            out.line("st", width, first(2 * count), fill(near), f"tag1-near{gap}-l{count}")
            far = [base + line * LINE + gap * half for half in (0, 1) for line in lines]
            out.line("st", width, first(2 * count), fill(far), f"tag1-far{gap}-l{count}")
    # Strides in one piece, as they occur in programs.
    for width in (1, 2, 4):
        for stride in (128, 256, 384, 512, 640, 1024, 2048, 4096):
            for lanes in (16, 32):
                base = base_of(rng)
                addresses = [base + lane * stride for lane in range(lanes)]
                out.line("st", width, first(lanes), fill(addresses), f"stride{stride}-k{lanes}")


# ---- store groups ------------------------------------------------------------

def store_groups(out, rng):
    """Narrow stores of one lane a line, the tag bank of each given: how the tag
    wavefronts are gathered. `own`: no two lanes share a data bank; `data1`: all
    do."""
    def store(banks, family, width=1, own=True):
        base = base_of(rng)
        lines = []
        for wanted in banks:
            line = lines_in_banks([wanted], 1, rng)[0]
            while line in lines:
                line = lines_in_banks([wanted], 1, rng)[0]
            lines.append(line)
        addresses = [base + line * LINE + (4 * lane if own else 0) for lane, line in enumerate(lines)]
        name = "own" if own else "data1"
        out.line("st", width, first(len(banks)), fill(addresses), f"{family}-{name}")

    def cycle(pattern, lanes):
        return (pattern * LANES)[:lanes]

    for lanes in range(8, 33, 2):
        store(cycle([0, 1], lanes), f"ab-k{lanes}")
    for lanes in range(14, 33, 2):
        store(cycle([0, 1, 2], lanes), f"abc-k{lanes}")
        store(cycle([0, 0, 1], lanes), f"aab-k{lanes}")
    for lanes in range(17, 33):
        store(cycle([0, 1, 2, 3], lanes), f"abcd-k{lanes}")
    for lanes in (12, 16, 20, 24, 28, 32):
        store(cycle([0, 0, 0, 1], lanes), f"aaab-k{lanes}")
        store(cycle([0] * 7 + [1], lanes), f"aaaaaaab-k{lanes}")
        store(cycle([0, 0, 1, 2], lanes), f"aabc-k{lanes}")
    for count in (1, 2, 3, 4, 6, 8, 12, 16):
        store([0] * (32 - count) + [1] * count, f"a{32 - count}b{count}")
        store([1] * count + [0] * (32 - count), f"b{count}a{32 - count}")
    store([0] * 8 + [1] * 8 + [2] * 8 + [3] * 8, "a8b8c8d8")
    store([0] * 16 + [1] * 8 + [2] * 8, "a16b8c8")
    store([0] * 11 + [1] * 11 + [2] * 10, "a11b11c10")
    store([0, 1] * 8 + [0] * 16, "ab8a16")
    store([0] * 16 + [0, 1] * 8, "a16ab8")
    store([0, 1, 2, 3] * 4 + [0] * 16, "abcd4a16")
    store([0] * 16 + [0, 1, 2, 3] * 4, "a16abcd4")
    store([0, 1, 2, 3] * 2 + [0, 1] * 12, "abcd2ab12")
    for _ in range(110):
        weights = [rng.random() ** 2 + 0.02 for _ in range(4)]
        store(rng.choices(range(4), weights, k=rng.choice([32, 32, 32, 28, 24, 20])), "random")
    for _ in range(40):
        weights = [rng.random() ** 2 + 0.02 for _ in range(4)]
        store(rng.choices(range(4), weights, k=32), "random", own=False)
    for _ in range(15):
        weights = [rng.random() ** 2 + 0.02 for _ in range(4)]
        store(rng.choices(range(4), weights, k=32), "random", width=2)


# ---- operations --------------------------------------------------------------

def designed(rng, width):
    """Patterns that tell rules apart, as offsets."""
    rows = [("contiguous", [lane * width for lane in range(LANES)]),
            ("shifted", [width + lane * width for lane in range(LANES)]),
            ("stride2", [2 * lane * width for lane in range(LANES)]),
            ("one", [0] * LANES),
            ("stride128", [lane * LINE for lane in range(LANES)]),
            ("bank", [line * LINE for line in lines_in_banks([0], LANES, rng)]),
            ("pairs", [lane // 2 * LINE + lane % 2 * width for lane in range(LANES)]),
            ("random4096", scattered(rng, width, 4096)),
            ("random65536", scattered(rng, width, 1 << 16)),
            ("unique4", [rng.choice([0, 96 // width * width, 256, 4096]) for _ in range(LANES)])]
    return rows


def operations(out, rng):
    def each(op, width, rows=None, **more):
        for family, offsets in designed(rng, width):
            if rows and family not in rows:
                continue
            base = base_of(rng)
            if op in ("reds", "atoms", "ldl", "stl", "lds", "sts"):
                addresses = [offset % 16384 for offset in offsets]
            else:
                addresses = [base + offset for offset in offsets]
            mask = FULL if rng.random() < 0.8 else masks(rng)
            out.line(op, width, mask, addresses, family, **more)

    few = {"contiguous", "shifted", "stride128", "bank", "random4096", "random65536"}
    for op in ("ld.ca", "ld.cs", "ld.cv", "ld.lu", "st.wb", "st.cg", "st.cs", "st.wt"):
        for width in (1, 4, 16):
            each(op, width, few)
    for width, kinds in ((2, ("v2.u8",)), (4, ("v4.u8", "v2.u16", "f32")), (8, ("v2.u32", "v4.u16", "f64", "v2.f32")),
                         (16, ("v2.u64", "v4.f32", "v2.f64"))):
        for kind in kinds:
            for op in ("ld", "st", "lds", "sts"):
                each(op, width, {"shifted", "random4096", "bank"}, type=kind)
    integer = ("add", "min", "max", "and", "or", "xor", "exch")
    for op in ("red", "atom"):
        for width, kind in ((4, "u32"), (8, "u64")):
            for atomic in integer:
                if op == "red" and atomic == "exch":
                    continue
                each(op, width, {"contiguous", "one", "pairs", "random4096", "unique4", "random65536"}
                     if atomic in ("add", "exch") else {"pairs", "random4096", "unique4"}, atomic=atomic, type=kind)
        each(op, 4, {"pairs", "random4096", "unique4"}, atomic="inc", type="u32")
        each(op, 4, {"pairs", "random4096", "unique4"}, atomic="min", type="s32")
        for width, kind in ((4, "f32"), (8, "f64"), (4, "f16x2"), (4, "bf16x2"), (2, "f16"), (2, "bf16")):
            each(op, width, atomic="add", type=kind)
        for width, kind in ((8, "v2.f32"), (16, "v4.f32"), (8, "v2.f16x2"), (16, "v4.f16x2")):
            each(op, width, atomic="add", type=kind)
    for width, kind in ((4, "u32"), (8, "u64")):
        each("atom", width, atomic="cas", type=kind)
    for op in ("reds", "atoms"):
        for width, kind, atomic in ((4, "u32", "add"), (4, "u32", "max"), (4, "f32", "add"), (8, "u64", "add"),
                                    (4, "u32", "exch"), (4, "u32", "cas")):
            if op == "reds" and atomic in ("exch", "cas"):
                continue
            each(op, width, {"contiguous", "one", "stride2", "pairs", "random4096"}, atomic=atomic, type=kind)
    for op in ("ldl", "stl"):
        for width in (1, 4, 8, 16):
            each(op, width, {"contiguous", "stride2", "one", "random4096"})
    for width in (4, 8, 16):
        for family, offsets in designed(rng, width):
            shared = [lane * width for lane in range(LANES)]
            for where, to in (("rows", shared), ("column", [lane * LINE % 16384 for lane in range(LANES)]),
                              ("random", scattered(rng, width, 8192))):
                base = base_of(rng)
                out.line("cp.async", width, FULL, [base + offset for offset in offsets], f"{family}-{where}",
                         shared_addresses=to)
    # 128-bit shared loads: which lanes of neighbouring quarter-warps agree.
    for _ in range(60):
        quarter = [scattered(rng, 16, 2048)[:8] for _ in range(4)]
        for index in range(1, 4):
            keep = rng.choice([0, 2, 4, 6, 8])
            source = quarter[rng.randrange(index)]
            for lane in rng.sample(range(8), keep):
                quarter[index][lane] = source[lane ^ rng.choice([0, 0, 1])]
        out.line("lds", 16, FULL if rng.random() < 0.7 else masks(rng), sum(quarter, []), "agree")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", choices=["random", "hash-bits", "narrow-stores", "store-groups", "operations"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1600, help="lines of `random`")
    arguments = parser.parse_args()
    rng = random.Random(f"{arguments.set}-{arguments.seed}")
    out = Writer(f"{arguments.set}-{arguments.seed}")
    if arguments.set == "random":
        random_lines(out, rng, arguments.count)
    else:
        {"hash-bits": hash_bits, "narrow-stores": narrow_stores, "store-groups": store_groups,
         "operations": operations}[arguments.set](out, rng)


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        sys.exit(0)
