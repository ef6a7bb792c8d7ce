#!/usr/bin/env python3
"""Measures Tessera's training step against PyTorch's on this machine, then its matrix products.

usage: bench/run.py [--quick] [--configs gpt2-124m-t256:4,llama-60m:4] [--rounds R] [--steps K]
       bench/run.py --nproc 2 [--tessera-flags "--use-distributed-optimizer"]
       bench/run.py --device cuda [--peers compiled]

The contenders of a configuration run side by side and take turns, K steps at a time, R rounds long,
so that whatever else the machine does hits all of them alike. Whoever does not have the turn waits
for input and uses no processor. Ratios are taken within a round. On a GPU they run one after the
other: two do not fit into its memory, and nobody else disturbs it. With --nproc, N data-parallel
ranks of Tessera compete with N processes under PyTorch's DistributedDataParallel. README.md says
how to read all this.
"""

import argparse
import contextlib
import dataclasses
import json
import math
import os
import shlex
import statistics
import subprocess
import sys
import time
from pathlib import Path

from contender import PAUSE_S, Contender, Failure

BENCH = Path(__file__).resolve().parent
ROOT = BENCH.parent

MOST_BUSY = 0.05
EAGER, COMPILED = "PyTorch eager", "PyTorch compiled"
PEERS = {"eager": EAGER, "compiled": COMPILED}

CPU_CONFIGS = "gpt2-124m-t256:4,llama-60m:4"
GPU_CONFIGS = (
    "gpt2-124m:32,gpt2-124m:64,gpt2-1.5b:16,llama3.2-1b:4,llama3.2-3b:2,llama3-8b-8l:1"
)


@dataclasses.dataclass(frozen=True)
class Workload:
    config: str
    micro_batch: int

    @staticmethod
    def parse(text):
        config, colon, micro_batch = text.partition(":")
        if not colon or not micro_batch.isdigit() or int(micro_batch) < 1:
            raise argparse.ArgumentTypeError(f"{text!r}: expected CONFIG:MICRO_BATCH")
        known = json.loads((BENCH / "configs.json").read_text())
        if config not in known:
            raise argparse.ArgumentTypeError(f"no configuration {config!r}, only {list(known)}")
        return Workload(config, int(micro_batch))

    @staticmethod
    def parse_list(text):
        return [Workload.parse(item) for item in text.split(",")]


class Report:
    """Lines on standard output, and in a file at the end."""

    def __init__(self, path):
        self.path = path
        self.lines = []

    def add(self, text=""):
        print(text, flush=True)
        self.lines.append(text)

    def save(self):
        if self.path:
            self.path.write_text("\n".join(self.lines) + "\n")


def has_torch(python):
    if not python.exists():
        return False
    command = [python, "-c", "import torch"]
    return subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0


def peer_python(args):
    """The interpreter that has torch, or None."""
    python = args.venv / "bin" / "python"
    if args.install_torch and not has_torch(python):
        try:
            subprocess.run([sys.executable, "-m", "venv", args.venv], check=True)
            subprocess.run([python, "-m", "pip", "install", "torch"], check=True)
        except subprocess.CalledProcessError as error:
            raise Failure(f"torch could not be installed in {args.venv}: {error}") from error
    return python if has_torch(python) else None


def commands(args, workload, python):
    """What to start, by contender."""
    flags = ["--config", workload.config, "--micro-batch-size", str(workload.micro_batch)]
    flags += ["--threads", str(args.threads), "--device", args.device]
    flags += ["--params-dtype", args.params_dtype, "--nproc", str(args.nproc)]
    tessera = [args.build / "bench" / "bench_train_step", *flags]
    result = {"Tessera": tessera + args.tessera_flags}
    if python:
        torch = [python, BENCH / "peers" / "torch_lm.py", *flags]
        all_peers = {EAGER: torch, COMPILED: [*torch, "--compile"]}
        result |= {PEERS[peer]: all_peers[PEERS[peer]] for peer in args.peers}
    return result


