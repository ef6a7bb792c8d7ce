#!/usr/bin/env python3
"""Trains the same GPT-2 with Tessera and with PyTorch, and compares the two loss curves step by step.

  tools/compare_curve.py --preset tiny --text BOOK.txt ...                  (CPU, half a minute)
  tools/compare_curve.py --device cuda --dtype bf16 --steps 300 --micro-batch 16 --data PREFIX

Needs torch, numpy and safetensors. Both start from the same weights (Tessera's --dump-step writes them) and read the
same batches in the same order (PREFIX.bin and .idx, and Tessera's sample indices of --data-cache-path). Both use AdamW
without decay of biases and norms, clipping to norm 1, and warm-up with cosine decay. With bf16 PyTorch computes under
autocast, with weights in f32; Tessera keeps weights in f32 beside those in bf16.

Training multiplies rounding errors, so two right programs drift apart too. --noise shows how far: PyTorch trains once
more, in f32 and with the samples of each microbatch in reverse order. What is between its two curves is rounding alone.

Exit code 1 if the losses of a step differ by more than --tolerance, relative to the loss.
"""
import argparse
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from torch.nn import functional

ROOT = Path(__file__).resolve().parent.parent
PRESETS = {
    "gpt2-124m": {"layers": 12, "hidden": 768, "heads": 12, "seq": 1024, "rows": 50304},
    "tiny": {"layers": 2, "hidden": 64, "heads": 2, "seq": 64, "rows": 512},
}
# Wide, since small differences grow in hundreds of steps; a program that computes something else is far outside.
# In bf16 a steep step (half a nat) has been seen 1.4 % apart, with both curves together again one step later.
TOLERANCE = {"f32": 1e-3, "bf16": 3e-2}
BETAS, EPSILON, DECAY, CLIP = (0.9, 0.95), 1e-8, 0.1, 1.0
TOKEN_TYPES = {1: np.uint8, 2: np.int8, 3: np.int16, 4: np.int32, 5: np.int64, 8: np.uint16}  # Megatron's codes


