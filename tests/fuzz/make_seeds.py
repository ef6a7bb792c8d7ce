#!/usr/bin/env python3
"""Writes well-formed inputs for the fuzz programs: OUT/fuzz_<name>/*.

usage: tests/fuzz/make_seeds.py OUT

From nothing but random bytes a fuzzer does not find its way past a magic number in any sensible
time, and all it would ever test is the first check. tools/fuzz.sh calls this.
"""

import base64
import gzip
import json
import struct
import sys
from pathlib import Path

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "data"
FAMILIES = Path(__file__).resolve().parent.parent / "checkpoint" / "data"
TOKENIZERS = Path(__file__).resolve().parent.parent / "tokenizer" / "golden"

YAML = b"""# a run
num-layers: 4
hidden-size: 64
num-attention-heads: 4
seq-length: 32
max-position-embeddings: 32
micro-batch-size: 2
global-batch-size: 8
train-iters: 10
lr: 1.5e-4
bf16: true
data-path: [0.3, "a b", 0.7, 'c']
split: 90,5,5
"""

ARGUMENTS = b"""--num-layers
4
--hidden-size=64
--num-attention-heads
4
--seq-length
32
--max-position-embeddings
32
--tensor-model-parallel-size
2
--sequence-parallel
--micro-batch-size
2
--train-iters
10
--lr
1e-3
--mock-data
"""


def config():
    """The first byte chooses: under 128 a YAML file follows, from 128 on arguments, one a line."""
    yield b"\x00" + YAML
    for command in range(6):
        yield bytes([128 + command]) + ARGUMENTS


def hf_config():
    for folder in (GOLDEN, FAMILIES):
        for file in sorted(folder.glob("*/config.json")):
            yield file.read_bytes()


def indexed_dataset():
    """A byte for the size of the .bin file, then an .idx file with three sequences."""
    lengths = [3, 1, 4]
    for code, width in ((1, 1), (3, 2), (4, 4), (8, 2)):
        pointers = [width * sum(lengths[:i]) for i in range(len(lengths))]
        documents = [0, 2, 3]
        header = struct.pack("<9sQBQQ", b"MMIDIDX\0\0", 1, code, len(lengths), len(documents))
        tables = struct.pack("<3i3q3q", *lengths, *pointers, *documents)
        yield bytes([width * sum(lengths)]) + header + tables


def index():
    """model.safetensors.index.json."""
    for file in sorted(GOLDEN.glob("*/model.safetensors.index.json")):
        yield file.read_bytes()
    yield b'{"metadata":{},"weight_map":{"a":"x.safetensors","b":"y.safetensors"}}'


def zstd_frame(text):
    """One frame of one block that is stored as it is: up to 255 bytes."""
    header = b"\x28\xb5\x2f\xfd\x20" + bytes([len(text)])
    return header + (len(text) << 3 | 1).to_bytes(3, "little") + text


def chat():
    """A byte that says what it is (0 a line of a conversation, 1 a chat template), and it."""
    yield b'\x00{"messages": [{"role": "user", "content": "a<|endoftext|>"}, {"role": "assistant", "content": "b"}]}'
    yield b'\x00{"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b", "weight": 1}]}'
    yield b'\x01{"special_tokens": ["<|endoftext|>"], "begin": " ", "trim": true, "roles": ' \
          b'{"user": {"prefix": "u", "suffix": "\\n"}, "assistant": {"prefix": "", "suffix": "<|endoftext|>"}}}'


def jsonl():
    """A byte that says how the text is stored (0 plain, 1 gzip, 2 zstd; +4: short lines only), and it."""
    texts = [b'{"text": "a", "n": [1, -2.5e3, true, null]}\n\n{"text": ["b", "\\u00e9"], "title": "t"}\r\n',
             b'\xef\xbb\xbf{"text": "\xc3\xa9\xf0\x9f\x98\x80", "title": ["x"]}', b'{"a": {"b": [[]]}}\n[]\n5\n"x"\n{}\n']
    for text in texts:
        yield b"\x00" + text
        yield b"\x04" + text
        yield b"\x01" + gzip.compress(text, mtime=0)
        yield b"\x01" + gzip.compress(text[:20], mtime=0) + gzip.compress(text[20:], mtime=0)
        yield b"\x02" + zstd_frame(text)
        yield b"\x02" + zstd_frame(text[:20]) + zstd_frame(text[20:])


# The checksum of a file whose blocks have the checksum 0: by the number of blocks.
DIGESTS = ["99aa06d3014798d86001c324468d497f", "10dc5f6521479318b457ce9221e6cef4",
           "804be8967cec181db6c607d050f335c2"]


