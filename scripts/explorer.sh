#!/usr/bin/env bash
# Builds the simulator's core for browsers: crates/explorer/explorer.wasm.
#
#   scripts/explorer.sh           writes the file
#   scripts/explorer.sh --check   compares with the file that is committed
#
# Needs a rustc that has the sources of its library, since the target's library is compiled along: Debian's
# packages rustc-web and rust-web-src (security suite), or any toolchain with the component rust-src; and
# wasm-ld (Debian: lld) or rust-lld. $RUSTC and $WASM_LD name others than those found.
set -euo pipefail

top=$(cd "$(dirname "$0")/.." && pwd)
file=$top/crates/explorer/explorer.wasm

has_sources() { [ -d "$("$1" --print sysroot 2>/dev/null)/lib/rustlib/src/rust/library/core" ]; }
rustc=${RUSTC:-}
for candidate in /usr/bin/rustc rustc; do
    if [ -z "$rustc" ] && command -v "$candidate" >/dev/null && has_sources "$candidate"; then rustc=$candidate; fi
done
[ -n "$rustc" ] || {
    echo "explorer: no rustc with its library's sources: install rustc-web and rust-web-src, or name one in RUSTC" >&2
    exit 2
}
linker=${WASM_LD:-$(command -v wasm-ld || command -v rust-lld || true)}
[ -n "$linker" ] || linker=$(rustc --print sysroot)/lib/rustlib/$(rustc -vV | sed -n 's/^host: //p')/bin/rust-lld
[ -x "$linker" ] || {
    echo "explorer: no wasm-ld: install lld, or name a linker in WASM_LD" >&2
    exit 2
}

# The same file wherever it is built: no paths in it.
export RUSTC=$rustc RUSTC_BOOTSTRAP=1 CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=$linker
export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS="--remap-path-prefix=$top=. -C panic=abort -C link-arg=--strip-all"
export CARGO_PROFILE_RELEASE_OPT_LEVEL=s CARGO_PROFILE_RELEASE_LTO=fat CARGO_PROFILE_RELEASE_CODEGEN_UNITS=1
export CARGO_PROFILE_RELEASE_DEBUG=false
cargo rustc --manifest-path "$top/Cargo.toml" --locked --release -p coalescope-explorer \
    --target wasm32-unknown-unknown --target-dir "$top/target/explorer" \
    -Zbuild-std=core,alloc --crate-type cdylib
built=$top/target/explorer/wasm32-unknown-unknown/release/coalescope_explorer.wasm
if [ "${1:-}" = --check ]; then
    cmp "$built" "$file"
else
    install -m 644 "$built" "$file.new"
    mv "$file.new" "$file"
fi
ls -l "$file"
