#!/usr/bin/env python3
"""Compares Tessera's tokens with those of tokenizers, tiktoken and sentencepiece.

usage: tools/check_tokenizers.py [--program PATH] [--count N] [--seed N] [--kinds NAME,...]
                                 [--code-points] [--long-words] [--digests FOLDER]
       tools/check_tokenizers.py --distinct FOLDER --count N --kinds NAME,...
       tools/check_tokenizers.py --write-goldens

Each kind of tokenizer is made here (rival_tokenizers.py), and both sides encode the same strings
and decode their tokens: random ones (random_strings.py), which are others for each tokenizer and
seed, and a tenth as many that are no UTF-8; with --code-points each code point alone, with
--long-words words of up to 10^6 characters, whose time must grow as they do. The kind "trainer"
compares train-tokenizer with the BpeTrainer of tokenizers.

--digests keeps a digest of each string, from which --distinct counts how many different ones a kind
has seen with all seeds; fewer than --count is a failure. --write-goldens keeps small tokenizers and
what they make of a few hundred strings, and what the trainer makes of small texts, for
tests/tokenizer and tests/data, which need no Python.
"""

import argparse
import array
import hashlib
import json
import random
import resource
import subprocess
import tempfile
from pathlib import Path

from random_strings import ROOT, distinct, generator, mixed_text, random_bytes, random_text
from rival_tokenizers import KINDS
from rival_trainer import compare_trainers, write_trainer_golden
from rival_venv import in_rival_venv

GOLDENS = ROOT / "tests" / "tokenizer" / "data"
TRAINER_GOLDEN = ROOT / "tests" / "data" / "golden" / "trained_tokenizers.json"

AT_ONCE = 100_000
FILES_AT_ONCE = 2_000


def code_points():
    points = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    return points + [f"a{c}B1 {c}" for c in points[:0x20000]]


class Tessera:
    """`tessera tokenize` with a tokenizer's flags."""

    def __init__(self, program, kind):
        self.command = [program, "tokenize", *kind.flags]

    def run(self, more, data=b""):
        command = [*self.command, *more]
        done = subprocess.run(command, input=data, capture_output=True, check=False)
        if done.returncode:
            raise SystemExit(f"{' '.join(map(str, command))}\n{done.stderr.decode()}")
        return done.stdout

    def each(self, values, *more):
        lines = "".join(json.dumps(value) + "\n" for value in values)
        out = self.run(["--input", "-", "--format", "jsonl", *more], lines.encode())
        return [json.loads(line) for line in out.splitlines()]


def differences(name, texts, expected, found):
    """How many are not equal; shows the first few."""
    wrong = [i for i, pair in enumerate(zip(expected, found, strict=True)) if pair[0] != pair[1]]
    for i in wrong[:3]:
        print(f"{name}: {texts[i]!r:.300}\n  expected {expected[i]!r:.300}\n  got      {found[i]!r:.300}")
    return len(wrong)


def compare_texts(tessera, kind, texts):
    wrong = 0
    for begin in range(0, len(texts), AT_ONCE):
        some = texts[begin:begin + AT_ONCE]
        expected = kind.encode(some)
        wrong += differences(kind.name, some, expected, tessera.each(some))
        back = tessera.each(expected, "--decode")
        wrong += differences(f"{kind.name}, decoded", some, kind.decode(expected), back)
        if kind.exact:
            wrong += differences(f"{kind.name}, and back", some, some, back)
    return wrong


def compare_bytes(tessera, kind, strings):
    """Each in a file of its own, as JSON cannot have them."""
    wrong = 0
    for begin in range(0, len(strings), FILES_AT_ONCE):
        some = strings[begin:begin + FILES_AT_ONCE]
        with tempfile.TemporaryDirectory() as folder:
            def files(ending, contents):
                names = [f"{folder}/{i:06}.{ending}" for i in range(len(contents))]
                for name, content in zip(names, contents):
                    Path(name).write_bytes(content)
                return ["--input", *names]

            lines = tessera.run(files("txt", some)).splitlines()
            found = [[int(n) for n in line.split()] for line in lines]
            wrong += differences(f"{kind.name}, bytes", some, kind.encode_bytes(some), found)
            if kind.keeps:
                back = tessera.run([*files("ids", lines), "--decode"])
                wrong += differences(f"{kind.name}, bytes and back", some, [b"".join(some)], [back])
    return wrong


