#!/usr/bin/env bash
# Builds test programs with the CUDA backend and packs them with the libraries that they need, for a
# machine with a GPU but without our packages or a compiler. The machine that builds needs nvcc, no
# GPU; the one that runs needs an NVIDIA driver, cuBLAS and NVRTC of CUDA 13 (to profile, CUPTI too),
# cuDNN 9, NCCL 2 where several ranks run, and a C++ run-time (libstdc++, libgomp) at least as new as
# the builder's.
#
# usage: tools/build_for_device.sh [ARCHIVE [TARGET...]]   (default: carry/device.tar.gz test_cuda)
#
# Build folder: $BUILD_FOLDER (build/device); GPU architecture: $CUDA_ARCHITECTURES (90); jobs: $JOBS (1).
# There: tar -xzf device.tar.gz && device/test_cuda
set -euo pipefail
cd "$(dirname "$0")/.."

archive=${1:-carry/device.tar.gz}
shift || true
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(test_cuda)
build=${BUILD_FOLDER:-build/device}

tools/fetch_cuda_headers.sh
# The other machine's processor need not be this one's: x86-64-v3 is what all of the last ten years have.
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DTESSERA_CUDA=ON \
  -DCMAKE_CUDA_ARCHITECTURES="${CUDA_ARCHITECTURES:-90}" -DTESSERA_CPU_ARCH=x86-64-v3 \
  -DCMAKE_BUILD_RPATH="\$ORIGIN" >/dev/null
cmake --build "$build" -j "${JOBS:-1}" --target "${targets[@]}"

# What stays behind: the C and C++ run-times belong to the system there, NVIDIA's libraries to its CUDA (they
# are larger than all of ours together, and match the driver).
left_behind='lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s|gomp|cublas|cublasLt|cudnn|nccl|nvrtc)\.so'

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
mkdir "$stage/device"
for target in "${targets[@]}"; do
  program=$(find "$build" -type f -name "$target" -perm -u+x | head -n 1)
  [ -n "$program" ] || { echo "build_for_device: no program $target in $build" >&2; exit 1; }
  strip -o "$stage/device/$target" "$program"
  missing=$(ldd "$program" | grep 'not found' || true)
  [ -z "$missing" ] || { echo "build_for_device: $target lacks: $missing" >&2; exit 1; }
  ldd "$program" | awk '$2 == "=>" { print $3 }' | grep -Ev "/$left_behind" |
    xargs -I{} cp -Lu {} "$stage/device/"
done
mkdir -p "$(dirname "$archive")"
tar -C "$stage" -czf "$archive" device
du -h "$archive"
