#!/usr/bin/env bash
# Runs fuzz programs of build/fuzz. The same RUNS, SEED and corpus give the same inputs.
#
# usage: tools/fuzz.sh RUNS SEED CORPUS [TARGET...]   (default: every fuzz program that was built)
#
# They start from the well-formed inputs of tests/fuzz/make_seeds.py; CORPUS/TARGET collects inputs
# that reach new code. One that crashes, hangs or eats memory is kept in build/fuzz/found/.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ $# -lt 3 ]; then
  echo "usage: tools/fuzz.sh RUNS SEED CORPUS [TARGET...]" >&2
  exit 2
fi
runs=$1 seed=$2 corpus=$3
shift 3

# Far above what any input needs, so that reaching them is a defect of ours.
seconds_per_input=10
memory_mb=2048

targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
  for program in build/fuzz/tests/fuzz/fuzz_*; do
    [ ! -x "$program" ] || targets+=("$(basename "$program")")
  done
fi
if [ ${#targets[@]} -eq 0 ]; then
  echo "fuzz: no program in build/fuzz/tests/fuzz; build the target fuzzers of the preset fuzz" >&2
  exit 1
fi

seeds=$(mktemp -d)  # of its own: programs may be fuzzed beside each other
trap 'rm -rf "$seeds"' EXIT
python3 tests/fuzz/make_seeds.py "$seeds"
mkdir -p build/fuzz/found
for target in "${targets[@]}"; do
  if [ ! -d "$seeds/$target" ]; then
    echo "fuzz: $target has no seeds: tests/fuzz/make_seeds.py needs a function for it" >&2
    exit 1
  fi
  mkdir -p "$corpus/$target"
  log=build/fuzz/$target.log
  start=$SECONDS
  if ! "build/fuzz/tests/fuzz/$target" -runs="$runs" -seed="$seed" -timeout="$seconds_per_input" \
      -rss_limit_mb="$memory_mb" -print_final_stats=1 -artifact_prefix="build/fuzz/found/$target-" \
      "$corpus/$target" "$seeds/$target" >"$log" 2>&1; then
    cat "$log"
    echo "fuzz: $target FAILED (log: $log). Run it again on the input named above to see it fail."
    exit 1
  fi
  inputs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  printf 'fuzz: %-28s %8d inputs ok %4d s\n' "$target" "$inputs" $((SECONDS - start))
done
