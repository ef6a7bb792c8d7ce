"""Runs transformers' models in true float64.

Stock transformers casts to float32 inside a float64 model: in RMSNorm, in the softmax of attention
and in RoPE. Here those three are written again from their definitions, and NoFloat32 proves that no
other cast is left.
"""

import math

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface, eager_mask


def llama3_keep(inv, p):
    """How much of a frequency stays (the rest is divided by the factor), by how often it turns in
    the original context."""
    low, high = p["low_freq_factor"], p["high_freq_factor"]
    turns = p["original_max_position_embeddings"] * inv / (2 * math.pi)
    return ((turns - low) / (high - low)).clamp(0, 1)


def yarn_keep(inv, p):
    """The same share for yarn, by the number of the channel pair."""
    dim = 2 * len(inv)

    def pair_with(turns):  # the (fractional) pair that turns so often in the original context
        length = p["original_max_position_embeddings"] / (2 * math.pi * turns)
        return dim * math.log(length) / (2 * math.log(p["rope_theta"]))

    low = max(math.floor(pair_with(p["beta_fast"])), 0)
    high = min(math.ceil(pair_with(p["beta_slow"])), dim - 1)
    return 1 - ((torch.arange(dim // 2, dtype=torch.float64) - low) / (high - low)).clamp(0, 1)


def rope_frequencies(config):
    """RoPE's frequencies [head_dim / 2], and the factor on cos and sin."""
    p = config.rope_parameters
    dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    inv = p["rope_theta"] ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    if p["rope_type"] == "default":
        return inv, 1.0
    if p["rope_type"] == "linear":
        return inv / p["factor"], 1.0
    keep = {"llama3": llama3_keep, "yarn": yarn_keep}[p["rope_type"]](inv, p)
    bands = (keep == 1), (keep > 0) & (keep < 1), (keep == 0)
    assert all(band.any() for band in bands), "the model must have frequencies in all three bands"
    attention_factor = 0.1 * math.log(p["factor"]) + 1 if p["rope_type"] == "yarn" else 1.0
    return keep * inv + (1 - keep) * inv / p["factor"], attention_factor


class DoubleRope(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        self.inv, self.factor = rope_frequencies(config)

    def forward(self, x, position_ids):  # -> cos, sin [batch, seq, head_dim]
        angles = (position_ids[..., None] * self.inv).repeat(1, 1, 2)
        return angles.cos() * self.factor, angles.sin() * self.factor


class DoubleRmsNorm(torch.nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.weight, self.eps = norm.weight, norm.variance_epsilon

    def forward(self, x):
        return self.weight * x / torch.sqrt(x.square().mean(-1, keepdim=True) + self.eps)


def double_attention(module, query, key, value, attention_mask, scaling, **_):
    """query [batch, heads, seq, head_dim], key and value with a divisor of heads
    -> [batch, seq, heads, head_dim]. attention_mask is 0 or the lowest number, and is added."""
    group = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
    scores = query @ key.transpose(2, 3) * scaling + attention_mask
    return (scores.softmax(-1) @ value).transpose(1, 2), None


# A model loaded with attn_implementation="double" calls double_attention.
AttentionInterface.register("double", double_attention)
AttentionMaskInterface.register("double", eager_mask)


def to_double(model):
    """Turns a float32 model with "double" attention into a float64 one with the same weights."""
    model.double()
    for name, module in list(model.named_modules()):
        if name.endswith("rotary_emb"):
            model.set_submodule(name, DoubleRope(model.config))
        elif hasattr(module, "variance_epsilon"):  # RMSNorm, whatever the family calls it
            model.set_submodule(name, DoubleRmsNorm(module))
    return model


class NoFloat32(TorchDispatchMode):
    """Fails on any operation, forward or backward, that makes a float32 tensor."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for x in out if isinstance(out, (tuple, list)) else [out]:
            narrow = isinstance(x, torch.Tensor) and x.dtype == torch.float32
            assert not narrow, f"{func} makes a float32 tensor in a float64 run"
        return out
