#!/usr/bin/env bash
# Makes NAME.ptx of every NAME.cu beside this script, byte for byte as they are
# committed: nvcc 13.0, virtual architecture compute_75, so that any GPU from
# Turing on can load them.
#
#   kernels/build.sh              write the .ptx files
#   kernels/build.sh --check      compare with the committed ones, write nothing
#
# nvcc is taken from $NVCC, else from PATH. Where ptxas stands beside it, the
# PTX is also assembled for sm_75 and sm_90.
set -euo pipefail
cd "$(dirname "$0")"

nvcc=${NVCC:-$(command -v nvcc || true)}
if [ -z "$nvcc" ]; then
    echo "build.sh: no nvcc on PATH; name one with NVCC=/path/to/nvcc" >&2
    exit 2
fi
release=$("$nvcc" --version | sed -n 's/.*release \([0-9.]*\),.*/\1/p')
if [ "$release" != 13.0 ]; then
    echo "build.sh: the committed files were made by nvcc 13.0, this is $release:" \
        "they will differ" >&2
fi
ptxas=$(dirname "$nvcc")/ptxas

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

status=0
for source in *.cu; do
    name=${source%.cu}
    # The folder is entered first: no path gets into the output.
    "$nvcc" -ptx -arch=compute_75 "$source" -o "$scratch/$name.ptx"
    if [ -x "$ptxas" ]; then
        for arch in sm_75 sm_90; do
            "$ptxas" -arch=$arch "$scratch/$name.ptx" -o /dev/null
        done
    fi
    if [ "${1:-}" = --check ]; then
        cmp "$scratch/$name.ptx" "$name.ptx" || status=1
    else
        cp "$scratch/$name.ptx" "$name.ptx"
    fi
done
exit $status
