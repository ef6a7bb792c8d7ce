#!/usr/bin/env python3
"""Trains small models with two builds of Tessera, and compares their numbers to the last bit, or their speed.

  tools/compare_builds.py BEFORE AFTER                  loss, gradient norm, final checkpoint on the CPU
  tools/compare_builds.py BEFORE AFTER --device cuda    the same on one GPU; ranks are threads that share it
  tools/compare_builds.py BEFORE AFTER --speed          step times of larger models, the builds in turns

BEFORE and AFTER are `tessera` programs, or folders that hold one. The configurations are in compare_configs.py.
Every step's metrics must be equal, evaluations too, and every tensor of the last checkpoint: weights and optimizer
state. Step times need an otherwise idle machine. Needs only Python's standard library. Exit code 1 if a configuration
differs or fails.
"""

import argparse
import concurrent.futures
import hashlib
import itertools
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from compare_configs import comparisons, timings  # noqa: E402

CHECKED = ("consumed_samples", "learning_rate", "lm_loss", "grad_norm", "loss_scale", "skipped", "valid_loss")
BUILDS = ("before", "after")
TIMEOUT_S = 600
# Threads that wait must not spin: ranks share cores, and the two builds too.
ENVIRONMENT = {"OMP_WAIT_POLICY": "passive", **os.environ}


class Failure(Exception):
    """A run that failed or left no numbers. The message has one line."""


def program(text):
    path = Path(text).absolute()
    if path.is_dir():
        path = path / "tessera"
    if not (path.is_file() and os.access(path, os.X_OK)):
        raise argparse.ArgumentTypeError(f"there is no program {path}")
    return path


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", metavar="BEFORE", type=program, help="program of the first build")
    parser.add_argument("after", metavar="AFTER", type=program, help="program of the second build")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where to train [cpu]")
    parser.add_argument("--speed", action="store_true", help="compare step times instead of numbers")
    parser.add_argument("--rounds", metavar="K", type=int, default=5, help="--speed: runs of each build [5]")
    parser.add_argument("--only", metavar="NAME", nargs="+", help="only these configurations")
    parser.add_argument("--work", metavar="DIR", type=Path, help="keep data, logs, metrics and checkpoints there")
    options = parser.parse_args(arguments)
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    known = timings(options.device) if options.speed else comparisons(options.device)
    unknown = sorted(set(options.only or ()) - {c.name for c in known})
    if unknown:
        parser.error(f"--only: no {', '.join(unknown)}; there are {', '.join(c.name for c in known)}")
    options.configurations = [c for c in known if not options.only or c.name in options.only]
    return options


