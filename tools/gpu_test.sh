#!/usr/bin/env bash
# Runs everything that needs an NVIDIA GPU: the tests that compare the CUDA backend with the CPU and with
# PyTorch's golden files, and training. With --sanitize, our own kernels run once more, on small shapes, under
# compute-sanitizer's memcheck, racecheck and initcheck.
#
# usage: tools/gpu_test.sh [--sanitize] [FOLDER]
#
# FOLDER holds the test programs: build/cuda/tests, or where an archive of tools/build_for_device.sh was unpacked.
# They run side by side; the GPU is large enough.
set -euo pipefail

sanitize=false
[ "${1:-}" != --sanitize ] || { sanitize=true; shift; }
folder=${1:-$(dirname "$0")/../build/cuda/tests}

# Without this, tests that find no GPU are skipped.
export TESSERA_NEED_GPU=1 OMP_WAIT_POLICY=passive
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

# Starts a command in the background; a line tells how it ended, and more if it failed.
started=0
step() {
  started=$((started + 1))
  local name=$1 start=$SECONDS log="$logs/${1//[^a-z_0-9]/-}"
  shift
  {
    if "$@" >"$log" 2>&1 && grep -q '^\[  PASSED  \] [1-9]' "$log"; then
      touch "$log.ok"
      printf '%-16s ok %5d s  %s\n' "$name" $((SECONDS - start)) "$(grep '^\[  PASSED' "$log")"
    else
      printf '%-16s FAILED after %d s\n' "$name" $((SECONDS - start))
      grep -E '^\[  FAILED|: Failure|SUMMARY|========= (Invalid|Uninit|Error|Internal)' "$log" |
        sort | uniq -c | head -n 40 || true
      tail -n 20 "$log"
    fi
  } &
}

# Names of library kernels do not hold our namespace, so they run as they are. What they write is then unknown
# to initcheck, which is given only tests whose inputs no library wrote: no products, no attention by cuDNN, and
# no embedding gradients, whose rows CUB sorts (ChecksTest calls every op).
sanitizer() {
  local tool=$1 filter=$2
  step "$tool" compute-sanitizer --tool "$tool" --kernel-name kns=tessera --error-exitcode 9 \
    "$folder/test_kernels" --gtest_filter="$filter"
}

if $sanitize; then
  export PATH="$PATH:${CUDA_HOME:-/usr/local/cuda}/bin"  # CUDA's usual place is often not on it
  command -v compute-sanitizer >/dev/null ||
    { echo "gpu_test: there is no compute-sanitizer on the PATH, nor in ${CUDA_HOME:-/usr/local/cuda}/bin: it" \
        "comes with CUDA; CUDA_HOME says where that is" >&2; exit 1; }
  # ThreadsTest repeats all ops for numbers of CPU threads, which is nothing new on a GPU.
  sanitizer memcheck '*cuda*-*ThreadsTest*'
  sanitizer racecheck '*cuda*-*ThreadsTest*'
  sanitizer initcheck '*cuda*-*ThreadsTest*:*Gemm*:*Linear*:*Embedding*:*ChecksTest*:*Attention*f16'
else
  step test_kernels "$folder/test_kernels" --gtest_filter='*cuda*' --gtest_brief=1
  step test_golden "$folder/test_golden" --gtest_filter='*cuda*' --gtest_brief=1
  step test_comm "$folder/test_comm" --gtest_filter='*cuda*:*Gpu*' --gtest_brief=1
  for module in engine observe train; do
    step "test_$module" "$folder/test_$module" --gtest_filter='*cuda*:*Gpu*' --gtest_brief=1
  done
  step test_cli "$folder/test_cli" --gtest_filter='*Gpu*' --gtest_brief=1
  for shard in 0 1 2 3; do
    step "test_cuda $shard/4" env GTEST_TOTAL_SHARDS=4 GTEST_SHARD_INDEX=$shard \
      "$folder/test_cuda" --gtest_brief=1
  done
  # Ranks of NCCL that share the GPU take turns on it, so nobody else should.
  for ranks in 2 4; do
    wait
    step "test_nccl $ranks" "$(dirname "$0")/nccl_test.sh" "$ranks" "$folder"
  done
  wait
  step "test_nccl stall" "$(dirname "$0")/nccl_test.sh" 2 --stall "$folder"
fi

wait
failed=$((started - $(find "$logs" -name '*.ok' | wc -l)))
[ "$failed" -eq 0 ] || { echo "gpu_test: $failed failed" >&2; exit 1; }
