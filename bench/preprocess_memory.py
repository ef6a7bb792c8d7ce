#!/usr/bin/env python3
"""Shows that `tessera preprocess` needs as much memory for 10 GB of text as for 1.

usage: bench/preprocess_memory.py [--gigabytes 1,10] [--workers N] [--folder DIR]

Writes JSON lines of the given sizes (documents of bench/texts.py, again and again in other orders),
makes a tokenizer of a part of them, and preprocesses each file. The folder needs room for the
largest one and half of it again, and is emptied of what was made.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from texts import ROOT, TEXTS

GB = 10**9


def write_input(path, lines, size):
    rng = random.Random(1)
    written = 0
    with open(path, "wb") as file:
        while written < size:
            rng.shuffle(lines)
            for line in lines:
                file.write(line)
                written += len(line)
                if written >= size:
                    break
    return written


def run(command):
    """Seconds and peak memory in MiB; its output only if it fails."""
    start = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"bench/preprocess_memory.py: {' '.join(map(str, command))}\n{output}")
    return time.monotonic() - start, usage.ru_maxrss / 1024


def make_tokenizer(args, folder, lines):
    sample, model = folder / "sample.jsonl", folder / "tokenizer.json"
    write_input(sample, lines, 2_000_000)
    command = [args.build / "apps" / "tessera", "train-tokenizer", "--input", sample]
    run([*command, "--vocab-size", str(args.vocab_size), "--output", model])
    return model


def measure(args, folder, lines, model, gigabytes):
    source = folder / "input.jsonl"
    size = write_input(source, lines, gigabytes * GB)
    command = [args.build / "apps" / "tessera", "preprocess", "--input", source, "--append-eod"]
    command += ["--tokenizer-type", "HuggingFaceTokenizer", "--tokenizer-model", model]
    command += ["--workers", str(args.workers), "--output-prefix", folder / "made", "--overwrite"]
    seconds, peak = run(command)
    rate = size / 1e6 / seconds
    print(f"| {size / GB:.3f} | {args.workers} | {seconds:.1f} | {rate:.1f} | {peak:.1f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--gigabytes", default="1,10", help="sizes of the input, with commas; may be less than 1")
    add("--workers", type=int, default=len(os.sched_getaffinity(0)))
    add("--vocab-size", type=int, default=32000)
    add("--folder", type=Path, help="where the files go [default: the system's for such files]")
    add("--build", type=Path, default=ROOT / "build" / "cpu", help="where the program was built")
    args = parser.parse_args()
    lines = [json.dumps({"text": t}).encode() + b"\n" for t in TEXTS["code"]()]
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        model = make_tokenizer(args, Path(folder), lines)
        print("| input, GB | workers | seconds | MB/s | peak memory, MiB |")
        print("|---:|---:|---:|---:|---:|", flush=True)
        for gigabytes in args.gigabytes.split(","):
            measure(args, Path(folder), lines, model, float(gigabytes))


if __name__ == "__main__":
    main()
