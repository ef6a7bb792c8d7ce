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


def index():
    """model.safetensors.index.json."""
    for file in sorted(GOLDEN.glob("*/model.safetensors.index.json")):
        yield file.read_bytes()
    yield b'{"metadata":{},"weight_map":{"a":"x.safetensors","b":"y.safetensors"}}'


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


def main():
    out = Path(sys.argv[1])
    for seeds in (config, hf_config, index, indexed_dataset, manifest, safetensors):
        folder = out / f"fuzz_{seeds.__name__}"
        folder.mkdir(parents=True, exist_ok=True)
        for number, seed in enumerate(seeds()):
            (folder / f"{number:02}").write_bytes(seed)


if __name__ == "__main__":
    main()
