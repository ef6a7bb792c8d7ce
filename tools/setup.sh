#!/usr/bin/env bash
# Installs the Debian packages that a group of tasks needs and that are missing; for the group cuda it
# fetches headers too (tools/fetch_cuda_headers.sh). Says nothing, and needs neither rights nor network,
# when all are there.
#
# usage: tools/setup.sh GROUP...   (groups: build, test, lint, cuda)
set -euo pipefail

build=(g++ cmake ninja-build make libfmt-dev nlohmann-json3-dev libyaml-cpp-dev
       libxxhash-dev libblis-openmp-dev libgtest-dev libopenmpi-dev openmpi-bin
       libhwloc-dev libssl-dev libpcre2-dev libutf8proc-dev zlib1g-dev libzstd-dev)
# The sanitizer and fuzz builds use clang with its own OpenMP run-time.
test=(clang libclang-rt-14-dev libomp-dev python3 git)
# clang-tidy reads the sources as clang does, so it needs clang's omp.h.
lint=(clang-format-14 clang-tidy-14 libomp-dev python3)
# What fetches the headers; CUDA and cuDNN themselves are NVIDIA's to install.
cuda=(python3 python3-pip)

fail() {
  echo "setup: $*" >&2
  exit 1
}

wanted=()
headers=false
for group in "$@"; do
  case $group in
    build) wanted+=("${build[@]}") ;;
    test) wanted+=("${test[@]}") ;;
    lint) wanted+=("${lint[@]}") ;;
    cuda) wanted+=("${cuda[@]}"); headers=true ;;
    *) fail "unknown group '$group'; the groups are build, test, lint and cuda" ;;
  esac
done
[ ${#wanted[@]} -gt 0 ] || fail "name at least one group: build, test, lint or cuda"
mapfile -t wanted <<<"$(printf '%s\n' "${wanted[@]}" | sort -u)"

install_packages() {
  if ! command -v dpkg-query >/dev/null; then
    echo "setup: this is not a Debian system. Install the counterparts of: ${wanted[*]}" >&2
    return
  fi

  # One query for all; names that dpkg has never heard of are simply absent from the answer.
  local installed missing=() package
  installed=$(dpkg-query -W -f='${db:Status-Abbrev} ${Package}\n' "${wanted[@]}" 2>/dev/null || true)
  for package in "${wanted[@]}"; do
    grep -qxF "ii  $package" <<<"$installed" || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0

  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    as_root=(sudo)
    # Without a terminal there is nobody to type a password.
    [ -t 0 ] || as_root+=(-n)
    "${as_root[@]}" true 2>/dev/null ||
      fail "packages are missing, and this user may not install them. As root, run:
  apt-get install ${missing[*]}"
  fi

  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300)
  echo "setup: installing ${missing[*]}"
  log=$(mktemp)
  trap 'rm -f "$log"' EXIT
  if ! { "${apt[@]}" update && "${apt[@]}" install -y --no-install-recommends "${missing[@]}"; } \
      </dev/null >"$log" 2>&1; then
    cat "$log" >&2
    fail "apt-get failed (its output is above)"
  fi
}

install_packages
if $headers; then "$(dirname "$0")/fetch_cuda_headers.sh"; fi
