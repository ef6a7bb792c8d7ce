#!/usr/bin/env python3
"""Runs command lines of Megatron-LM through Tessera's check of configurations.

usage: tools/check_megatron_configs.py TESSERA CONFIGS.jsonl [--refused-only] [--jobs N]

Every line of CONFIGS is {"id": ..., "ranks": N, "args": [...]}, where the value PATH stands for some
path. Paths are replaced by small files of the right kind, and ${NAME} by 1. Nothing is trained: the
program stops after --print-config. Prints whether each line is accepted, or why not, and which
reasons are the most frequent. The exit code is 0 if no check crashed.
"""

import argparse
import base64
import collections
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path


def byte_alphabet():
    """GPT-2's letters for the 256 bytes."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in kept]
    return [chr(b) for b in kept] + [chr(256 + i) for i in range(len(rest))]


def varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def piece(text, kind):
    body = b"\x0a" + varint(len(text)) + text + b"\x15" + b"\0\0\0\0" + b"\x18" + varint(kind)
    return b"\x0a" + varint(len(body)) + body


def sentencepiece_model():
    pieces = piece(b"<unk>", 2) + piece(b"<s>", 3) + piece(b"</s>", 3)
    pieces += b"".join(piece(b"<0x%02X>" % b, 6) for b in range(256))
    pieces += b"".join(piece(bytes([b]), 1) for b in range(97, 123)) + piece("\u2581".encode(), 1)
    trainer = b"\x18\x02" + b"\x98\x02\x01"  # model_type bpe, byte_fallback
    return pieces + b"\x12" + varint(len(trainer)) + trainer


def make_files(folder):
    """The files that stand for PATH, by flag."""
    letters = {letter: i for i, letter in enumerate(byte_alphabet())}
    letters["ab"] = 256
    letters["<|endoftext|>"] = 257
    (folder / "vocab.json").write_text(json.dumps(letters))
    (folder / "merges.txt").write_text("#version: 0.2\na b\n")
    texts = ["<|endoftext|>", *(f"<fim_{part}>" for part in ("prefix", "middle", "suffix", "pad"))]
    strips = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    added = [{"id": 257 + i, "content": t, "special": True} | strips for i, t in enumerate(texts)]
    bytes_ = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    model = {"type": "BPE", "vocab": letters, "merges": ["a b"]}
    (folder / "tokenizer.json").write_text(
        json.dumps(
            {"version": "1.0", "added_tokens": added, "normalizer": None, "model": model}
            | {"pre_tokenizer": bytes_, "decoder": bytes_, "post_processor": None}
        )
    )
    (folder / "tokenizer.model").write_bytes(sentencepiece_model())
    rows = [{"rank": i, "token_bytes": base64.b64encode(bytes([i])).decode()} for i in range(256)]
    (folder / "tiktoken.json").write_text(json.dumps([row | {"token_str": ""} for row in rows]))


def tokenizer_file(args):
    kind = args[args.index("--tokenizer-type") + 1] if "--tokenizer-type" in args else ""
    if "SentencePiece" in kind or kind == "Llama2Tokenizer":
        return "tokenizer.model"
    return "tiktoken.json" if kind == "TikTokenizer" else "tokenizer.json"


def with_files(args, folder):
    files = {"--vocab-file": "vocab.json", "--merge-file": "merges.txt"}
    files["--tokenizer-model"] = tokenizer_file(args)
    made = []
    flag = None
    for word in args:
        flag = word if word.startswith("--") else flag
        word = re.sub(r"\$\{\w+\}", "1", word)
        made.append(str(folder / files.get(flag, "path")) if word == "PATH" else word)
    return made


def torchrun(config):
    """The environment of rank 0 under a launcher."""
    ranks = str(config["ranks"])
    return {"RANK": "0", "WORLD_SIZE": ranks, "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": ranks} | {
        "MASTER_ADDR": "localhost", "MASTER_PORT": "29500", "TORCHELASTIC_RUN_ID": "check"
    }


def check(program, config, folder):
    args = with_files(config["args"], folder)
    command = [program, "train", *args, "--print-config"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, env=os.environ | torchrun(config)
    )
    if done.returncode == 0:
        return []
    if done.returncode != 2:
        sys.exit(f"{config['id']}: exit code {done.returncode}\n{done.stderr}")
    lines = [line[4:] for line in done.stderr.splitlines() if line.startswith("  - ")]
    only = done.stderr.strip().splitlines()[-1].removeprefix("tessera: ").removeprefix("rank 0: ")
    return lines or [only]


def reason_kind(problem):
    """The flag of a problem, or its first words: what many configurations share."""
    return re.sub(r"\d+", "N", problem)[:110]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("configs")
    parser.add_argument("--refused-only", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    configs = [json.loads(line) for line in Path(options.configs).read_text().splitlines() if line]
    with tempfile.TemporaryDirectory() as folder:
        make_files(Path(folder))
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            results = list(
                pool.map(lambda c: check(options.program, c, Path(folder)), configs)
            )
    reasons = collections.Counter()
    for config, problems in zip(configs, results):
        if problems or not options.refused_only:
            print(f"{config['id']}: {'refused' if problems else 'accepted'}")
        for problem in problems:
            print(f"  - {problem}")
        reasons.update({reason_kind(problem) for problem in problems})
    print(f"\naccepted: {results.count([])} of {len(results)}")
    for reason, count in reasons.most_common():
        print(f"{count:5}  {reason}")


if __name__ == "__main__":
    main()
