#!/usr/bin/env python3
"""Loads a Hugging Face folder that `tessera convert --to-hf` wrote in transformers, and compares
what the model says of the next token with what Tessera says from the checkpoint.

usage: tools/check_export.py [--program TESSERA] CHECKPOINTS FOLDER
       tools/check_export.py [--program TESSERA] --from-hf FOLDER...

The second form first makes a checkpoint of each folder and exports that. A folder that Tessera refuses
to import is named and passed over.

Needs torch and transformers (4 or 5). Fails when transformers misses a weight, has one too many or
warns of anything, and when a log-probability differs by more than 1e-5 in float32. Of a vocabulary
up to 512 every token is asked for after each of a few prompts, so that whole rows of logits are
compared; of a larger one the tokens of random texts.
"""

import argparse
import json
import logging
import random
import subprocess
import tempfile
import warnings
from pathlib import Path

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM

TOLERANCE = 1e-5
REFUSED = 2  # exit code
SMALL_VOCABULARY = 512


class Kept(logging.Handler):
    """Keeps what is said, to fail on it."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())


def load(folder):
    kept = Kept()
    transformers.utils.logging.get_logger("transformers").addHandler(kept)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model, info = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True,
                                                           attn_implementation="eager")
    problems = {key: sorted(value) for key, value in info.items() if value}
    said = kept.lines + [str(warning.message) for warning in caught]
    if problems or said:
        raise SystemExit(f"{folder}: transformers {transformers.__version__} says: "
                         f"{problems or ''} {said or ''}")
    return model.float().eval()


def make_sequences(vocabulary, positions):
    draw = random.Random(1)
    length = min(positions, 24)

    def text(count):
        return [draw.randrange(vocabulary) for _ in range(count)]

    sequences = [text(length) for _ in range(4)]
    if vocabulary <= SMALL_VOCABULARY:
        for size in (1, length // 2, length - 1):
            prompt = text(size)
            sequences += [prompt + [token] for token in range(vocabulary)]
    return sequences


def ours(program, checkpoints, sequences):
    with tempfile.TemporaryDirectory() as folder:
        tokens, output = Path(folder, "tokens.jsonl"), Path(folder, "output.jsonl")
        tokens.write_text("".join(json.dumps({"tokens": s}) + "\n" for s in sequences))
        subprocess.run([program, "evaluate", "--load", checkpoints, "--tokens", tokens,
                        "--output", output, "--params-dtype", "f32", "--micro-batch-size", "32"],
                       check=True)
        return [json.loads(line)["token_logprobs"] for line in output.read_text().splitlines()]


@torch.no_grad()
def theirs(model, sequence):
    tokens = torch.tensor([sequence])
    logits = model(input_ids=tokens).logits[0, :-1]
    chosen = torch.log_softmax(logits, -1).gather(1, tokens[0, 1:, None])
    return chosen[:, 0].tolist()


def check(program, checkpoints, folder):
    config = AutoConfig.from_pretrained(folder)
    model = load(folder)
    sequences = make_sequences(config.vocab_size, config.max_position_embeddings)
    worst = 0.0
    for sequence, mine in zip(sequences, ours(program, checkpoints, sequences), strict=True):
        pairs = zip(mine, theirs(model, sequence), strict=True)
        worst = max([worst] + [abs(a - b) for a, b in pairs])
    good = worst <= TOLERANCE
    print(f"{folder}: transformers {transformers.__version__}, {config.model_type}, "
          f"{len(sequences)} sequences, largest difference {worst:.1e}: "
          f"{'good' if good else 'TOO LARGE'}")
    return good


def check_both_ways(program, folder):
    """Into a checkpoint, out again, and compare."""
    with tempfile.TemporaryDirectory() as temporary:
        checkpoints, exported = Path(temporary, "checkpoints"), Path(temporary, Path(folder).name)
        imported = subprocess.run([program, "convert", "--from-hf", folder, "--save", checkpoints],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if imported.returncode == REFUSED:
            print(f"{folder}: refused: {imported.stderr.strip()}")
            return True
        imported.check_returncode()
        subprocess.run([program, "convert", "--load", checkpoints, "--to-hf", exported,
                        "--params-dtype", "f32"], check=True, stdout=subprocess.DEVNULL)
        return check(program, checkpoints, exported)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="build/cpu/apps/tessera")
    parser.add_argument("--from-hf", nargs="+", default=[], metavar="FOLDER")
    parser.add_argument("checkpoints", nargs="?")
    parser.add_argument("folder", nargs="?")
    arguments = parser.parse_args()
    if bool(arguments.from_hf) == bool(arguments.folder):
        parser.error("give CHECKPOINTS and FOLDER, or --from-hf FOLDER...")

    results = [check_both_ways(arguments.program, folder) for folder in arguments.from_hf]
    if arguments.folder:
        results.append(check(arguments.program, arguments.checkpoints, arguments.folder))
    raise SystemExit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
