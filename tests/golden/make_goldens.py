"""Writes the golden files in tests/golden/data: tiny random models of every supported family, and
what Hugging Face transformers computes with them, for the C++ engine to be compared with.

Each model is computed twice from the same fp32 weights:
  32  stock transformers in float32;
  64  the same model in true float64 (double_reference.py).
The distance between the two is the rounding noise of float32. It is printed, and must stay far
below the tolerances of the C++ test. README.md says what the files hold and how to run this.
"""

import json
import math
import os
import sys
from pathlib import Path

# Plain kernels: results depend less on the machine's vector units. Read when torch is loaded.
os.environ["ATEN_CPU_CAPABILITY"] = "default"
os.environ["MKL_CBWR"] = "COMPATIBLE"

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM
from transformers.utils.logging import disable_progress_bar

from double_reference import NoFloat32, double_rotation, to_double
from golden_models import MODELS, draw_batches, expert_biases, is_matrix, write_model

DATA = Path(__file__).parent / "data"

# Adam divides by sqrt(v) + eps, so with eps = 1e-8 an element whose gradient is rounding noise
# still moves by about lr. The key bias of GPT-2 is such a one: softmax does not feel it, its true
# gradient is 0, and float32 and float64 end 4e-3 apart. Such errors fall as 1 / eps; with 1e-4 they
# are about 1e-6 at most, and eps is still small beside a typical gradient (norm 1 after clipping,
# over 25,000 elements: 6e-3), so that the division by sqrt(v) is tested.
OPTIMIZER = {"lr": 1e-2, "beta1": 0.9, "beta2": 0.95, "eps": 1e-4, "weight_decay": 0.1,
             "clip_grad": 1.0}

# What the C++ test allows in float32, as relative errors. Noise times MARGIN must stay below it.
STEP_VALUES = {"losses", "grad_norms", "balances"}  # one of each step
TOLERANCE = {"logits": 1e-5, "loss": 1e-6, "grads": 5e-6, "losses": 1e-6, "weights": 2e-5}
MARGIN = 4


# ---- training -----------------------------------------------------------------------------------

def load(folder, attention):
    return AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation=attention, experts_implementation="eager")


def make_optimizer(named):
    o = OPTIMIZER
    decayed = [p for name, p in named.items() if is_matrix(name, p)]
    rest = [p for name, p in named.items() if not is_matrix(name, p)]
    return torch.optim.AdamW([{"params": decayed, "weight_decay": o["weight_decay"]},
                              {"params": rest, "weight_decay": 0.0}],
                             lr=o["lr"], betas=(o["beta1"], o["beta2"]), eps=o["eps"])


def expert_tensors(name, stack, names):
    """The matrices in the files, of transformers' matrices of all experts together."""
    prefix, _, which = name.rpartition(".")
    for i, matrix in enumerate(stack):
        gate, up, down = (f"{prefix}.{i}.{each}.weight" for each in names)
        if which == "gate_up_proj":
            yield from zip((gate, up), matrix.chunk(2))
        else:
            yield down, matrix


def by_file_names(family, tensors):
    """By the names in model.safetensors: GPT-NeoX's head and the experts of Mixtral and Granite have
    others in transformers, and experts have a matrix each but in Granite, gpt-oss and Llama 4."""
    names = {"mixtral": ("w1", "w3", "w2")}.get(family, ("gate_proj", "up_proj", "down_proj"))
    out = {}
    for name, tensor in tensors.items():
        if family == "gpt_neox" and name == "lm_head.weight":
            name = "embed_out.weight"
        if family == "granitemoe":
            name = name.replace("experts.gate_up_proj", "input_linear.weight")
            name = name.replace("experts.down_proj", "output_linear.weight")
            name = name.replace("router.weight", "router.layer.weight")
        if family == "mixtral":
            name = name.replace(".mlp.", ".block_sparse_moe.")
        one_each = ".experts." in name and family not in ("gpt_oss", "llama4_text")
        out |= dict(expert_tensors(name, tensor, names)) if one_each else {name: tensor}
    return out


