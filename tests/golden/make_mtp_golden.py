"""Writes data/mtp/golden.safetensors: losses and gradients of a model with two depths of multi-token
prediction, in float64, from plain PyTorch.

The formulas are those of DeepSeek-V3's report and of Megatron-LM: depth j joins the hidden state of a
position (of the main model: behind its final norm) with the embedding of the token j positions later,
runs a decoder layer and a norm, and predicts the token behind that one with the output layer of the
model. Its loss is a mean over the labels that lie inside the sample and are not masked.
"""

import pathlib

import torch
from safetensors.torch import save_file

torch.manual_seed(20)
torch.set_default_dtype(torch.float64)

HIDDEN, FFN, HEADS, GROUPS, SIZE, VOCAB, LAYERS, DEPTHS = 16, 24, 4, 2, 6, 29, 2, 2
MICROBATCHES, BATCH, SEQ = 2, 2, 9
EPSILON, BASE, WEIGHT = 1e-5, 10000.0, 0.7


def layer_shapes(name):
    return {
        f"{name}.attention_norm.weight": [HIDDEN],
        f"{name}.attention.q.weight": [HEADS * SIZE, HIDDEN],
        f"{name}.attention.k.weight": [GROUPS * SIZE, HIDDEN],
        f"{name}.attention.v.weight": [GROUPS * SIZE, HIDDEN],
        f"{name}.attention.out.weight": [HIDDEN, HEADS * SIZE],
        f"{name}.mlp_norm.weight": [HIDDEN],
        f"{name}.mlp.gate.weight": [FFN, HIDDEN],
        f"{name}.mlp.up.weight": [FFN, HIDDEN],
        f"{name}.mlp.down.weight": [HIDDEN, FFN],
    }


def shapes():
    all_shapes = {"embedding.word.weight": [VOCAB, HIDDEN], "final_norm.weight": [HIDDEN],
                  "output.weight": [VOCAB, HIDDEN]}
    for i in range(LAYERS):
        all_shapes |= layer_shapes(f"layers.{i}")
    for j in range(DEPTHS):
        name = f"mtp.{j}"
        all_shapes |= layer_shapes(name)
        all_shapes |= {f"{name}.{norm}.weight": [HIDDEN] for norm in ("enorm", "hnorm", "final_norm")}
        all_shapes[f"{name}.eh_proj.weight"] = [HIDDEN, 2 * HIDDEN]
    return all_shapes


def random_weight(shape):
    return 1 + 0.3 * torch.randn(shape) if len(shape) == 1 else 0.4 * torch.randn(shape)


weights = {name: random_weight(shape).requires_grad_() for name, shape in shapes().items()}


def norm(x, name):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPSILON) * weights[f"{name}.weight"]


def linear(x, name):
    return x @ weights[f"{name}.weight"].T


def rotated(x):  # [B, S, heads, SIZE]: channel c with channel c + SIZE / 2
    frequencies = BASE ** (-torch.arange(0, SIZE, 2) / SIZE)
    angles = torch.arange(SEQ)[:, None, None] * frequencies
    a, b = x.chunk(2, -1)
    return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], -1)


def attention(x, name):
    q, k, v = (linear(x, f"{name}.{part}").unflatten(-1, (-1, SIZE)) for part in "qkv")
    q, k = rotated(q), rotated(k)
    k, v = (each.repeat_interleave(HEADS // GROUPS, 2) for each in (k, v))
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / SIZE**0.5
    scores = scores.masked_fill(torch.ones(SEQ, SEQ, dtype=torch.bool).triu(1), -torch.inf)
    mixed = torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), v)
    return linear(mixed.flatten(2), f"{name}.out")


def mlp(x, name):
    gate, up = linear(x, f"{name}.gate"), linear(x, f"{name}.up")
    return linear(torch.nn.functional.silu(gate) * up, f"{name}.down")


def decoder_layer(x, name):
    x = x + attention(norm(x, f"{name}.attention_norm"), f"{name}.attention")
    return x + mlp(norm(x, f"{name}.mlp_norm"), f"{name}.mlp")


def mean_loss(hidden, labels, mask):
    log_probabilities = linear(hidden, "output").log_softmax(-1)
    losses = -log_probabilities.gather(-1, labels[..., None])[..., 0]
    return (losses * mask).sum() / mask.sum()


def ahead(x, distance):
    """What is so many positions later, and zeros behind the end of the sample."""
    return torch.cat([x[:, distance:], torch.zeros_like(x[:, :distance])], 1)


def losses_of(samples, mask):
    """Of one microbatch: the main loss, then those of the depths. samples [B, S + 1]."""
    tokens, labels = samples[:, :-1], samples[:, 1:]
    table = weights["embedding.word.weight"]
    x = table[tokens]
    for i in range(LAYERS):
        x = decoder_layer(x, f"layers.{i}")
    hidden = norm(x, "final_norm")
    losses = [mean_loss(hidden, labels, mask)]
    for j in range(DEPTHS):
        name = f"mtp.{j}"
        token = norm(table[ahead(tokens, j + 1)], f"{name}.enorm")
        joined = torch.cat([token, norm(hidden, f"{name}.hnorm")], -1)
        hidden = norm(decoder_layer(linear(joined, f"{name}.eh_proj"), name), f"{name}.final_norm")
        losses.append(mean_loss(hidden, ahead(labels, j + 1), ahead(mask, j + 1)))
    return torch.stack(losses)


samples = torch.randint(VOCAB, (MICROBATCHES, BATCH, SEQ + 1))
mask = (torch.rand(MICROBATCHES, BATCH, SEQ) > 0.25).double()
losses = torch.stack([losses_of(*batch) for batch in zip(samples, mask)]).mean(0)
(losses[0] + WEIGHT * losses[1:].mean()).backward()

tensors = {"samples": samples.int(), "mask": mask.float(), "losses": losses.detach()}
for name, weight in weights.items():
    tensors[f"weights.{name}"] = weight.detach()
    tensors[f"gradients.{name}"] = weight.grad
folder = pathlib.Path(__file__).parent / "data/mtp"
folder.mkdir(exist_ok=True)
save_file({name: tensor.contiguous() for name, tensor in tensors.items()},
          folder / "golden.safetensors")
print("losses", *losses.tolist())