def compare_long_words(tessera, kind):
    rng = random.Random(1)
    wrong = 0
    for letters in ("a", "abcdefghijklmnopqrstuvwxyz"):
        seconds = []
        for length in (100_000, 1_000_000):
            word = "".join(rng.choices(letters, k=length))
            before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
            found = tessera.each([word])
            seconds.append(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before)
            wrong += differences(f"{kind.name}, a word of {length}", [word], kind.encode([word]), found)
        if seconds[1] > 15 * seconds[0] + 0.5:
            wrong += 1
            print(f"{kind.name}: words of 10^5 and 10^6 characters took {seconds} s")
    return wrong


def compare(args, kind, texts, strings):
    tessera = Tessera(args.program, kind)
    wrong = compare_texts(tessera, kind, texts) + compare_bytes(tessera, kind, strings)
    if args.long_words:
        wrong += compare_long_words(tessera, kind)
    print(f"{kind.name}: {len(texts) + len(strings)} strings, {wrong} differ", flush=True)
    return wrong


def write_digests(file, strings):
    numbers = array.array("Q")
    for data in strings:
        numbers.frombytes(hashlib.blake2b(data, digest_size=8).digest())
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(numbers.tobytes())


def compare_kind(args, name, folder):
    """Each tokenizer of the kind has its share of --count, and strings that no other has."""
    kinds = list(KINDS[name](folder, args.vocab_size))
    share = -(-args.count // len(kinds))
    all_texts, all_strings, wrong = set(), set(), 0
    for kind in kinds:
        rng = generator(args.seed, kind.name)
        texts = distinct(share, lambda r=rng: random_text(r), all_texts)
        strings = distinct(-(-share // 10), lambda r=rng: random_bytes(r), all_strings)
        wrong += compare(args, kind, texts + (code_points() if args.code_points else []), strings)
    if args.digests:
        write_digests(args.digests / f"{name}-{args.seed}.texts", (t.encode() for t in all_texts))
        write_digests(args.digests / f"{name}-{args.seed}.bytes", all_strings)
    return wrong


def count_distinct(args):
    """Whether each kind has seen as many different texts as wanted, and a tenth of that in bytes."""
    enough = True
    for name in args.kinds.split(","):
        counts = []
        for ending in ("texts", "bytes"):
            seen = set()
            for file in args.distinct.glob(f"{name}-[0-9]*.{ending}"):
                seen.update(array.array("Q", file.read_bytes()))
            counts.append(len(seen))
        print(f"{name}: {counts[0]} distinct texts, {counts[1]} distinct strings that are no UTF-8")
        enough = enough and counts[0] >= args.count and counts[1] >= args.count // 10
    return int(not enough)


def write_goldens():
    """tests/tokenizer/data: a small vocabulary in both formats, and strings with their tokens."""
    GOLDENS.mkdir(parents=True, exist_ok=True)
    kinds = [*KINDS["gpt2"](GOLDENS, 600), *list(KINDS["tiktoken"](GOLDENS, 600))[:-1]]
    (GOLDENS / "ranks.json").unlink()
    with open(GOLDENS / "tokens.jsonl", "w", encoding="ascii") as file:
        for seed in range(120):
            text = mixed_text(random.Random(seed))
            entry = {"text": text, "tokens": {kind.name: kind.encode([text])[0] for kind in kinds}}
            file.write(json.dumps(entry, separators=(",", ":")) + "\n")
    write_trainer_golden(TRAINER_GOLDEN)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default=ROOT / "build/cpu/apps/tessera", type=Path)
    parser.add_argument("--count", default=10_000, type=int, help="strings for each kind, shared by its tokenizers")
    parser.add_argument("--seed", default=1, type=int)
    parser.add_argument("--kinds", default=",".join([*KINDS, "trainer"]))
    parser.add_argument("--code-points", action="store_true", help="each code point alone, too")
    parser.add_argument("--long-words", action="store_true", help="words of 10^6 characters, too")
    parser.add_argument("--vocab-size", default=2000, type=int)
    parser.add_argument("--digests", type=Path, help="where digests of the strings go")
    parser.add_argument("--distinct", type=Path, help="count the different strings in such a folder")
    parser.add_argument("--write-goldens", action="store_true")
    args = parser.parse_args()
    if args.write_goldens:
        return write_goldens()
    if args.distinct:
        return count_distinct(args)
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in args.kinds.split(","):
            if name == "trainer":
                wrong += compare_trainers(args.program, Path(folder), args.seed)
            else:
                wrong += compare_kind(args, name, Path(folder))
    return int(wrong > 0)


if __name__ == "__main__":
    in_rival_venv(main)