def manifest():
    """A checkpoint's manifest without the brace and the checksum that it begins with."""
    for blocks, slices in ((1, 1), (1, 2), (2, 2)):
        size = (blocks - 1) * 4194304 + 4096
        width = 6 // slices
        tensors = {
            name: {"dtype": dtype, "shape": [4, 6], "slices": [
                {"file": 0, "at": 64 + 96 * i, "offset": [0, width * i], "extent": [4, width]}
                for i in range(slices)]}
            for name, dtype in (("x.weight", "F32"), ("exp_avg.x.weight", "BF16"))}
        files = [
            {"name": "model-00000.safetensors", "bytes": size, "digest": DIGESTS[blocks],
             "blocks": "0" * 32 * blocks},
            {"name": "config.yaml", "bytes": 0, "digest": DIGESTS[0], "blocks": ""}]
        body = {"format": "tessera-checkpoint", "version": 1, "block_bytes": 4194304,
                "iteration": 7, "state": {"consumed_samples": 3}, "layout": {"ranks": 2},
                "files": files, "tensors": tensors}
        yield json.dumps(body).encode()[1:]


def safetensors():
    sizes = {"F64": 8, "F32": 4, "BF16": 2, "F16": 2, "I64": 8, "U8": 1, "BOOL": 1}
    for dtype, size in sizes.items():
        first, end = 6 * size, 8 * size
        entries = {
            "__metadata__": {"format": "pt"},
            "a": {"dtype": dtype, "shape": [2, 3], "data_offsets": [0, first]},
            "b": {"dtype": dtype, "shape": [2], "data_offsets": [first, end]},
        }
        header = json.dumps(entries).encode()
        header += b" " * (-len(header) % 8)
        yield struct.pack("<Q", len(header)) + header + bytes(end)


def sentencepiece():
    for file in sorted(TOKENIZERS.glob("*/tokenizer.model")):
        yield file.read_bytes()


def tokenizer_json():
    for file in sorted(TOKENIZERS.glob("*/tokenizer.json")):
        yield file.read_bytes()


def byte_names():
    """How GPT-2's files write the bytes: those that cannot be seen have names from U+0100 on."""
    seen = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    names = {byte: chr(byte) for byte in seen}
    for byte in range(256):
        names.setdefault(byte, chr(0x100 + byte - sum(b < byte for b in seen)))
    return [names[byte] for byte in range(256)]


TOKENS = [bytes([byte]) for byte in range(256)] + [b"in", b" t", b"he", b" the", b"ing", b"\n\n"]


def gpt2_files():
    """vocab.json, a zero byte, and merges.txt."""
    names = byte_names()
    tokens = ["".join(names[byte] for byte in token) for token in TOKENS] + ["<|endoftext|>"]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    merges = "#version: 0.2\ni n\n\u0120 t\nh e\n\u0120t he\nin g\r\n\u010a \u010a"
    yield json.dumps(vocabulary, separators=(",", ":")).encode() + b"\0" + merges.encode()
    yield json.dumps(vocabulary, ensure_ascii=False).encode() + b"\0i n"


def bert_files():
    """vocab.txt."""
    for name in ("bert_lowercase", "bert_cased"):
        yield (TOKENIZERS / name / "vocab.txt").read_bytes()
    yield b"[UNK]\r\n[CLS]\r\n[SEP]\r\na\r\n##b"


def tiktoken():
    """A byte that says what it is (bit 0: lines or Megatron's list; the rest: which pattern), and it."""
    coded = [base64.b64encode(token).decode() for token in TOKENS]
    lines = "".join(f"{token} {rank}\n" for rank, token in enumerate(coded))
    entries = [{"rank": rank, "token_bytes": token, "token_str": ""} for rank, token in enumerate(coded)]
    for pattern in range(5):
        yield bytes([2 * pattern]) + lines.encode()
        yield bytes([2 * pattern + 1]) + json.dumps(entries, separators=(",", ":")).encode()


def blend():
    """Files of --data-args-path and, after a byte above 127, of --per-split-data-args-path."""
    yield b"\x00a b c"
    yield b"\x000.3 a\n0.7 b\n"
    yield b'\x80{"train": ["0.5", "a", 1.5, "b"], "valid": ["c", "d"], "test": null}'


def main():
    out = Path(sys.argv[1])
    for seeds in (bert_files, blend, chat, config, gpt2_files, hf_config, index, indexed_dataset, jsonl, manifest,
                  safetensors, sentencepiece, tiktoken, tokenizer_json):
        folder = out / f"fuzz_{seeds.__name__}"
        folder.mkdir(parents=True, exist_ok=True)
        for number, seed in enumerate(seeds()):
            (folder / f"{number:02}").write_bytes(seed)


if __name__ == "__main__":
    main()
