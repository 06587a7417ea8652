#!/usr/bin/env bash
# The whole campaign on one GPU, in pieces that can each be stopped and repeated:
#
#   scripts/campaign.sh [-t SECONDS] OUT PIECE [WARP-FILE…]
#
#   probe      what the machine is and allows; one scenario, timed and counted
#   sanitize   compute-sanitizer (memcheck, racecheck, initcheck) over every shipped scenario
#   time       times of every shipped scenario, variant and sweep point, and of the kernels in kernels/
#   count      their counters, at full size, every metric of the map
#   judged     times, then counters, of the scenarios in scenarios/judged
#   warps      every line of the WARP-FILEs, counted
#   calibrate  the device's profile, twice, and whether the two agree
#   all        these in order, except warps without files
#
# A piece stops beginning new work after SECONDS (default 480) and goes on where it stopped when it is
# called again with the same OUT; it says so with exit code 75. Nothing outside OUT is written.
# $COALESCOPE names the program (default: target/release/coalescope, else coalescope on PATH).
set -euo pipefail

usage() { sed -n '2,17s/^# \{0,1\}//p' "$0" >&2; exit 2; }

seconds=480
while getopts t:h option; do
    case $option in
        t) seconds=$OPTARG ;;
        *) usage ;;
    esac
done
shift $((OPTIND - 1))
[ $# -ge 2 ] || usage
out=$1 piece=$2
shift 2

top=$(cd "$(dirname "$0")/.." && pwd)
program=${COALESCOPE:-$top/target/release/coalescope}
[ -x "$program" ] || program=$(command -v coalescope) || {
    echo "campaign: build the program (cargo build --release) or name it in COALESCOPE" >&2
    exit 2
}
mkdir -p "$out"
start=$SECONDS
left() { echo $((seconds - (SECONDS - start))); }
again=75

probe() {
    "$program" doctor --json >"$out/doctor.json" || { "$program" doctor >&2; exit 3; }
    "$program" doctor
    if command -v nvidia-smi >/dev/null; then nvidia-smi -q >"$out/nvidia-smi.txt"; fi
    rm -f "$out/probe.jsonl"
    "$program" measure contiguous --counters -o "$out/probe.jsonl"
}

# One scenario under one tool. A .clean file says that it is; the log of one that is not stays.
sanitize_one() {
    local tool=$1 scenario=$2
    local log="$out/sanitizer/$tool-$scenario.log" clean="$out/sanitizer/$tool-$scenario.clean"
    [ -e "$clean" ] && return 0
    [ "$(left)" -gt 0 ] || return 0
    local once
    once=$(mktemp -u)
    rm -f "$log"
    if timeout 300 compute-sanitizer --tool "$tool" --target-processes all \
        --error-exitcode 86 --log-file "$log" \
        "$program" measure "$scenario" --once --limit 200 -o "$once" 2>"$log.said" &&
        ! grep -qE 'ERROR SUMMARY: [1-9]|RACECHECK SUMMARY: [1-9]' "$log"; then
        tail -n 1 "$log" >"$clean"
        rm -f "$log" "$log.said"
    else
        echo "campaign: $tool is not clean over $scenario: $log" >&2
    fi
    rm -f "$once"
}

# Several at once: they are not timed, and most of one is starting processes.
sanitize() {
    command -v compute-sanitizer >/dev/null || {
        echo "campaign: compute-sanitizer is not on PATH; it comes with the CUDA toolkit" >&2
        return 0
    }
    mkdir -p "$out/sanitizer"
    compute-sanitizer --version >"$out/sanitizer/version.txt"
    local tool scenario jobs=0 missing=0
    for tool in memcheck racecheck initcheck; do
        for scenario in $("$program" list | awk '{ print $1 }'); do
            sanitize_one "$tool" "$scenario" &
            jobs=$((jobs + 1))
            if [ $jobs -ge "${SANITIZER_JOBS:-8}" ]; then
                wait -n
                jobs=$((jobs - 1))
            fi
        done
    done
    wait
    for tool in memcheck racecheck initcheck; do
        for scenario in $("$program" list | awk '{ print $1 }'); do
            [ -e "$out/sanitizer/$tool-$scenario.clean" ] && continue
            missing=1
            [ -e "$out/sanitizer/$tool-$scenario.log" ] || return $again
        done
    done
    return $missing
}

# What measure says goes to a log, too; it tells when its budget ended before its work.
measure() {
    local code=0 log=$out/measure.log
    "$program" measure --resume --budget "$(left)" "$@" 2> >(tee "$log" >&2) || code=$?
    wait
    cat "$log" >>"$out/campaign.log"
    if grep -q 'continue with --resume' "$log"; then code=$again; fi
    rm -f "$log"
    return $code
}

times() { measure -o "$out/time.jsonl"; }

count() { measure --counters --no-time --full -o "$out/counters.jsonl"; }

judged() {
    local judged=$top/scenarios/judged
    measure "$judged" -o "$out/judged-time.jsonl" &&
        measure "$judged" --counters --no-time --full -o "$out/judged-counters.jsonl"
}

warps() {
    [ $# -gt 0 ] || { echo "campaign: name the files of warp lines" >&2; return 2; }
    mkdir -p "$out/warps"
    for file in "$@"; do
        local name
        name=$(basename "$file")
        name=${name%.gz}
        [ "$(left)" -gt 0 ] || return $again
        case $file in
            *.gz) gzip -dc "$file" ;;
            *) cat "$file" ;;
        esac >"$out/warps/input"
        measure --warps "$out/warps/input" -o "$out/warps/$name"
    done
    rm -f "$out/warps/input"
}

# Two calibrations that know nothing of each other; their difference is the spread between runs.
calibrate() {
    local code=0 n
    for n in 1 2; do
        [ -e "$out/calibration-$n.toml" ] && continue
        [ "$(left)" -gt 0 ] || return $again
        "$program" calibrate -o "$out/calibration-$n.toml" --resume --budget "$(left)" \
            2> >(tee "$out/calibrate.log" >&2) || code=$?
        wait
        if grep -q 'continue with --resume' "$out/calibrate.log"; then return $again; fi
        [ $code -eq 0 ] || return $code
    done
    rm -f "$out/calibrate.log"
    "$program" calibrate --compare "$out/calibration-1.toml" "$out/calibration-2.toml" |
        tee "$out/calibration.txt"
}

case $piece in
    probe) probe ;;
    sanitize) sanitize ;;
    time) times ;;
    count) count ;;
    judged) judged ;;
    warps) warps "$@" ;;
    calibrate) calibrate ;;
    all)
        probe
        sanitize
        times
        count
        judged
        [ $# -eq 0 ] || warps "$@"
        calibrate
        ;;
    *) usage ;;
esac
