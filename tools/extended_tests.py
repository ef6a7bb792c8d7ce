#!/usr/bin/env python3
"""Runs every extended test suite at its full count. Stopped at any point, it goes on where it was.

usage: tools/extended_tests.py [NAME...]     only these suites
       tools/extended_tests.py --list

A suite is a list of steps. A step that passed on this very tree (by the contents of its files)
is not run again; any change to the tree starts all anew. Output goes to build/extended_tests/<name>.log,
and its end is shown when a suite fails. One that ran no test at all has failed.
"""

import concurrent.futures
import dataclasses
import hashlib
import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "extended_tests"

FUZZ_CHUNKS = 10
FUZZ_CHUNK_INPUTS = 100_000

# Kinds of tokenizers that are compared with their originals, in chunks with seeds of their own. Each
# kind sees 10^6 different texts; a few are in two chunks, and so there are more.
TOKENIZER_KINDS = ["gpt2", "tiktoken", "hf-bytes", "hf", "sentencepiece"]
TOKENIZER_STRINGS = 1_000_000
TOKENIZER_CHUNKS = 5
TOKENIZER_CHUNK_STRINGS = 220_000
TRAINER_CHUNKS = 4

TAIL_LINES = 40

# How many tests, inputs or files a step went through, by its own word.
GTEST_COUNT = r"^\[==========\] (\d+) tests? from .* ran\."
CTEST_COUNT = r"tests failed out of (\d+)"
FUZZ_COUNT = r"^fuzz: \S+ +(\d+) inputs ok"
FILE_COUNT = r"^check_layers: (\d+) files"
STRING_COUNT = r"^\S+: (\d+) (?:strings|models), 0 differ"


@dataclasses.dataclass(frozen=True)
class Suite:
    name: str
    steps: list  # commands, each a list of words
    count: str  # pattern whose group is a step's count; the steps' counts are added up
    env: dict = dataclasses.field(default_factory=dict)
    alone: bool = True  # False: takes one processor, and runs beside others of this kind


def build_steps(preset, *targets):
    words = ["--target", *targets] if targets else []
    return [["cmake", "--preset", preset], ["cmake", "--build", "--preset", preset, *words]]


def ctest_step(preset):
    folder, jobs = f"build/{preset}", str(os.cpu_count())
    return ["ctest", "--test-dir", folder, "-j", jobs, "--output-on-failure", "--no-tests=error"]


def programs(folder, pattern):
    files = (ROOT / folder).glob(pattern)
    found = sorted(p for p in files if p.is_file() and os.access(p, os.X_OK))
    if not found:
        sys.exit(f"extended tests: no program {folder}/{pattern}")
    return found


def sharded(parts, command):
    """The tests of a program, in so many processes at a time."""
    each = f"GTEST_TOTAL_SHARDS={parts} GTEST_SHARD_INDEX={{}} exec {shlex.join(command)}"
    numbers = " ".join(map(str, range(parts)))
    return ["sh", "-c", f"printf '%s\\n' {numbers} | xargs -P{parts} -I{{}} sh -c {shlex.quote(each)}"]


def test_suites():
    """The tests read TESSERA_FULL, and then go through all their cases and not a sample."""
    for program in programs("build/cpu/tests", "test_*"):
        if program.name.startswith("test_fuzz_"):  # quick subsets of the fuzz suites below
            continue
        command = [str(program), "--gtest_brief=1"]
        if program.name == "test_crash":  # its runs mostly wait, for disks and for each other
            command = sharded(4, command)
        yield Suite(program.name, [command], GTEST_COUNT, {"TESSERA_FULL": "1"})
    # CMake knows how their ranks are started.
    yield Suite("mpi", [ctest_step("cpu") + ["-R", "^mpi"]], CTEST_COUNT, {"TESSERA_FULL": "1"})


def fuzz_suites():
    """Chunks with seeds of their own; each starts from the corpus collected so far."""
    for program in programs("build/fuzz/tests/fuzz", "fuzz_*"):
        corpus = str(FOLDER / "corpus")
        steps = [
            ["tools/fuzz.sh", str(FUZZ_CHUNK_INPUTS), str(seed), corpus, program.name]
            for seed in range(1, FUZZ_CHUNKS + 1)
        ]
        yield Suite(program.name, steps, FUZZ_COUNT, alone=False)


def tokenizer_suite():
    """The trainer; then random strings, how many of them are different, each code point, long words."""
    command = ["tools/check_tokenizers.py", "--kinds"]
    digests = str(FOLDER / "tokenizer_strings")
    steps = [[*command, "trainer", "--seed", str(seed)] for seed in range(1, TRAINER_CHUNKS + 1)]
    for kind in TOKENIZER_KINDS:
        for seed in range(1, TOKENIZER_CHUNKS + 1):
            count = ["--count", str(TOKENIZER_CHUNK_STRINGS), "--seed", str(seed)]
            steps.append([*command, kind, *count, "--digests", digests])
        steps.append([*command, kind, "--count", str(TOKENIZER_STRINGS), "--distinct", digests])
        steps.append([*command, kind, "--count", "0", "--code-points", "--long-words"])
    return Suite("tokenizers", steps, STRING_COUNT, alone=False)


