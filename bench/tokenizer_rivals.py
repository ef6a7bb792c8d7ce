#!/usr/bin/env python3
"""Measures Tessera's tokenizers against Hugging Face tokenizers and tiktoken, on one core each.

usage: bench/tokenizer_rivals.py [--quick] [--texts code,prose,languages] [--rounds R] [--vocab-size N]

For each text and pattern, `tessera train-tokenizer` makes a vocabulary of its documents. All sides
read it from the same file and encode the same documents, in turns, on the same core. Each round has
documents that no side has seen before, so that caches hold what they would in a long run. The
tokens must be the same. The rivals come from PyPI, into an environment of their own
(tools/rival_venv.py). README.md says how to read the table.
"""

import argparse
import base64
import contextlib
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

from rival_venv import in_rival_venv  # noqa: E402
from texts import TEXTS  # noqa: E402

# The name of a pattern for train-tokenizer, and that of the same one for tiktoken's files.
PATTERNS = {"gpt2": "gpt2", "llama3": "cl100k"}


def bytes_of(token):
    """From GPT-2's alphabet of bytes."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    table = {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(others)}
    return bytes(table[c] for c in token)


def write_tiktoken_file(tokenizer_json, path):
    """The same merges by rank; the special token comes last there. Returns the ranks."""
    vocabulary = json.loads(tokenizer_json.read_text())["model"]["vocab"]
    tokens = [token for token, _ in sorted(vocabulary.items(), key=lambda item: item[1])][1:]
    ranks = {bytes_of(token): rank for rank, token in enumerate(tokens)}
    lines = (f"{base64.b64encode(token).decode()} {rank}\n" for token, rank in ranks.items())
    path.write_text("".join(lines))
    return ranks


class Tessera:
    def __init__(self, program, flags):
        self.process = subprocess.Popen(
            [program, *flags], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def encode(self, file, _):
        self.process.stdin.write(f"{file}\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        return answer["seconds"], answer["tokens"], answer["sum"]

    def stop(self):
        self.process.stdin.close()
        self.process.wait()


class Rival:
    """`encode_all` gives something for each document, and `tokens_of` makes a list of it."""

    def __init__(self, encode_all, tokens_of):
        self.encode_all, self.tokens_of = encode_all, tokens_of

    def encode(self, _, documents):
        start = time.perf_counter()
        made = self.encode_all(documents)
        seconds = time.perf_counter() - start
        tokens = [self.tokens_of(each) for each in made]
        return seconds, sum(map(len, tokens)), sum(map(sum, tokens))


def hugging_face(path):
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(path))
    return Rival(
        lambda texts: tokenizer.encode_batch_fast(texts, add_special_tokens=False),
        lambda encoding: encoding.ids,
    )


def tiktoken_rival(ranks, pattern):
    import tiktoken
    import tiktoken_ext.openai_public as openai

    # The ranks of the published ones would be fetched; only their patterns are wanted.
    openai.load_tiktoken_bpe = lambda *_, **__: {}
    patterns = {"gpt2": openai.r50k_pat_str, "cl100k": openai.cl100k_base()["pat_str"]}
    encoding = tiktoken.Encoding(
        pattern, pat_str=patterns[pattern], mergeable_ranks=ranks,
        special_tokens={"<|endoftext|>": len(ranks)},
    )
    return Rival(lambda texts: [encoding.encode_ordinary(t) for t in texts], lambda tokens: tokens)


def train(args, folder, documents, pattern):
    text = folder / "text.jsonl"
    text.write_text("".join(json.dumps({"text": t}) + "\n" for t in documents))
    model = folder / f"{pattern}.json"
    command = [args.build / "apps" / "tessera", "train-tokenizer", "--input", text]
    command += ["--vocab-size", str(args.vocab_size), "--pattern", pattern, "--output", model, "--overwrite"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return model


def pairs(args, folder, documents, pattern):
    """(rival's name, its tokenizer, Tessera's flags for the same)"""
    model = train(args, folder, documents, pattern)
    ranks_file = folder / f"{pattern}.tiktoken"
    name = PATTERNS[pattern]
    ranks = write_tiktoken_file(model, ranks_file)
    flags = ["--tokenizer-type", "HuggingFaceTokenizer", "--tokenizer-model", str(model)]
    yield "tokenizers", hugging_face(model), flags
    flags = ["--tokenizer-type", "TikTokenizer", "--tokenizer-model", str(ranks_file)]
    yield "tiktoken", tiktoken_rival(ranks, name), [*flags, "--tiktoken-pattern", name]


def compete(args, folder, parts, rival, flags):
    """Megabytes per second of each round, for both sides."""
    rates = {"tessera": [], "rival": []}
    with contextlib.ExitStack() as stack:
        tessera = Tessera(args.build / "bench" / "bench_tokenizer", flags)
        stack.callback(tessera.stop)
        for number, documents in enumerate(parts):
            file = folder / "part.jsonl"
            file.write_text("".join(json.dumps(t) + "\n" for t in documents))
            sides = [("tessera", tessera), ("rival", rival)]
            results = {n: side.encode(file, documents) for n, side in sides[:: 1 - 2 * (number % 2)]}
            if results["tessera"][1:] != results["rival"][1:]:
                sys.exit(f"bench/tokenizer_rivals.py: the tokens differ: {results}")
            size = sum(len(t.encode()) for t in documents) / 1e6
            if number > 0:  # the first round only warms up
                for name, result in results.items():
                    rates[name].append(size / result[0])
    return rates


def split(documents, rounds):
    """One part more than there are rounds, of about the same size."""
    documents = documents[:]
    random.Random(1).shuffle(documents)
    return [documents[i :: rounds + 1] for i in range(rounds + 1)]


def measure(args, folder, text):
    documents = TEXTS[text]()
    if args.quick:
        documents = documents[:: max(1, len(documents) // 200)]
    size = sum(len(t.encode()) for t in documents) / 1e6
    if size < 0.1:
        return print(f"| {text} | not enough of it on this machine |", flush=True)
    for pattern in PATTERNS:
        for name, rival, flags in pairs(args, folder, documents, pattern):
            rates = compete(args, folder, split(documents, args.rounds), rival, flags)
            ratios = [t / r for t, r in zip(rates["tessera"], rates["rival"])]
            ours, theirs = (statistics.median(rates[side]) for side in ("tessera", "rival"))
            print(
                f"| {text}, {size:.1f} MB | {pattern} | {name} | {ours:.1f} | {theirs:.1f} | "
                f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) |",
                flush=True,
            )


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--quick", action="store_true", help="200 documents of each text, to see that all works")
    add("--texts", default=",".join(TEXTS), help="which of " + ", ".join(TEXTS))
    add("--rounds", type=int, default=5)
    add("--vocab-size", type=int, default=32000)
    add("--build", type=Path, default=ROOT / "build" / "cpu", help="where the programs were built")
    args = parser.parse_args()
    args.texts = args.texts.split(",")
    if not set(args.texts) <= set(TEXTS):
        parser.error(f"--texts takes {', '.join(TEXTS)}")
    return args


def main():
    args = parse_args()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    print("| text | pattern | rival | Tessera MB/s | rival MB/s | Tessera / rival |")
    print("|---|---|---|---:|---:|---:|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for text in args.texts:
            measure(args, Path(folder), text)
    return 0


if __name__ == "__main__":
    in_rival_venv(main)
