#!/usr/bin/env bash
# Installs a build, builds the program of examples/embed against it with find_package(tessera), and trains with it.
#
# usage: tests/install.sh BUILD     (a configured build folder that has the program `tessera`)
set -euo pipefail
build=$(realpath "$1")
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "install: $*" >&2
  exit 1
}

cmake --install "$build" --prefix "$work/prefix" >/dev/null
# Nothing of the source tree may be reached: the example is built from a copy.
cp -r examples/embed "$work/source"
cmake -S "$work/source" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/prefix" >/dev/null
cmake --build "$work/build" >"$work/log" 2>&1 || { cat "$work/log"; fail "the example does not build"; }

"$work/build/train" >"$work/out" 2>&1 || { cat "$work/out"; fail "the example failed"; }
losses=$(awk '$1 == "step" && $3 == "loss" { print $4 }' "$work/out")
[ "$(wc -l <<<"$losses")" -eq 20 ] || { cat "$work/out"; fail "expected the losses of 20 steps"; }
awk 'NR == 1 { first = $1 } END { exit !($1 < first) }' <<<"$losses" ||
  fail "the loss did not fall: $(tr '\n' ' ' <<<"$losses")"

[ "$("$work/prefix/bin/tessera" --version)" = "$("$build/apps/tessera" --version)" ] ||
  fail "the installed program is another one"
if grep -rn "$PWD" "$work/prefix/lib/cmake" "$work/prefix/include"; then fail "names the source tree"; fi
echo "install: ok; loss $(tr '\n' ' ' <<<"$losses")"