def sanitizer_suite(preset, env):
    return Suite(preset, [*build_steps(preset), ctest_step(preset)], CTEST_COUNT, env)


def all_suites():
    return [
        Suite("check_layers", [["tools/check_layers.py"]], FILE_COUNT),
        Suite("lint", [["tools/lint.sh", "--all"]], FILE_COUNT),
        *test_suites(),
        tokenizer_suite(),  # the longest of those that run beside each other
        *fuzz_suites(),
        sanitizer_suite("asan", {}),
        # The BLAS libraries are not instrumented; what they do inside is not ours to judge.
        sanitizer_suite("tsan", {"TSAN_OPTIONS": "ignore_noninstrumented_modules=1"}),
    ]


def tree_hash():
    """Names and contents of all files that git does not ignore, committed or not."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, cwd=ROOT, check=True, capture_output=True).stdout.split(b"\0")
    total = hashlib.sha256()
    for name in sorted(set(names) - {b""}):
        file = ROOT / os.fsdecode(name)
        if file.is_file():
            total.update(name + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()


class Record:
    """What has passed on this tree: "name/step" -> [count, seconds]. Saved after every step."""

    def __init__(self, folder, tree):
        self.file = folder / "state.json"
        self.lock = threading.Lock()
        self.state = json.loads(self.file.read_text()) if self.file.exists() else {}
        if self.state.get("tree") != tree:
            shutil.rmtree(folder, ignore_errors=True)
            self.state = {"tree": tree, "passed": {}}
        folder.mkdir(parents=True, exist_ok=True)

    def get(self, name, step):
        return self.state["passed"].get(f"{name}/{step}")

    def put(self, name, step, count, seconds):
        with self.lock:
            self.state["passed"][f"{name}/{step}"] = [count, seconds]
            new = self.file.with_suffix(".new")
            new.write_text(json.dumps(self.state, indent=1))
            new.replace(self.file)


def run_step(command, env, log):
    """Runs one command with its output added to the log. Returns (ok, what it printed)."""
    with open(log, "a+") as out:
        out.write(f"$ {' '.join(command)}\n")
        out.flush()
        start = out.tell()
        done = subprocess.run(
            command, cwd=ROOT, env={**os.environ, **env}, stdin=subprocess.DEVNULL,
            stdout=out, stderr=subprocess.STDOUT,
        )
        out.seek(start)
        return done.returncode == 0, out.read()


def run_suite(suite, record, folder):
    """Returns (count, result, seconds)."""
    log = folder / f"{suite.name}.log"
    count, seconds, fresh = 0, 0.0, False
    for number, command in enumerate(suite.steps, 1):
        passed = record.get(suite.name, number)
        if not passed:
            fresh, start = True, time.monotonic()
            ok, text = run_step(command, suite.env, log)
            took = time.monotonic() - start
            if not ok:
                return count, "FAILED", seconds + took
            passed = [sum(map(int, re.findall(suite.count, text, re.MULTILINE))), took]
            record.put(suite.name, number, *passed)
        count, seconds = count + passed[0], seconds + passed[1]
    if count == 0:
        return 0, "FAILED", seconds
    return count, "ok" if fresh else "ok (earlier)", seconds


def show_tail(log, out):
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    for line in lines[-TAIL_LINES:]:
        print(f"    {line}", file=out)
    print(f"    (all of it: {log})", file=out)


def run_all(suites, folder, tree, out=sys.stdout):
    """Prints one line for each suite. Returns whether all passed."""
    record = Record(folder, tree)
    print(f"{'suite':<28} {'count':>10}  {'result':<12} {'seconds':>8}", file=out)
    failed = 0
    for alone, group in itertools.groupby(suites, lambda suite: suite.alone):
        group = list(group)
        with concurrent.futures.ThreadPoolExecutor(1 if alone else os.cpu_count()) as pool:
            results = pool.map(lambda suite: run_suite(suite, record, folder), group)
            for suite, (count, result, seconds) in zip(group, results):
                line = f"{suite.name:<28} {count:>10}  {result:<12} {seconds:>8.1f}"
                print(line, file=out, flush=True)
                if result == "FAILED":
                    failed += 1
                    show_tail(folder / f"{suite.name}.log", out)
    print(f"extended tests: {len(suites) - failed} passed, {failed} failed", file=out)
    return failed == 0


def main():
    names = sys.argv[1:]
    for command in build_steps("cpu") + build_steps("fuzz", "fuzzers"):
        if subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL).returncode != 0:
            sys.exit("extended tests: the build failed (see above)")
    suites = all_suites()
    if names == ["--list"]:
        print(*(c.name for c in suites), sep="\n")
        return 0
    unknown = set(names) - {c.name for c in suites}
    if unknown:
        sys.exit(f"extended tests: unknown: {', '.join(sorted(unknown))}; --list shows all")
    chosen = [c for c in suites if not names or c.name in names]
    return 0 if run_all(chosen, FOLDER, tree_hash()) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("extended tests: stopped; run it again to go on")