def routers_of(model):
    """The routers, each of which keeps its logits of the last forward pass."""
    def keep(module, inputs, outputs):
        module.last_logits = outputs[0]

    routers = [m for name, m in model.named_modules() if type(m).__name__.endswith("Router")]
    for router in routers:
        router.register_forward_hook(keep)
    return routers


def balancing_loss(model, routers):
    """The balancing loss of transformers of each router, added up. (Stock models compute one of all
    layers together.)"""
    stock = sys.modules[type(model).__module__].load_balancing_loss_func
    k = model.config.num_experts_per_tok
    total = 0.0
    for router in routers:
        p = router.last_logits.softmax(-1)  # [tokens, experts]
        experts = p.shape[1]
        counts = torch.zeros_like(p).scatter_(1, p.topk(k, dim=-1).indices, 1.0)
        loss = experts * (counts.mean(0) * p.mean(0)).sum()
        if p.dtype == torch.float32:
            torch.testing.assert_close(loss, stock((router.last_logits,), experts, k))
        total = total + loss
    return total


def train(model, tokens, loss_mask):
    """One step per batch. logits, and grads before clipping, are those of batch 0."""
    model.train()
    family = model.config.model_type
    coefficient = getattr(model.config, "router_aux_loss_coef", 0.0)
    routers = routers_of(model) if coefficient else []
    named = dict(model.named_parameters())
    optimizer = make_optimizer(named)
    out = {"losses": [], "grad_norms": []} | ({"balances": []} if routers else {})
    for t, mask in zip(tokens.long(), loss_mask):
        logits = model(t[:, :-1], use_cache=False).logits
        nll = torch.nn.functional.cross_entropy(logits.transpose(1, 2), t[:, 1:], reduction="none")
        loss = (mask * nll).sum() / mask.sum()
        out["losses"].append(loss.detach())
        if routers:
            balance = balancing_loss(model, routers)
            out["balances"].append(balance.detach())
            loss = loss + coefficient * balance
        optimizer.zero_grad()
        loss.backward()
        if "logits" not in out:
            out["logits"] = logits.detach()
            out["grads"] = by_file_names(family, {n: p.grad.clone() for n, p in named.items()})
        norm = torch.nn.utils.clip_grad_norm_(named.values(), OPTIMIZER["clip_grad"])
        out["grad_norms"].append(norm)
        optimizer.step()
    for key in STEP_VALUES & out.keys():
        out[key] = torch.stack(out[key])
    weights = {name: p.detach() for name, p in named.items()} | expert_biases(model)
    out["weights"] = by_file_names(family, weights)
    return out


def train_in_double(folder, tokens, loss_mask):
    model, loss_mask = to_double(load(folder, "double")), loss_mask.double()
    torch.set_default_dtype(torch.float64)  # for Adam's step counter
    with NoFloat32(), double_rotation(model):
        out = train(model, tokens, loss_mask)
    torch.set_default_dtype(torch.float32)
    return out


# ---- noise --------------------------------------------------------------------------------------

def total_norm(tensors):
    return math.sqrt(sum(t.double().square().sum().item() for t in tensors.values()))


def error(a, b, whole=0.0):
    """The relative error of the test suite; whole is the norm of the vector that b is a part of."""
    a, b = a.double(), b.double()
    return (a - b).norm().item() / max(b.norm().item(), 1e-6 * whole)


def errors(a, b):
    """By the names of TOLERANCE. The worst step counts in losses, the worst tensor in grads and
    weights."""
    steps = [error(x, y) for x, y in zip(a["losses"], b["losses"])]
    out = {"logits": error(a["logits"], b["logits"]), "loss": steps[0], "losses": max(steps)}
    for key in ("grads", "weights"):
        whole = total_norm(b[key])
        out[key] = max(error(a[key][name], b[key][name], whole) for name in b[key])
    return out