def run_program(command, log):
    """Runs it with its output in a file. Raises Failure with the last line of the output."""
    with open(log, "w", encoding="utf-8") as out:
        try:
            code = subprocess.run(
                [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                env=ENVIRONMENT, timeout=TIMEOUT_S, check=False,
            ).returncode  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Failure(str(error)) from error
    if code != 0:
        lines = log.read_text(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "no output")
        raise Failure(f"exit code {code}: {last}")


def make_data(tessera, folder):
    """A few hundred documents of made-up words; returns the prefix for --data-path."""
    draw = random.Random(1)
    words = ["".join(draw.choices("abcdefghij", k=draw.randint(1, 8))) for _ in range(50)]
    lines = [json.dumps({"text": " ".join(draw.choices(words, k=draw.randint(2, 60)))}) for _ in range(800)]
    (folder / "text.jsonl").write_text("\n".join(lines) + "\n")
    run_program(
        [tessera, "preprocess", "--input", folder / "text.jsonl", "--output-prefix", folder / "text", "--append-eod",
         "--overwrite"], folder / "preprocess.log",
    )  # fmt: skip
    return folder / "text_text_document"


def read_metrics(file, steps):
    """The entries of a metrics file. Raises Failure if it lacks a step."""
    try:
        entries = [json.loads(line) for line in file.read_text().splitlines()]
    except (OSError, ValueError) as error:
        raise Failure(f"no metrics: {error}") from error
    found = sum("lm_loss" in entry and "grad_norm" in entry for entry in entries)
    if found != steps:
        raise Failure(f"expected metrics of {steps} steps, got {found}")
    return entries


def tensor_digests(folder):
    """Type, shape and hash of every tensor in the safetensors files of a folder of checkpoints, by name."""
    digests = {}
    for file in sorted(folder.glob("iter_*/*.safetensors")):
        data = file.read_bytes()
        start = 8 + int.from_bytes(data[:8], "little")
        header = json.loads(data[8:start])
        header.pop("__metadata__", None)
        for name, tensor in header.items():
            begin, end = tensor["data_offsets"]
            body = hashlib.sha256(data[start + begin : start + end]).hexdigest()
            digests[name] = (tensor["dtype"], tensor["shape"], body)
    if not digests:
        raise Failure("there is no checkpoint")
    return digests


def train(tessera, configuration, folder, more=()):
    """Runs a training in an emptied folder; returns its metrics."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    metrics = folder / "metrics.jsonl"
    command = [tessera, "train", *configuration.flags, "--metrics-file", metrics, *more]
    run_program(command, folder / "log")
    return read_metrics(metrics, configuration.steps)


def final_loss(metrics):
    return [entry["lm_loss"] for entry in metrics if "lm_loss" in entry][-1]


def metrics_difference(before, after):
    """Says where two lists of metrics first differ; "" if nowhere. Compares text, so that -0.0 is not 0.0."""
    for a, b in itertools.zip_longest(before, after, fillvalue={}):
        for key in CHECKED:
            if repr(a.get(key)) != repr(b.get(key)):
                return f"at step {a.get('iteration', b.get('iteration'))} ({key})"
    return ""


def tensors_difference(before, after):
    names = [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]
    return f"in {len(names)} tensors of the checkpoint ({names[0]}, ...)" if names else ""


def train_small(tessera, configuration, folder, data):
    """Returns the metrics and the tensors of the last checkpoint."""
    more = ["--data-path", data, "--save", folder / "checkpoints"]
    metrics = train(tessera, configuration, folder, more)
    return metrics, tensor_digests(folder / "checkpoints")


def compare(options, configuration, data, work):
    """Trains with both builds at the same time; returns the two final losses and the result."""
    results, losses, failed = [], [], ""
    with concurrent.futures.ThreadPoolExecutor(len(BUILDS)) as pool:
        folder = work / configuration.name
        runs = [
            pool.submit(train_small, getattr(options, name), configuration, folder / name, data) for name in BUILDS
        ]
    for name, run in zip(BUILDS, runs):
        try:
            results.append(run.result())
            losses.append(final_loss(results[-1][0]))
        except Failure as failure:
            losses.append("-")
            failed = failed or f"FAILED {name}: {failure}"
    if failed:
        return losses, failed
    metrics, tensors = zip(*results)
    where = metrics_difference(*metrics) or tensors_difference(*tensors)
    return losses, f"DIFFERENT {where}" if where else "equal"


def name_width(options):
    return max(len("configuration"), *(len(c.name) for c in options.configurations))


def compare_all(options, work):
    """Prints a line for each configuration; returns whether all are equal."""
    data = make_data(options.before, work)
    width = name_width(options)
    print(f"{'configuration':<{width}} {'steps':>5}  {'loss before':<19} {'loss after':<19} result")
    failed = 0
    for configuration in options.configurations:
        losses, result = compare(options, configuration, data, work)
        columns = f"{configuration.steps:>5}  {losses[0]:<19} {losses[1]:<19} {result}"
        print(f"{configuration.name:<{width}} {columns}", flush=True)
        failed += result != "equal"
    print(f"{len(options.configurations) - failed} passed, {failed} failed")
    return failed == 0


def step_ms(metrics, warm_up):
    """The median over the steps after warm-up. A GPU reports the mean of the steps between two log lines."""
    return 1e3 * statistics.median(m["seconds"] for m in metrics if "lm_loss" in m and m["iteration"] > warm_up)


def speed_columns(before, after):
    """Medians of both builds, and median, least and most of the ratios of the rounds."""
    ratios = [b / a for a, b in zip(before, after)]
    spread = f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"
    return f"{statistics.median(before):>11.2f} {statistics.median(after):>11.2f}  {spread}"


def time_both(options, configuration, work):
    """The builds take turns; returns the columns of the table."""
    times = {name: [] for name in BUILDS}
    for _ in range(options.rounds):
        for name in BUILDS:
            metrics = train(getattr(options, name), configuration, work / configuration.name / name)
            times[name].append(step_ms(metrics, configuration.warm_up))
    return speed_columns(times["before"], times["after"])


def time_all(options, work):
    """Prints a line for each configuration; returns whether all ran."""
    width = name_width(options)
    print(f"{'configuration':<{width}} {'rounds':>6} {'before ms':>11} {'after ms':>11}  after/before")
    failed = 0
    for configuration in options.configurations:
        try:
            columns = time_both(options, configuration, work)
        except Failure as failure:
            failed += 1
            columns = f"FAILED {failure}"
        print(f"{configuration.name:<{width}} {options.rounds:>6} {columns}", flush=True)
    print(f"{len(options.configurations) - failed} passed, {failed} failed")
    return failed == 0


def main(arguments=None):
    options = parse_arguments(arguments)
    with tempfile.TemporaryDirectory(prefix="compare_builds-") as temporary:
        work = (options.work or Path(temporary)).absolute()
        work.mkdir(parents=True, exist_ok=True)
        try:
            good = time_all(options, work) if options.speed else compare_all(options, work)
        except Failure as failure:
            sys.exit(f"compare_builds: {failure}")
    return 0 if good else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("compare_builds: stopped")