def fail(message):
    raise SystemExit(f"compare_curve: {message}")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = parser.add_mutually_exclusive_group(required=True)
    data.add_argument("--data", metavar="PREFIX", help="tokens as `tessera preprocess` writes them: PREFIX.bin, .idx")
    data.add_argument("--text", metavar="FILE", nargs="+", help="text to train on: .txt files, or JSON lines")
    parser.add_argument("--preset", choices=PRESETS, default="gpt2-124m", help="size of the model [gpt2-124m]")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="for both of them [cpu]")
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="f32", help="what they compute in [f32]")
    parser.add_argument("--steps", metavar="N", type=int, default=100, help="optimizer steps [100]")
    parser.add_argument("--micro-batch", metavar="N", type=int, default=4, help="samples computed at once [4]")
    parser.add_argument("--accumulate", metavar="N", type=int, default=1, help="microbatches of a step [1]")
    parser.add_argument("--lr", metavar="X", type=float, default=6e-4, help="learning rate after warm-up [6e-4]")
    parser.add_argument("--warmup", metavar="N", type=int, default=10, help="steps of linear warm-up from 0 [10]")
    parser.add_argument("--seed", metavar="N", type=int, default=1234, help="of weights and data order [1234]")
    parser.add_argument("--tolerance", metavar="X", type=float, help="largest relative difference [1e-3; bf16 3e-2]")
    parser.add_argument("--every", metavar="N", type=int, default=20, help="steps between lines of the table [20]")
    parser.add_argument("--noise", action="store_true", help="also compare PyTorch with itself, rounded otherwise")
    parser.add_argument("--output", metavar="FILE", help="write both curves there as CSV")
    parser.add_argument("--tessera", metavar="PROGRAM", help="the program [build/DEVICE/apps/tessera]")
    options = parser.parse_args()
    for name in ("steps", "micro_batch", "accumulate", "every"):
        if getattr(options, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1")
    if not 0 <= options.warmup < options.steps:
        parser.error("--warmup must be less than --steps")
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: this PyTorch sees no GPU")
    options.tessera = options.tessera or str(ROOT / "build" / options.device / "apps" / "tessera")
    options.tolerance = TOLERANCE[options.dtype] if options.tolerance is None else options.tolerance
    return options


def run_tessera(options, *arguments):
    try:
        done = subprocess.run([options.tessera, *map(str, arguments)], capture_output=True, text=True, check=False)
    except OSError as error:
        fail(f"cannot run Tessera: {error}. Build it, or say where it is with --tessera PROGRAM")
    if done.returncode != 0:
        fail(f"`tessera {arguments[0]}` ended with exit code {done.returncode}:\n{done.stderr[-3000:]}")


def train_tessera(options, prefix, folder):
    """Runs the training; returns the entries of its metrics file, one a step."""
    model = PRESETS[options.preset]
    run_tessera(
        options, "train", "--device", options.device, "--params-dtype", options.dtype, "--data-path", prefix,
        "--split", "1,0,0", "--data-cache-path", folder / "indices", "--seed", options.seed,
        "--num-layers", model["layers"], "--hidden-size", model["hidden"], "--num-attention-heads", model["heads"],
        "--seq-length", model["seq"], "--padded-vocab-size", model["rows"],
        "--attention-dropout", 0, "--hidden-dropout", 0,
        "--micro-batch-size", options.micro_batch, "--global-batch-size", options.micro_batch * options.accumulate,
        "--train-iters", options.steps, "--eval-iters", 0,
        "--lr", options.lr, "--min-lr", options.lr / 10, "--lr-decay-style", "cosine",
        "--lr-warmup-iters", options.warmup, "--weight-decay", DECAY, "--clip-grad", CLIP,
        "--adam-beta1", BETAS[0], "--adam-beta2", BETAS[1], "--adam-eps", EPSILON,
        "--dump-step", folder / "first", "--metrics-file", folder / "metrics.jsonl",
    )  # fmt: skip
    steps = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    if [step["iteration"] for step in steps] != list(range(1, options.steps + 1)):
        fail(f"expected the metrics of {options.steps} steps, got {len(steps)}")
    return steps


class Samples:
    """The samples of a run, in its order: tokens [seq + 1], the last of which is only a label."""

    def __init__(self, prefix, indices, seq):
        index = Path(prefix + ".idx").read_bytes()
        if index[:9] != b"MMIDIDX\0\0" or index[17] not in TOKEN_TYPES:
            fail(f"{prefix}.idx is no index of tokens as `tessera preprocess` writes it")
        self.tokens = np.memmap(prefix + ".bin", dtype=TOKEN_TYPES[index[17]], mode="r")
        count = int(np.frombuffer(index, np.int64, 1, 18)[0])
        self.lengths = np.frombuffer(index, np.int32, count, 34)
        self.starts = np.frombuffer(index, np.int64, count, 34 + 4 * count) // self.tokens.itemsize
        self.documents, self.samples, self.shuffle = (
            np.load(next(indices.glob(f"*-{name}_index.npy"))) for name in ("document", "sample", "shuffle")
        )
        self.seq = seq

    def __getitem__(self, number):
        document, offset = self.samples[self.shuffle[number]]
        parts, missing = [], self.seq + 1
        while missing > 0:
            sequence = self.documents[document]
            length = min(self.lengths[sequence] - offset, missing)
            begin = self.starts[sequence] + offset
            parts.append(self.tokens[begin : begin + length])
            document, offset, missing = document + 1, 0, missing - length
        return np.concatenate(parts).astype(np.int64)

    def batch(self, first, count, order=1):
        return torch.from_numpy(np.stack([self[first + i] for i in range(count)][::order]))


class Gpt2:
    """GPT-2 as functions of a dictionary of weights with Hugging Face's names; matrices are [in, out]."""

    def __init__(self, weights, layers, heads):
        self.weights = {name.removeprefix("transformer."): weight for name, weight in weights.items()}
        self.layers, self.heads = layers, heads

    def linear(self, x, name):
        return functional.linear(x, self.weights[f"{name}.weight"].t(), self.weights[f"{name}.bias"])

    def norm(self, x, name):
        return functional.layer_norm(x, x.shape[-1:], self.weights[f"{name}.weight"], self.weights[f"{name}.bias"])

    def attention(self, x, name):
        batch, seq, hidden = x.shape
        q, k, v = (
            part.view(batch, seq, self.heads, -1).transpose(1, 2)
            for part in self.linear(x, f"{name}.c_attn").split(hidden, dim=-1)
        )
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.linear(y.transpose(1, 2).reshape(batch, seq, hidden), f"{name}.c_proj")

    def mlp(self, x, name):
        return self.linear(functional.gelu(self.linear(x, f"{name}.c_fc"), approximate="tanh"), f"{name}.c_proj")

    def loss(self, tokens, labels):
        x = functional.embedding(tokens, self.weights["wte.weight"]) + self.weights["wpe.weight"][: tokens.shape[1]]
        for i in range(self.layers):
            x = x + self.attention(self.norm(x, f"h.{i}.ln_1"), f"h.{i}.attn")
            x = x + self.mlp(self.norm(x, f"h.{i}.ln_2"), f"h.{i}.mlp")
        logits = functional.linear(self.norm(x, "ln_f"), self.weights["wte.weight"])
        return functional.cross_entropy(logits.float().flatten(0, 1), labels.flatten())


def learning_rate(options, step):
    """Megatron's warm-up and cosine, as a function of the steps before this one."""
    if options.warmup > 0 and step <= options.warmup:
        return options.lr * step / options.warmup
    ratio = (step - options.warmup) / (options.steps - options.warmup)
    least = options.lr / 10
    return least + 0.5 * (math.cos(math.pi * ratio) + 1) * (options.lr - least)


def check_first_batch(samples, folder, count):
    """Whether the batch read here is the one that Tessera trained on."""
    dumped = load_file(folder / "batch.safetensors")
    batch = samples.batch(0, count)
    if not (torch.equal(batch[:, :-1], dumped["tokens"].long()) and torch.equal(batch[:, 1:], dumped["labels"].long())):
        fail("the samples read here are not those of Tessera's first batch")


def train_torch(options, samples, folder, dtype, order=1):
    """The same training in PyTorch; returns the loss of every step. An order of -1 reverses each microbatch."""
    model = PRESETS[options.preset]
    weights = {
        name: weight.to(options.device, torch.float32).requires_grad_()
        for name, weight in load_file(folder / "initial" / "model.safetensors").items()
    }
    network = Gpt2(weights, model["layers"], model["heads"])
    groups = [
        {"params": [w for w in weights.values() if w.dim() >= 2], "weight_decay": DECAY},
        {"params": [w for w in weights.values() if w.dim() < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=options.lr, betas=BETAS, eps=EPSILON)
    narrow = torch.autocast(options.device, torch.bfloat16, enabled=dtype == "bf16")
    losses = torch.zeros(options.steps, device=options.device)
    for step in range(options.steps):
        if sys.stderr.isatty():
            print(f"\rPyTorch: step {step + 1}/{options.steps}\r", end="", file=sys.stderr, flush=True)
        for part in range(options.accumulate):
            first = (step * options.accumulate + part) * options.micro_batch
            batch = samples.batch(first, options.micro_batch, order).to(options.device)
            with narrow:
                loss = network.loss(batch[:, :-1], batch[:, 1:]) / options.accumulate
            loss.backward()
            losses[step] += loss.detach()
        torch.nn.utils.clip_grad_norm_(weights.values(), CLIP)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(options, step)
        optimizer.step()
        optimizer.zero_grad()
    return losses.tolist()


def check_rates(options, steps):
    for i, step in enumerate(steps):
        if not math.isclose(step["learning_rate"], learning_rate(options, i), rel_tol=1e-9, abs_tol=1e-15):
            fail(f"step {i + 1} had the learning rate {step['learning_rate']}, expected {learning_rate(options, i)}")


def differences(ours, theirs):
    """Absolute and relative, and their summary."""
    absolute = np.abs(np.subtract(ours, theirs))
    relative = absolute / np.abs(theirs)
    lines = []
    for name, values in (("absolute", absolute), ("relative", relative)):
        worst = int(np.argmax(np.nan_to_num(values, nan=np.inf)))
        lines.append(f"largest {name} difference {values[worst]:.2e} at step {worst + 1}, mean {np.mean(values):.2e}")
    return relative, "\n".join(lines)


def report(options, ours, theirs, again):
    """Prints the table and says whether the curves agree."""
    print("   step    tessera    pytorch  difference" + ("  of pytorch from itself" if again else ""))
    for i, (a, b) in enumerate(zip(ours, theirs)):
        if i == 0 or (i + 1) % options.every == 0 or i + 1 == options.steps:
            print(f"{i + 1:7d} {a:10.6f} {b:10.6f}  {a - b:+10.2e}" + (f"  {again[i] - b:+22.2e}" if again else ""))
    relative, summary = differences(ours, theirs)
    print(summary)
    if again:
        print("PyTorch from itself, in f32 and summed in another order:\n" + differences(again, theirs)[1])
    good = bool(np.all(relative <= options.tolerance))
    print(f"{'agree' if good else 'DIFFER'} (tolerance {options.tolerance:.0e}, relative)")
    return good


def write_curves(path, curves):
    rows = zip(*curves.values())
    lines = [",".join([str(i + 1), *(repr(loss) for loss in row)]) + "\n" for i, row in enumerate(rows)]
    Path(path).write_text(",".join(["step", *curves]) + "\n" + "".join(lines))


def main():
    options = parse_arguments()
    with tempfile.TemporaryDirectory(prefix="compare_curve-") as name:
        folder = Path(name)
        prefix = options.data
        if options.text:
            output = folder / "text"
            run_tessera(options, "preprocess", "--append-eod", "--output-prefix", output, "--input", *options.text)
            prefix = str(folder / "text_text_document")
        steps = train_tessera(options, prefix, folder)
        check_rates(options, steps)
        samples = Samples(prefix, folder / "indices", PRESETS[options.preset]["seq"])
        check_first_batch(samples, folder / "first", options.micro_batch * options.accumulate)
        theirs = train_torch(options, samples, folder / "first", options.dtype)
        again = train_torch(options, samples, folder / "first", "f32", order=-1) if options.noise else None
    ours = [step["lm_loss"] for step in steps]  # Tessera stops at a loss that is not finite
    if options.output:
        curves = {"tessera": ours, "pytorch": theirs}
        write_curves(options.output, curves | ({"pytorch_again": again} if again else {}))
    sys.exit(0 if report(options, ours, theirs, again) else 1)


if __name__ == "__main__":
    main()
