#!/usr/bin/env python3
"""Writes well-formed inputs for the fuzz programs: OUT/fuzz_<name>/*.

usage: tests/fuzz/make_seeds.py OUT

From nothing but random bytes a fuzzer does not find its way past a magic number in any sensible
time, and all it would ever test is the first check. tools/fuzz.sh calls this.
"""

import json
import struct
import sys
from pathlib import Path

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "data"

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
    for file in sorted(GOLDEN.glob("*/config.json")):
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


def main():
    out = Path(sys.argv[1])
    for seeds in (config, hf_config, indexed_dataset, safetensors):
        folder = out / f"fuzz_{seeds.__name__}"
        folder.mkdir(parents=True, exist_ok=True)
        for number, seed in enumerate(seeds()):
            (folder / f"{number:02}").write_bytes(seed)


if __name__ == "__main__":
    main()