def compete(args, workload, python):
    """Runs all rounds of one configuration; returns the contenders with their times."""
    wanted = list(commands(args, workload, python).items())
    together = [wanted] if args.device == "cpu" else [[each] for each in wanted]
    return [contender for group in together for contender in take_turns(args, group)]


def take_turns(args, wanted):
    with contextlib.ExitStack() as stack:
        contenders = []
        for name, command in wanted:
            contenders.append(Contender(name, command))
            stack.callback(contenders[-1].stop)
        for contender in contenders:
            contender.warm_up()
        for number in range(args.rounds):
            # Each round begins with another one, so that nobody always follows the same neighbour.
            first = number % len(contenders)
            for contender in contenders[first:] + contenders[:first]:
                contender.run_round(args.steps)
        return contenders


def spread(ratios):
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def exposed_cell(contender):
    return f"{statistics.median(contender.exposed):.1f}" if contender.exposed else "-"


def table_row(args, contender, contenders):
    others = {other.name: other for other in contenders}
    ratios = [
        spread(contender.speed_against(others[peer])) if peer in others else "-"
        for peer in (EAGER, COMPILED)
    ]
    tokens_per_second = 1e3 * contender.last["tokens_per_step"] / contender.step_ms()
    gflops = tokens_per_second * contender.last["flops_per_token"] / 1e9
    cells = [contender.name, f"{contender.step_ms():.1f}", f"{tokens_per_second:.0f}"]
    cells += [f"{gflops:.1f}", *ratios]
    if args.nproc > 1:
        cells.append(exposed_cell(contender))
    cells += [f"{contender.memory_mib():.0f}", f"{contender.first_loss:.3f}"]
    return "| " + " | ".join(cells) + " |"


def report_workload(report, args, workload, contenders):
    last = contenders[0].last
    memory = "peak device MiB" if args.device == "cuda" else "peak RSS MiB"
    vocab = json.loads((BENCH / "configs.json").read_text())[workload.config]["vocab"]
    ranks = f" on each of {args.nproc} ranks" if args.nproc > 1 else ""
    report.add(f"\n### {workload.config}, micro-batch {workload.micro_batch}{ranks}\n")
    report.add(
        f"{last['tokens_per_step']} tokens per step, {last['flops_per_token'] / 1e6:.1f} MFLOP per "
        f"token, {args.rounds} round(s) of {args.steps} step(s); ln(vocabulary) = "
        f"{math.log(vocab):.3f}\n"
    )
    heads = ["contender", "ms/step", "tokens/s", "GFLOP/s", "speed / eager", "speed / compiled"]
    if args.nproc > 1:
        heads.append("exposed communication ms/step")
    heads += [memory, "first loss"]
    report.add("| " + " | ".join(heads) + " |")
    report.add("|---" + "|---:" * (len(heads) - 1) + "|")
    for contender in contenders:
        report.add(table_row(args, contender, contenders))
    uses = ", ".join(f"{use} {mib:.0f}" for use, mib in last["memory_mib"].items())
    whose = "Tessera's memory in MiB" if args.nproc == 1 else "Memory of Tessera's rank 0 in MiB"
    report.add(f"\n{whose}: {uses}")
    report.add("Contenders: " + "; ".join(each.last["about"] for each in contenders))


def check_same_work(contenders):
    for key in ("tokens_per_step", "flops_per_token"):
        counts = {each.name: each.last[key] for each in contenders}
        if len(set(counts.values())) != 1:
            raise Failure(f"the contenders do different work: {key} is {counts}")


def machine(threads):
    text = Path("/proc/cpuinfo").read_text()
    models = [line.split(":", 1)[1] for line in text.splitlines() if line.startswith("model name")]
    name = models[0].strip() if models else "unknown processor"
    return f"{name}, {len(os.sched_getaffinity(0))} cores, {threads} thread(s) for each contender"


