#!/usr/bin/env python3
"""Checks a folder that `tessera train --dump-step DIR` wrote against PyTorch and transformers.

  python3 tools/check_dump.py DIR        (needs torch, transformers and safetensors)

Loads the initial weights into the transformers model, computes the loss, every gradient and one optimizer step on
the dumped batch, and prints the relative error of each quantity. Exit code 1 if one is above the tolerance. Dump with
dropout off (--attention-dropout 0 --hidden-dropout 0): masks are Tessera's own.
"""
import json
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

TOLERANCE = {"loss": 1e-5, "grad_norm": 1e-4, "gradient": 1e-4, "updated weight": 1e-4}
TOLERANCE_16_BIT = {"loss": 1e-3, "grad_norm": 3e-2, "gradient": 3e-2, "updated weight": 3e-2}
MISSING = {
    "step.json": "is this the folder that was given to --dump-step, and did the step end?",
    "initial/config.json": "no Hugging Face family has this model, so transformers cannot run it",
}


def microbatch_losses(model, batch, step):
    """The loss of the step, microbatch by microbatch, weighed as Tessera weighs it."""
    parts = step["microbatches"]
    names = ("tokens", "labels", "positions", "loss_mask")
    tokens, labels, positions, mask = (batch[name].chunk(parts) for name in names)
    counted = batch["loss_mask"].sum()
    for x, y, p, m in zip(tokens, labels, positions, mask):
        logits = model(input_ids=x.long(), position_ids=p.long()).logits
        nll = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), y.long().flatten(), reduction="none", label_smoothing=step.get("label_smoothing", 0.0)
        )
        weight = counted if step["loss_average"] == "per_token" else m.sum() * parts
        yield (nll * m.flatten()).sum() / weight


def optimizer_for(model, step):
    """Weight decay for matrices only, as in Tessera."""
    groups = [
        {"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": step["weight_decay"]},
        {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0},
    ]
    if step["optimizer"] == "sgd":
        return torch.optim.SGD(groups, lr=step["learning_rate"], momentum=step["sgd_momentum"])
    betas = (step["adam_beta1"], step["adam_beta2"])
    return torch.optim.AdamW(groups, lr=step["learning_rate"], betas=betas, eps=step["adam_eps"])


def by_file_names(model, tensors):
    """transformers 5 keeps the matrices of all experts of a layer in one tensor, which is not how files have them."""
    try:
        from transformers.core_model_loading import revert_weight_conversion
    except ImportError:
        return tensors
    return revert_weight_conversion(model, tensors)


def worst_error(model_tensors, dumped, noise=None):
    """The largest relative error over the tensors, and whose it is; elements marked as noise do not count."""
    whole = torch.sqrt(sum((t.double() ** 2).sum() for t in dumped.values()))
    errors = {}
    for name, want in model_tensors.items():
        got = dumped.get(name, dumped.get(name.removeprefix("transformer.")))
        if got is None:
            raise SystemExit(f"the dump has no tensor {name}")
        if noise is not None:
            got = torch.where(noise[name], want, got)
        scale = torch.maximum(want.double().norm(), 1e-6 * whole)
        errors[name] = ((got.double() - want.double()).norm() / scale).item()
    name = max(errors, key=errors.get)
    return errors[name], name


def main():
    if len(sys.argv) != 2:
        raise SystemExit("usage: check_dump.py DIR, the folder that was given to --dump-step")
    folder = Path(sys.argv[1])
    for name, missing in MISSING.items():
        if not (folder / name).exists():
            raise SystemExit(f"check_dump: there is no {folder / name}: {missing}")
    step = json.loads((folder / "step.json").read_text())
    if step.get("router_losses"):
        losses = ", ".join(step["router_losses"])
        raise SystemExit(f"check_dump: the step had losses of routers ({losses}), which transformers computes in "
                         "another way: dump it without --moe-aux-loss-coeff and --moe-z-loss-coeff")
    batch = load_file(folder / "batch.safetensors")
    model = AutoModelForCausalLM.from_pretrained(folder / "initial", dtype=torch.float32, attn_implementation="eager")
    model.train()
    optimizer = optimizer_for(model, step)
    loss = 0.0
    for part in microbatch_losses(model, batch, step):
        part.backward()
        loss += part.item()
    rows = [("loss", abs(loss - step["loss"]) / abs(loss), "")]
    gradients = by_file_names(model, {n: p.grad.clone() for n, p in model.named_parameters()})
    rows.append(("gradient", *worst_error(gradients, load_file(folder / "gradients.safetensors"))))
    clip = step["clip_grad"] or float("inf")
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), clip).item()
    rows.append(("grad_norm", abs(norm - step["grad_norm"]) / norm, ""))
    optimizer.step()
    weights = by_file_names(model, {n: p.detach() for n, p in model.named_parameters()})
    # Adam's first step is the sign of the gradient, whatever its size: where the gradient is rounding noise (the key
    # bias of a model without RoPE has none in mathematics), so is the update.
    largest = max(g.abs().max() for g in gradients.values())
    noise = {n: g.abs() < 1e-6 * largest for n, g in gradients.items()}
    rows.append(("updated weight", *worst_error(weights, load_file(folder / "updated.safetensors"), noise)))
    failed = False
    narrow = any(t.element_size() == 2 for t in load_file(folder / "initial/model.safetensors").values())
    tolerance = TOLERANCE_16_BIT if narrow else TOLERANCE
    for what, error, name in rows:
        bad = not error <= tolerance[what]
        failed |= bad
        print(f"{what:15s} {error:9.2e}  (tolerance {tolerance[what]:.0e}){'  FAILED' if bad else ''}  {name}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