def spread(folder, golden, tokens, loss_mask, stock):
    """The worst distance of stock float32 from itself in other orders of summation: another
    attention, two threads, the samples in reverse."""
    runs = [train(load(folder, "sdpa"), tokens, loss_mask)] if golden.sdpa else []
    torch.set_num_threads(2)
    runs.append(train(load(folder, "eager"), tokens, loss_mask))
    torch.set_num_threads(1)
    runs.append(train(load(folder, "eager"), tokens.flip(1), loss_mask.flip(1)))
    runs[-1]["logits"] = runs[-1]["logits"].flip(0)
    found = [errors(run, stock) for run in runs]
    return {key: max(e[key] for e in found) for key in TOLERANCE}


def print_row(title, values):
    print(f"{title:31}" + "".join(f"{values[key]:>10.1e}" for key in TOLERANCE), flush=True)


def report(name, stock, double, orders):
    noise = errors(stock, double)
    print_row(f"{name}: 32 from 64", noise)
    print_row("  32 in other orders", orders)
    norms = {n: g.norm().item() / total_norm(double["grads"]) for n, g in double["grads"].items()}
    weakest = min(norms, key=norms.get)
    print(f"  weakest gradient: {norms[weakest]:.1e} of the whole norm, {weakest}")
    for key in sorted(STEP_VALUES & double.keys()):
        print(f"  {key:10}", *(f"{x:.3f}" for x in double[key].tolist()))
    assert max(noise["logits"], noise["loss"]) < 1e-6, f"{name}: float64 is not the stock model"
    for key, allowed in TOLERANCE.items():
        assert MARGIN * max(noise[key], orders[key]) < allowed, f"{name}: too much noise in {key}"
    assert (double["grad_norms"] > OPTIMIZER["clip_grad"]).any(), f"{name}: no step is clipped"


# ---- main ---------------------------------------------------------------------------------------

def write_golden(path, tokens, loss_mask, runs):
    tensors = {"tokens": tokens, "loss_mask": loss_mask}
    for bits, run in runs.items():
        tensors |= {f"{key}{bits}": run[key] for key in {"logits"} | STEP_VALUES & run.keys()}
        tensors |= {f"grad{bits}.{name}": t for name, t in run["grads"].items()}
        tensors |= {f"weights{bits}.{name}": t for name, t in run["weights"].items()}
    save_file({name: t.contiguous() for name, t in tensors.items()}, path)


def check_names(folder, run):
    """The results must have the names and shapes of the weights in the folder."""
    shapes = {}
    for path in folder.glob("model*.safetensors"):
        with safe_open(path, "pt") as file:
            shapes |= {name: file.get_slice(name).get_shape() for name in file.keys()}
    assert shapes == {name: list(t.shape) for name, t in run["weights"].items()}, folder


def make(name, golden):
    """Returns the gradient norms of the steps."""
    folder = DATA / name
    generator = torch.Generator().manual_seed(golden.seed)
    write_model(folder, golden, generator)
    tokens, loss_mask = draw_batches(golden, generator)
    stock = train(load(folder, "eager"), tokens, loss_mask)
    double = train_in_double(folder, tokens, loss_mask)
    check_names(folder, stock)
    report(name, stock, double, spread(folder, golden, tokens, loss_mask, stock))
    write_golden(folder / "golden.safetensors", tokens, loss_mask, {32: stock, 64: double})
    return double["grad_norms"]


def main():
    """Of the models that are named on the command line, or of all."""
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    disable_progress_bar()
    chosen = sys.argv[1:] or MODELS
    DATA.mkdir(exist_ok=True)
    (DATA / "optimizer.json").write_text(json.dumps(OPTIMIZER, indent=2) + "\n")
    print(" " * 31 + "".join(f"{key:>10}" for key in TOLERANCE))
    print_row("tolerance", TOLERANCE)
    norms = torch.cat([make(name, MODELS[name]) for name in chosen])
    assert chosen is not MODELS or (norms < OPTIMIZER["clip_grad"]).any(), "no step is left unclipped"
    size = sum(path.stat().st_size for path in DATA.rglob("*") if path.is_file())
    print(f"{size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
