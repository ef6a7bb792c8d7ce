#!/usr/bin/env bash
# Runs the tests of the NCCL communicator with RANKS processes: the suite that every communicator passes, equal
# bits from run to run, graphs, groups within groups, and data-parallel training in all its kinds. They may share one GPU; NCCL then believes that every rank
# is a machine of its own, and goes through sockets.
#
# usage: tools/nccl_test.sh RANKS [--stall] [FOLDER]
#
# With --stall the last rank stays away from a call, in three ways, and the others must end with an error that
# names the call; and it comes late to a barrier without a timeout, where they wait. FOLDER holds
# test_nccl: build/cuda/tests, or where an archive of tools/build_for_device.sh was unpacked.
set -euo pipefail

ranks=${1:-}
[[ $ranks =~ ^[1-9][0-9]*$ ]] || { echo "usage: tools/nccl_test.sh RANKS [--stall] [FOLDER]" >&2; exit 2; }
shift
stall=false
[ "${1:-}" != --stall ] || { stall=true; shift; }
program=${1:-$(dirname "$0")/../build/cuda/tests}/test_nccl

logs=$(mktemp -d)
pids=()
end_ranks() { [ ${#pids[@]} -eq 0 ] || kill -9 "${pids[@]}" 2>/dev/null || true; }
trap 'end_ranks; rm -rf "$logs"' EXIT

gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU' || true)
export OMP_WAIT_POLICY=passive

# Starts all ranks with the given arguments; their output goes to $logs/RANK.
start() {
  rm -f "$logs/id"
  pids=()
  local rank
  for ((rank = 0; rank < ranks; ++rank)); do
    local variables=()
    [ "$gpus" -ge "$ranks" ] ||
      variables=(NCCL_HOSTID="host$rank" NCCL_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1 NCCL_NET=Socket)
    env "${variables[@]}" "$program" --rank "$rank" --size "$ranks" --id-file "$logs/id" "$@" \
      >"$logs/$rank" 2>&1 &
    pids+=($!)
  done
}

# Prints a line about a rank that has ended; and more, if it was wrong.
tell() {
  local rank=$1 verdict=$2
  printf 'rank %d: %-7s %s\n' "$rank" "$verdict" \
    "$(grep -E '^(\[  (PASSED|FAILED|SKIPPED)|caught: |error: )|error: rank' "$logs/$rank" | head -n 1 || true)"
  [ "$verdict" = ok ] || tail -n 40 "$logs/$rank"
}

# Waits for all ranks; when one fails, the others are ended.
finish() {
  local left=$ranks failed=0 pid rank
  while [ "$left" -gt 0 ]; do
    local status=0
    wait -n -p pid "${pids[@]}" || status=$?
    left=$((left - 1))
    for rank in "${!pids[@]}"; do [ "${pids[$rank]}" != "$pid" ] || break; done
    unset "pids[$rank]"
    if [ "$status" -eq 0 ]; then
      tell "$rank" ok
    elif [ "$failed" -eq 0 ]; then
      failed=1
      tell "$rank" FAILED
      end_ranks
    fi
  done
  [ "$failed" -eq 0 ]
}

# Waits for all ranks but the last, each of which must end with `expected`, and say `text`.
finish_stalled() {
  local expected=$1 text=$2 failed=0 rank
  for ((rank = 0; rank < ranks - 1; ++rank)); do
    local status=0
    wait "${pids[$rank]}" || status=$?
    if [ "$status" -eq "$expected" ] && grep -qF "rank $rank of $ranks: $text" "$logs/$rank"; then
      tell "$rank" ok
    else
      echo "rank $rank: exit code $status instead of $expected, or the wrong message"
      tell "$rank" FAILED
      failed=1
    fi
  done
  end_ranks
  wait "${pids[@]}" 2>/dev/null || true
  pids=()
  [ "$failed" -eq 0 ]
}

run_stalled() {
  [ "$ranks" -ge 2 ] || { echo "nccl_test: --stall needs two ranks or more" >&2; exit 2; }
  local how
  for how in send barrier stream; do
    echo "stall: $how"
    start --stall "$how"
    case $how in
      send) finish_stalled 0 'send of f32 [1000] (4000 bytes)' ;;
      barrier) finish_stalled 0 'barrier did not end within 10 s' ;;
      stream) finish_stalled 1 'all_reduce of f32 [1000] (4000 bytes) did not end within 10 s' ;;
    esac
  done
  echo "stall: patience"
  start --stall patience
  finish
  echo "[  PASSED  ] 3 calls that one of $ranks ranks did not come to"
}

run_tests() {
  start --gtest_brief=1
  finish
  local first
  first=$(grep -h '^bits: ' "$logs"/[0-9]* || true)
  start --gtest_brief=1 --gtest_filter='*EqualBits*'
  finish
  [ "$first" = "$(grep -h '^bits: ' "$logs"/[0-9]* || true)" ] ||
    { echo "nccl_test: two runs gave different bits" >&2; exit 1; }
  if grep -q '^\[  SKIPPED' "$logs/0"; then return; fi
  [ -n "$first" ] || { echo "nccl_test: no rank said which bits it got" >&2; exit 1; }
  echo "[  PASSED  ] 2 runs of $ranks ranks"
}

if $stall; then run_stalled; else run_tests; fi
