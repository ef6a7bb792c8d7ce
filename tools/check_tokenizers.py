#!/usr/bin/env python3
"""Compares Tessera's tokens with those of tokenizers, tiktoken and sentencepiece.

usage: tools/check_tokenizers.py [--program PATH] [--count N] [--seed N] [--kinds NAME,...]
                                 [--code-points] [--long-words]
       tools/check_tokenizers.py --write-goldens

Each kind of tokenizer is made here (rival_tokenizers.py), and both sides encode the same strings
and decode their tokens: random ones over all planes of Unicode, words of many languages, code, runs
of whitespace; bytes that are no UTF-8; with --code-points each code point alone, with --long-words
words of up to 10^6 characters, whose time must grow as they do. The kind "trainer" compares
train-tokenizer with the BpeTrainer of tokenizers. --write-goldens keeps small tokenizers and what
they make of a few hundred strings, and what the trainer makes of small texts, for tests/tokenizer
and tests/data, which need no Python.
"""

import argparse
import json
import random
import resource
import subprocess
import tempfile
from pathlib import Path

from rival_tokenizers import KINDS, ROOT, WORDS
from rival_trainer import compare_trainers, write_trainer_golden
from rival_venv import in_rival_venv

GOLDENS = ROOT / "tests" / "tokenizer" / "data"
TRAINER_GOLDEN = ROOT / "tests" / "data" / "golden" / "trained_tokenizers.json"

SPACES = [" ", "  ", "    ", "\t", "\n", "\r", "\r\n", "\n\n", " \n ", "\u00a0", "\u3000", "\u2028"]
SPACES += ["\x85", "\u200b", "\u180e", "\x1c", "\x0b"]
BAD_BYTES = [b"\xff", b"\xe4\xb8", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf0\x9f\x99", b"\x80", b"\xf4\x90\x80\x80"]
BYTE_STRINGS = 200
AT_ONCE = 100_000


def random_character(rng):
    ranges = [(0, 0x7F), (0x80, 0x7FF), (0x800, 0xD7FF), (0xE000, 0xFFFF), (0x10000, 0x1FFFF)]
    ranges += [(0x20000, 0x3FFFF), (0x40000, 0x10FFFF)]
    return chr(rng.randint(*rng.choice(ranges)))


def random_text(rng):
    parts = []
    for _ in range(rng.randint(1, 14)):
        kind = rng.random()
        if kind < 0.3:
            parts.append(rng.choice(SPACES))
        elif kind < 0.7:
            parts.append(rng.choice(WORDS))
        elif kind < 0.85:
            parts.append(random_character(rng))
        else:
            parts.append("".join(chr(rng.randint(97, 122)) for _ in range(rng.randint(1, 9))))
    return "".join(parts)


def random_bytes(rng):
    parts = [random_text(rng).encode() for _ in range(3)]
    return parts[0] + rng.choice(BAD_BYTES) + parts[1] + rng.choice(BAD_BYTES) + parts[2]


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
    with tempfile.TemporaryDirectory() as folder:
        def files(ending, contents):
            names = [f"{folder}/{i:06}.{ending}" for i in range(len(contents))]
            for name, content in zip(names, contents):
                Path(name).write_bytes(content)
            return ["--input", *names]

        lines = tessera.run(files("txt", strings)).splitlines()
        if kind.invalid == "keep":
            back = tessera.run([*files("ids", lines), "--decode"])
            return differences(kind.name, strings, [b"".join(strings)], [back])
    if kind.invalid == "replace":
        expected = kind.encode([data.decode(errors="replace") for data in strings])
    else:
        expected = kind.encode(strings)
    return differences(kind.name, strings, expected, [[int(n) for n in line.split()] for line in lines])


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


def write_goldens():
    """tests/tokenizer/data: a small vocabulary in both formats, and strings with their tokens."""
    GOLDENS.mkdir(parents=True, exist_ok=True)
    kinds = [*KINDS["gpt2"](GOLDENS, 600), *list(KINDS["tiktoken"](GOLDENS, 600))[:-1]]
    (GOLDENS / "ranks.json").unlink()
    with open(GOLDENS / "tokens.jsonl", "w", encoding="ascii") as file:
        for seed in range(120):
            text = random_text(random.Random(seed))
            entry = {"text": text, "tokens": {kind.name: kind.encode([text])[0] for kind in kinds}}
            file.write(json.dumps(entry, separators=(",", ":")) + "\n")
    write_trainer_golden(TRAINER_GOLDEN)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default=ROOT / "build/cpu/apps/tessera", type=Path)
    parser.add_argument("--count", default=1000, type=int, help="strings for each tokenizer")
    parser.add_argument("--seed", default=1, type=int)
    parser.add_argument("--kinds", default=",".join([*KINDS, "trainer"]))
    parser.add_argument("--code-points", action="store_true", help="each code point alone, too")
    parser.add_argument("--long-words", action="store_true", help="words of 10^6 characters, too")
    parser.add_argument("--vocab-size", default=2000, type=int)
    parser.add_argument("--write-goldens", action="store_true")
    args = parser.parse_args()
    if args.write_goldens:
        return write_goldens()
    rng = random.Random(args.seed)
    texts = [random_text(rng) for _ in range(args.count)] + (code_points() if args.code_points else [])
    strings = [random_bytes(rng) for _ in range(BYTE_STRINGS)]
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in args.kinds.split(","):
            if name == "trainer":
                wrong += compare_trainers(args.program, Path(folder), args.seed)
                continue
            for kind in KINDS[name](Path(folder), args.vocab_size):
                wrong += compare(args, kind, texts, strings)
    return int(wrong > 0)


if __name__ == "__main__":
    in_rival_venv(main)
