#!/usr/bin/env python3
"""PyTorch's side of the comparison: the same training step as bench_train_step, and its protocol.

usage: torch_lm.py --config llama-60m --micro-batch-size 4 --threads 2 [--compile] [--device cuda]
                   [--params-dtype bf16] [--nproc 2]

Each line "run N" on standard input runs N steps and answers with one line of JSON; the end of input
ends the program. Written the way a PyTorch user gets the most out of it: fused scaled-dot-product
attention (cuDNN's on a GPU), fused AdamW, gradients set to None, and with --compile, torch.compile.
In float32, or with --params-dtype bf16 under autocast, which keeps the weights in float32. With
--nproc, so many processes under DistributedDataParallel over gloo, each with its share of the
threads and a micro-batch of its own; a step takes as long as in the slowest of them.
"""

import argparse
import ctypes
import datetime
import json
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path

import torch
from torch import distributed as dist
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn import functional as F

CONFIGS = Path(__file__).parent.parent / "configs.json"
INIT_STD = 0.02
NORM_EPS = 1e-5
ROPE_BASE = 500000.0
MIB = 2**20
PATIENCE = datetime.timedelta(days=1)  # others may have the turn for long


def head_size_of(config):
    return config.get("head_size", config["hidden"] // config["heads"])


def flops_per_token(config):
    """3 x the forward matrix products, since backward costs twice the forward. Attention counts
    over the full sequence, the embedding lookup does not count."""
    hidden, heads = config["hidden"], config["heads"]
    head_size = head_size_of(config)
    q, kv = heads * head_size, config["kv_heads"] * head_size
    projections = 2 * hidden * (q + 2 * kv) + 2 * q * hidden
    scores_and_values = 2 * (2 * config["seq"] * q)
    matrices = 3 if config["family"] == "llama" else 2
    mlp = 2 * hidden * config["ffn"] * matrices * config.get("topk", 1)
    mlp += 2 * hidden * config.get("experts", 0)  # the router
    head = 2 * hidden * config["vocab"]
    return 3 * (config["layers"] * (projections + scores_and_values + mlp) + head)


def make_norm(config):
    kind = nn.RMSNorm if config["family"] == "llama" else nn.LayerNorm
    return kind(config["hidden"], eps=NORM_EPS)


def rotary_tables(config):
    """cos and sin of position x frequency, [seq, head_size / 2]."""
    size = head_size_of(config)
    frequencies = ROPE_BASE ** -(torch.arange(0, size, 2).float() / size)
    angles = torch.outer(torch.arange(config["seq"]).float(), frequencies)
    return angles.cos(), angles.sin()


def rotate(x, cos, sin):
    """x [batch, heads, seq, head_size]: its first half against its second."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        bias = config["family"] == "gpt"
        hidden = config["hidden"]
        self.heads, self.kv_heads = config["heads"], config["kv_heads"]
        self.size = head_size_of(config)
        self.qkv = nn.Linear(hidden, (self.heads + 2 * self.kv_heads) * self.size, bias=bias)
        self.out = nn.Linear(self.heads * self.size, hidden, bias=bias)

    def forward(self, x, rotary):
        batch, seq, _ = x.shape
        heads = self.qkv(x).view(batch, seq, -1, self.size).transpose(1, 2)
        q, k, v = heads.split([self.heads, self.kv_heads, self.kv_heads], dim=1)
        if rotary:
            q, k = rotate(q, *rotary), rotate(k, *rotary)
        grouped = self.heads != self.kv_heads
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=grouped)
        return self.out(y.transpose(1, 2).reshape(batch, seq, -1))


class Mlp(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gated = config["family"] == "llama"
        hidden, ffn = config["hidden"], config["ffn"]
        self.up = nn.Linear(hidden, ffn * (2 if self.gated else 1), bias=not self.gated)
        self.down = nn.Linear(ffn, hidden, bias=not self.gated)

    def forward(self, x):
        if self.gated:
            gate, up = self.up(x).chunk(2, dim=-1)
            return self.down(F.silu(gate) * up)
        return self.down(F.gelu(self.up(x), approximate="tanh"))


class Experts(nn.Module):
    """Mixtral's: each token goes to the best experts, with the softmax over these. Tokens are sorted
    by expert, so that each expert multiplies one block of them: on a GPU by grouped products in bf16."""

    def __init__(self, config):
        super().__init__()
        hidden, ffn, experts = config["hidden"], config["ffn"], config["experts"]
        self.experts, self.topk = experts, config["topk"]
        self.router = nn.Linear(hidden, experts, bias=False)
        self.up = nn.Parameter(torch.empty(experts, 2 * ffn, hidden))
        self.down = nn.Parameter(torch.empty(experts, hidden, ffn))

    def expert(self, i, x):
        gate, up = F.linear(x, self.up[i]).chunk(2, dim=-1)
        return F.linear(F.silu(gate) * up, self.down[i])

    def one_by_one(self, rows, chosen):
        counts = chosen.bincount(minlength=self.experts).tolist()
        return torch.cat([self.expert(i, each) for i, each in enumerate(rows.split(counts))])

    def grouped(self, rows, chosen):
        counts = torch.zeros(self.experts, dtype=torch.int32, device=rows.device)
        counts = counts.scatter_add(0, chosen, torch.ones_like(chosen, dtype=torch.int32))
        ends = counts.cumsum(0).to(torch.int32)

        def multiply(x, weight):
            weight = weight.to(torch.bfloat16).transpose(-2, -1)
            return torch._grouped_mm(x.to(torch.bfloat16), weight, offs=ends)

        gate, up = multiply(rows, self.up).chunk(2, dim=-1)
        return multiply(F.silu(gate) * up, self.down)

    def forward(self, x):
        tokens = x.flatten(0, -2)  # [n, hidden]
        best, chosen = self.router(tokens).float().topk(self.topk, dim=-1)
        weights = best.softmax(-1).to(tokens.dtype).flatten()
        order = chosen.flatten().argsort(stable=True)
        multiply = self.grouped if x.is_cuda else self.one_by_one
        y = multiply(tokens[order // self.topk], chosen.flatten())
        y = (y * weights[order, None]).to(tokens.dtype)
        return torch.zeros_like(tokens).index_add(0, order // self.topk, y).view_as(x)


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.norm1, self.attention = make_norm(config), Attention(config)
        self.norm2 = make_norm(config)
        self.mlp = (Experts if "experts" in config else Mlp)(config)

    def forward(self, x, rotary):
        x = x + self.attention(self.norm1(x), rotary)
        return x + self.mlp(self.norm2(x))


class LanguageModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        hidden = config["hidden"]
        self.learned_positions = config["family"] == "gpt"
        self.tokens = nn.Embedding(config["vocab"], hidden)
        if self.learned_positions:
            self.positions = nn.Embedding(config["seq"], hidden)
        else:
            cos, sin = rotary_tables(config)
            self.register_buffer("cos", cos)
            self.register_buffer("sin", sin)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config["layers"]))
        self.norm = make_norm(config)
        self.head = nn.Linear(hidden, config["vocab"], bias=False)
        if config["tied"]:
            self.head.weight = self.tokens.weight
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=INIT_STD)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, tokens, labels):
        """The mean loss; tokens and labels are [batch, seq]."""
        x = self.tokens(tokens)
        if self.learned_positions:
            x = x + self.positions.weight[: tokens.shape[1]]
        rotary = None if self.learned_positions else (self.cos, self.sin)
        for block in self.blocks:
            x = block(x, rotary)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


class Trainer:
    def __init__(self, config, args, rank):
        torch.manual_seed(1234)
        self.on_cuda = args.device == "cuda"
        self.dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[args.params_dtype]
        self.ranks = args.nproc
        self.model = LanguageModel(config).to(args.device)
        if not self.model.learned_positions:  # autocast leaves buffers alone
            self.model.cos, self.model.sin = (t.to(self.dtype) for t in (self.model.cos, self.model.sin))
        self.forward = self.model
        if self.ranks > 1:
            self.forward = nn.parallel.DistributedDataParallel(
                self.model, gradient_as_bucket_view=True
            )
        if args.compile:
            self.forward = torch.compile(self.forward)
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=3e-4, weight_decay=0.1, fused=True
        )
        # One batch of random tokens, each predicting the next, serves all steps.
        if rank > 0:
            torch.manual_seed(1234 + rank)
        shape = (args.micro_batch_size, config["seq"] + 1)
        tokens = torch.randint(config["vocab"], shape, device=args.device)
        self.tokens, self.labels = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()

    def step(self):
        kernels = sdpa_kernel(SDPBackend.CUDNN_ATTENTION) if self.cudnn_attention else nullcontext()
        narrow = self.dtype != torch.float32
        with torch.autocast("cuda" if self.on_cuda else "cpu", self.dtype, enabled=narrow), kernels:
            loss = self.forward(self.tokens, self.labels)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss

    @property
    def cudnn_attention(self):
        return self.on_cuda and self.dtype != torch.float32

    def run(self, steps):
        milliseconds = []
        at_once = steps if self.on_cuda else 1  # a GPU is not asked for each step's end
        for _ in range(0, steps, at_once):
            start = time.perf_counter()
            for _ in range(at_once):
                loss = self.step()
            if self.on_cuda:
                torch.cuda.synchronize()
            milliseconds += [1e3 * (time.perf_counter() - start) / at_once] * at_once
        usage = resource.getrusage(resource.RUSAGE_SELF)
        reply = {
            "ms": self.reduced(milliseconds, dist.ReduceOp.MAX),
            "loss": self.reduced([loss.item()], dist.ReduceOp.SUM)[0] / self.ranks,
            "peak_rss_mib": self.reduced([usage.ru_maxrss / 1024], dist.ReduceOp.SUM)[0],
        }
        if self.on_cuda:
            reply["peak_device_mib"] = torch.cuda.max_memory_allocated() / MIB
        return reply

    def reduced(self, values, op):
        """Over all ranks."""
        if self.ranks == 1:
            return values
        tensor = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(tensor, op)
        return tensor.tolist()


def parse_args(configs):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", required=True, choices=configs)
    parser.add_argument("--micro-batch-size", type=int, default=4)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--params-dtype", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--nproc", type=int, default=1)
    args = parser.parse_args()
    if args.nproc < 1 or (args.nproc > 1 and args.device != "cpu"):
        parser.error("--nproc must be 1 or more, and 1 on a GPU")
    return args


def steps_of(line):
    words = line.split()
    if len(words) != 2 or words[0] != "run" or not words[1].isdigit() or int(words[1]) < 1:
        sys.exit(f"torch_lm.py: expected a line 'run N' on standard input, got {line!r}")
    return int(words[1])


def requests(rank, ranks):
    """How many steps are asked for, time and again. Rank 0 reads it, the others hear it from it."""
    while True:
        line = sys.stdin.readline() if rank == 0 else ""
        steps = torch.tensor([steps_of(line) if line else 0])
        if ranks > 1:
            dist.broadcast(steps, 0)
        if steps.item() == 0:
            return
        yield steps.item()


def about(args, config):
    mode = "compiled" if args.compile else "eager"
    threads = f"{torch.get_num_threads()} thread(s)"
    if args.nproc > 1:
        threads = f"DDP with {args.nproc} processes of {threads}"
    return {
        "about": f"PyTorch {torch.__version__}, {mode}, {threads}",
        "tokens_per_step": args.nproc * args.micro_batch_size * config["seq"],
        "flops_per_token": flops_per_token(config),
    }


def serve(rank, args, config):
    torch.set_num_threads(max(1, args.threads // args.nproc))
    trainer = Trainer(config, args, rank)
    for steps in requests(rank, args.nproc):
        reply = trainer.run(steps) | about(args, config)
        if rank == 0:
            print(json.dumps(reply), flush=True)


def serve_in_group(rank, args, config, store):
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=args.nproc, timeout=PATIENCE
    )
    serve(rank, args, config)
    dist.destroy_process_group()


def serve_beside(rank, args, config, store, first):
    """A rank that ends when rank 0, the process `first`, does, whatever ends that."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGTERM)
    if os.getppid() == first:
        serve_in_group(rank, args, config, store)


def serve_with_others(args, config):
    """This process is rank 0."""
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        start = multiprocessing.get_context("spawn").Process
        others = [
            start(target=serve_beside, args=(rank, args, config, store, os.getpid()), daemon=True)
            for rank in range(1, args.nproc)
        ]
        for other in others:
            other.start()
        serve_in_group(0, args, config, store)
        for other in others:
            other.join()


def main():
    configs = json.loads(CONFIGS.read_text())
    args = parse_args(configs)
    config = configs[args.config]
    if args.nproc > 1:
        serve_with_others(args, config)
    else:
        serve(0, args, config)


if __name__ == "__main__":
    main()
