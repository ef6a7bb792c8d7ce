#!/usr/bin/env bash
# Fetches the headers that the CUDA backend is compiled with and that a CUDA toolkit need not have:
# those of the cuDNN frontend (attention), of CUPTI (profiling) and of CUTLASS (experts). Each is one
# pinned wheel, its checksum verified, only its include folder kept. Says nothing, and needs no network, when they are
# there.
#
# usage: tools/fetch_cuda_headers.sh
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
  echo "fetch_cuda_headers: $*" >&2
  exit 1
}

stage=""
trap 'rm -rf "$stage"' EXIT

# fetch FOLDER PACKAGE VERSION SHA256 PLATFORM INCLUDE: the wheel's folder INCLUDE becomes
# build/deps/FOLDER/include. Wheels are those for Python 3.11 on x86-64; their headers are the same
# for every Python and machine.
fetch() {
  local folder=build/deps/$1 package=$2 version=$3 checksum=$4 platform=$5 include=$6
  [ "$(cat "$folder/version" 2>/dev/null)" != "$version" ] || return 0
  python3 -m pip --version >/dev/null 2>&1 ||
    fail "python3 has no pip; install it (Debian: apt-get install python3-pip) and run this again"
  rm -rf "$stage"
  stage=$(mktemp -d)
  echo "$package==$version --hash=sha256:$checksum" >"$stage/wanted"
  if ! python3 -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes \
      --only-binary=:all: --implementation cp --python-version 3.11 --abi cp311 \
      --platform "$platform" --dest "$stage" --requirement "$stage/wanted" >"$stage/log" 2>&1; then
    cat "$stage/log" >&2
    fail "pip could not fetch $package $version (its output is above)"
  fi
  python3 -m zipfile --extract "$stage"/*.whl "$stage/wheel"
  rm -rf "$folder"
  mkdir -p "$folder"
  mv "$stage/wheel/$include" "$folder/include"  # the headers find each other by that name
  echo "$version" >"$folder/version"
}

fetch cudnn_frontend nvidia-cudnn-frontend 1.32.0 \
  c6006556017a4d1c914c52a556c71b1267f2d6a0500f742e7b4edef539878df0 manylinux_2_28_x86_64 include
fetch cupti nvidia-cuda-cupti 13.0.85 \
  4eb01c08e859bf924d222250d2e8f8b8ff6d3db4721288cf35d14252a4d933c8 manylinux_2_25_x86_64 \
  nvidia/cu13/include
fetch cutlass nvidia-cutlass 4.2.0.0 \
  f9599ada45c7bcb6bf53f7d3f0a7d154183e53451c01bfa59eecd37dd4a693f6 any cutlass_library/source/include
