#!/usr/bin/env bash
# Fetches the C++ headers of the cuDNN frontend, which the CUDA backend is compiled with: one pinned
# wheel, its checksum verified, only its include folder kept. Says nothing, and needs no network, when
# they are there.
#
# usage: tools/fetch_cudnn_frontend.sh
set -euo pipefail
cd "$(dirname "$0")/.."

version=1.32.0
# Of the wheel for Python 3.11 on x86-64; its headers are the same for every Python and machine.
checksum=c6006556017a4d1c914c52a556c71b1267f2d6a0500f742e7b4edef539878df0
folder=build/deps/cudnn_frontend

[ "$(cat "$folder/version" 2>/dev/null)" != "$version" ] || exit 0

fail() {
  echo "fetch_cudnn_frontend: $*" >&2
  exit 1
}
python3 -m pip --version >/dev/null 2>&1 ||
  fail "python3 has no pip; install it (Debian: apt-get install python3-pip) and run this again"

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
echo "nvidia-cudnn-frontend==$version --hash=sha256:$checksum" >"$stage/wanted"
if ! python3 -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes \
    --only-binary=:all: --implementation cp --python-version 3.11 --abi cp311 \
    --platform manylinux_2_28_x86_64 --dest "$stage" --requirement "$stage/wanted" \
    >"$stage/log" 2>&1; then
  cat "$stage/log" >&2
  fail "pip could not fetch nvidia-cudnn-frontend $version (its output is above)"
fi

python3 -m zipfile --extract "$stage"/*.whl "$stage/wheel"
rm -rf "$folder"
mkdir -p "$folder"
mv "$stage/wheel/include" "$folder/include"  # the headers find each other by that name
echo "$version" >"$folder/version"
