#!/usr/bin/env bash
# All that can be checked without running the program: format, layers, local names, size limits, scripts and
# clang-tidy. Runs every step even after one failed, so that one run shows all there is to fix; so
# `set -e` is off inside the steps, and each returns its own verdict.
#
# usage: tools/lint.sh [--all]   (--all: clang-tidy reads the tests too, and each source with its own
#                                includes alone, which takes five times as long)
set -euo pipefail
cd "$(dirname "$0")/.."

max_file_lines=500
max_folder_files=40
log=build/lint
failed=()

tidy_skips="^($log/)?tests/"
together=ON
case $* in
  "") ;;
  --all) tidy_skips='^$' together=OFF ;;
  *) echo "usage: tools/lint.sh [--all]" >&2; exit 2 ;;
esac

folders=()
for folder in tessera apps tests bench tools examples cmake .ci; do
  [ ! -d "$folder" ] || folders+=("$folder")
done
files() { find "${folders[@]}" -type f "$@" | sort; }
mapfile -t code <<<"$(files -name '*.h' -o -name '*.cuh' -o -name '*.cpp' -o -name '*.cu')"
mapfile -t python <<<"$(files -name '*.py')"
mapfile -t shell <<<"$(files -name '*.sh' -o -path '.ci/run')"
mapfile -t cmake <<<"$(files -name 'CMakeLists.txt' -o -name '*.cmake')"

format() { clang-format-14 --dry-run -Werror "${code[@]}"; }

layers() { tools/check_layers.py; }

local_names() { tools/check_local_names.py; }

tool_tests() { python3 -B -m unittest discover --buffer -s tests/tools -p "*_test.py"; }

size_limits() {
  local bad=0
  wc -l "${code[@]}" "${python[@]}" "${shell[@]}" |
    awk -v max="$max_file_lines" '$2 != "total" && $1 > max {
      print $2 ":1: " $1 " lines; a file has at most " max ": split it"; bad = 1
    } END { exit bad }' || bad=1
  files -printf '%h\n' | uniq -c |
    awk -v max="$max_folder_files" '$1 > max {
      print $2 ": " $1 " files; a folder has at most " max ": make subfolders"; bad = 1
    } END { exit bad }' || bad=1
  # The brackets keep the pattern from finding itself.
  if grep -nE '\b(TO[D]O|FIX[M]E)\b' "${code[@]}" "${python[@]}" "${shell[@]}" "${cmake[@]}"; then
    echo "leave no note for later in the tree: do it, or open an issue"
    bad=1
  fi
  return "$bad"
}

scripts() {
  local bad=0 script
  python3 -c 'import ast, sys; [ast.parse(open(f).read(), f) for f in sys.argv[1:]]' \
    "${python[@]}" || bad=1
  for script in "${shell[@]}"; do bash -n "$script" || bad=1; done
  return "$bad"
}

# What is compiled, as the compile database says. It is written for g++, whose warning options clang
# does not all know.
tidy() {
  cmake --preset cpu -B "$log" -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON -DTESSERA_TOGETHER=$together \
    >"$log/configure.log" 2>&1 || { cat "$log/configure.log"; return 1; }
  local status=0
  sed -n 's/^ *"file": "\(.*\)",\?$/\1/p' "$log/compile_commands.json" | sort -u |
    sed "s#^$PWD/##" | grep -vE "$tidy_skips" |
    xargs -n1 -P"$(nproc)" clang-tidy-14 --quiet -p "$log" \
      --extra-arg=-Wno-unknown-warning-option >"$log/tidy.log" 2>&1 || status=1
  grep -vE '^[0-9]+ (warning|error)s?.* (generated|treated as errors?)' "$log/tidy.log" || true
  return "$status"
}

step() {
  local start=$SECONDS status=ok
  "$1" 2>&1 || { status=FAILED; failed+=("$1"); }
  printf 'lint: %-14s %-6s %3d s\n' "$1" "$status" $((SECONDS - start))
}

mkdir -p "$log"
for name in format layers local_names tool_tests size_limits scripts tidy; do step "$name"; done
if [ ${#failed[@]} -gt 0 ]; then
  echo "lint: failed: ${failed[*]}"
  exit 1
fi