def busy_fraction(seconds):
    """How much of the processors' time others use: without idle and waiting for disks."""

    def ticks():
        times = [int(word) for word in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
        return sum(times), times[3] + times[4]

    before, idle_before = ticks()
    time.sleep(seconds)
    after, idle_after = ticks()
    return 1 - (idle_after - idle_before) / max(1, after - before)


def report_products(report, args):
    command = [args.build / "bench" / "bench_gemm", "--threads", str(args.threads)]
    command += ["--configs", ",".join(f"{w.config}:{w.micro_batch}" for w in args.configs)]
    command += ["--seconds", "0.05" if args.quick else "0.5"]
    time.sleep(PAUSE_S)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failure(f"bench_gemm failed:\n{done.stderr}")
    report.add("\n### Matrix products\n\n```")
    report.add(done.stdout.rstrip())
    report.add("```")


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--quick", action="store_true", help="a short run, to see that all works: llama-60m:1, 2x1")
    add("--configs", type=Workload.parse_list, help="CONFIG:MICRO_BATCH, several with commas")
    add("--rounds", type=int, help="turns of each contender")
    add("--steps", type=int, help="steps of a turn")
    add("--threads", type=int, default=len(os.sched_getaffinity(0)))
    add("--nproc", type=int, default=1, help="data-parallel ranks, which share the threads")
    add("--tessera-flags", type=shlex.split, default=[], help="more flags of bench_train_step")
    add("--device", choices=["cpu", "cuda"], default="cpu")
    add("--params-dtype", choices=["f32", "bf16"], help="f32 on the CPU, bf16 on a GPU")
    add("--peers", default="eager,compiled", help="which PyTorch: eager, compiled, or both")
    add("--build", type=Path, help="where the programs were built: build/cpu or build/cuda")
    add("--venv", type=Path, default=ROOT / ".venv-bench", help="virtual environment with torch")
    add("--install-torch", action="store_true", help="make the virtual environment if missing")
    add("--output", type=Path, help="write the report to this file too")
    args = parser.parse_args()
    gpu = args.device == "cuda"
    args.peers = args.peers.split(",")
    if not set(args.peers) <= set(PEERS):
        parser.error("--peers takes eager, compiled, or eager,compiled")
    args.build = args.build or ROOT / "build" / args.device
    args.params_dtype = args.params_dtype or ("bf16" if gpu else "f32")
    args.configs = args.configs or Workload.parse_list(
        "llama-60m:1" if args.quick else GPU_CONFIGS if gpu else CPU_CONFIGS
    )
    if args.rounds is None:
        args.rounds = 2 if args.quick else 6
    if args.steps is None:
        args.steps = 1 if args.quick else 10 if gpu else 3
    if min(args.rounds, args.steps, args.threads, args.nproc) < 1:
        parser.error("--rounds, --steps, --threads and --nproc must be 1 or more")
    if gpu and args.nproc > 1:
        parser.error("--nproc is for the CPU: ranks that are threads would share one GPU")
    return args


def run(args):
    report = Report(args.output)
    python = peer_python(args)
    report.add(f"Machine: {machine(args.threads)}")
    busy = busy_fraction(2.0)
    if busy > MOST_BUSY:
        report.add(f"Warning: other programs use {busy:.0%} of this machine. Trust no single time.")
    if not python:
        report.add(
            f"There is no torch in {args.venv}, so Tessera runs alone. `bench/run.py "
            f"--install-torch` gets it (some GB); `--venv DIR` names another environment."
        )
    for workload in args.configs:
        contenders = compete(args, workload, python)
        check_same_work(contenders)
        report_workload(report, args, workload, contenders)
    if args.device == "cpu" and args.nproc == 1:
        report_products(report, args)
    report.save()


def main():
    try:
        run(parse_args())
    except Failure as failure:
        sys.exit(f"bench/run.py: {failure}")
    except KeyboardInterrupt:
        sys.exit("bench/run.py: stopped")


if __name__ == "__main__":
    main()
