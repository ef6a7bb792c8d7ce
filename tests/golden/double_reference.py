"""Runs transformers' models in true float64.

Stock transformers casts to float32 inside a float64 model: in RMSNorm and Cohere's LayerNorm, in
the softmax of attention, in RoPE, in Gemma's factor on the embedding and in the routers of experts. Here those are written
again from their definitions (in Llama 4 the casts are to float64 instead), and NoFloat32 proves that
no other cast is left.
"""

import contextlib
import math
from unittest import mock

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

    low, high = pair_with(p["beta_fast"]), pair_with(p["beta_slow"])
    if p.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    return 1 - ((torch.arange(dim // 2, dtype=torch.float64) - low) / (high - low)).clamp(0, 1)


def rope_frequencies(config, layer_type, length):
    """RoPE's frequencies [rotated channels / 2] in a layer, and the factor on cos and sin."""
    p = config.rope_parameters
    p = p.get(layer_type, p)  # Gemma 3 has parameters for each kind of layer
    dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    dim = int(dim * p.get("partial_rotary_factor", 1.0))
    inv = p["rope_theta"] ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    if p["rope_type"] == "default":
        return inv, 1.0
    if p["rope_type"] == "linear":
        return inv / p["factor"], 1.0
    if p["rope_type"] == "longrope":
        original = p["original_max_position_embeddings"]
        factors = p["long_factor"] if length > original else p["short_factor"]
        growth = math.log(config.max_position_embeddings / original) / math.log(original)
        return inv / torch.tensor(factors, dtype=torch.float64), math.sqrt(1 + growth)
    keep = {"llama3": llama3_keep, "yarn": yarn_keep}[p["rope_type"]](inv, p)
    bands = (keep == 1), (keep > 0) & (keep < 1), (keep == 0)
    assert all(band.any() for band in bands), "the model must have frequencies in all three bands"
    attention_factor = 1.0
    if p["rope_type"] == "yarn":  # DeepSeek has two scales, of which one is for the scores as well
        scale, of_scores = (0.1 * m * math.log(p["factor"]) + 1
                            for m in (p.get("mscale", 1.0), p.get("mscale_all_dim", 0.0)))
        attention_factor = scale / of_scores
    return keep * inv + (1 - keep) * inv / p["factor"], attention_factor


def rotates_pairs(config):
    """Whether RoPE rotates neighbouring channels, not channels that are half a head apart."""
    return config.model_type in ("cohere", "cohere2")


class DoubleRope(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config

    def forward(self, x, position_ids, layer_type=None):  # -> cos, sin [batch, seq, rotated]
        length = int(position_ids.max()) + 1
        inv, factor = rope_frequencies(self.config, layer_type, length)
        angles = position_ids[..., None] * inv
        if self.config.model_type == "llama4_text":  # complex numbers, one for a pair
            return torch.polar(torch.full_like(angles, factor), angles)
        if self.config.model_type == "gpt_oss":  # one value for a pair
            return angles.cos() * factor, angles.sin() * factor
        if self.config.model_type == "deepseek_v2":  # one complex number
            return torch.polar(torch.full_like(angles, factor), angles)
        if rotates_pairs(self.config):
            angles = angles.repeat_interleave(2, -1)
        else:
            angles = angles.repeat(1, 1, 2)
        return angles.cos() * factor, angles.sin() * factor


def turn_pairs(x, turns):
    """x [batch, heads, seq, channels], of which neighbours are a complex number, times turns
    [batch, seq, channels / 2]"""
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * turns[:, None]).flatten(-2)


def rotate_pairs(query, key, cos, sin):
    """Cohere's RoPE, as a product of complex numbers. query, key [batch, heads, seq, head_dim]"""
    turns = torch.complex(cos[..., ::2], sin[..., ::2])
    return turn_pairs(query, turns), turn_pairs(key, turns)


def rotate_by_turns(query, key, turns):
    """DeepSeek-V2's."""
    return turn_pairs(query, turns), turn_pairs(key, turns)


class DoubleNorm(torch.nn.Module):
    """RMSNorm, with 1 + weight in Gemma, and LayerNorm without a bias."""

    def __init__(self, norm):
        super().__init__()
        name = type(norm).__name__
        self.weight = norm.weight
        self.eps = norm.eps if hasattr(norm, "eps") else norm.variance_epsilon
        self.offset = 1.0 if name.startswith("Gemma") else 0.0
        self.centered = name.endswith("LayerNorm")

    def forward(self, x):
        if self.centered:
            x = x - x.mean(-1, keepdim=True)
        weight = self.offset + self.weight
        return weight * x / torch.sqrt(x.square().mean(-1, keepdim=True) + self.eps)


class DoubleSigmoidRouter(torch.nn.Module):
    """Sigmoids, and a choice by these plus a bias among the best groups of experts."""

    def __init__(self, router):
        super().__init__()
        self.weight = router.weight
        self.register_buffer("e_score_correction_bias", router.e_score_correction_bias)
        self.top_k, self.scale = router.top_k, router.routed_scaling_factor
        self.groups, self.top_groups = router.num_group, router.topk_group

    def forward(self, x):  # -> logits, weights and numbers of the chosen experts
        logits = x.reshape(-1, x.shape[-1]) @ self.weight.T
        scores = logits.sigmoid()
        by_group = (scores + self.e_score_correction_bias).unflatten(-1, (self.groups, -1))
        groups = by_group.topk(2, dim=-1).values.sum(-1).topk(self.top_groups, dim=-1).indices
        allowed = torch.zeros_like(by_group[..., 0], dtype=torch.bool).scatter_(-1, groups, True)
        choice = by_group.masked_fill(~allowed[..., None], -torch.inf).flatten(-2)
        chosen = choice.topk(self.top_k, dim=-1).indices
        weights = scores.gather(-1, chosen)
        return logits, self.scale * weights / weights.sum(-1, keepdim=True), chosen


class DoubleGroupRouter(torch.nn.Module):
    """The softmax over all experts. The chosen ones are the best of all, or of the groups with the
    best single experts."""

    def __init__(self, router):
        super().__init__()
        self.weight = router.weight
        self.top_k, self.scale = router.top_k, router.routed_scaling_factor
        limited = router.topk_method == "group_limited_greedy"
        self.groups, self.top_groups = (router.num_group, router.topk_group) if limited else (1, 1)

    def forward(self, x):  # -> logits, weights and numbers of the chosen experts
        logits = x.reshape(-1, x.shape[-1]) @ self.weight.T
        by_group = logits.softmax(-1).unflatten(-1, (self.groups, -1))
        groups = by_group.amax(-1).topk(self.top_groups, dim=-1).indices
        allowed = torch.zeros_like(by_group[..., 0], dtype=torch.bool).scatter_(-1, groups, True)
        choice = by_group.masked_fill(~allowed[..., None], 0).flatten(-2)
        weights, chosen = choice.topk(self.top_k, dim=-1)
        return logits, self.scale * weights, chosen


class DoubleRouter(torch.nn.Module):
    """The softmax over all experts, of which the chosen ones' are divided by their sum or not."""

    def __init__(self, router):
        super().__init__()
        self.weight = router.weight
        self.top_k = router.top_k
        self.normalized = getattr(router, "norm_topk_prob", True)  # Mixtral always does

    def forward(self, x):  # -> logits, weights and numbers of the chosen experts
        logits = x.reshape(-1, x.shape[-1]) @ self.weight.T
        weights, chosen = logits.softmax(-1).topk(self.top_k, dim=-1)
        if self.normalized:
            weights = weights / weights.sum(-1, keepdim=True)
        return logits, weights, chosen


def double_attention(module, query, key, value, attention_mask, scaling, softcap=None, s_aux=None,
                     **_):
    """query [batch, heads, seq, head_dim], key and value with a divisor of heads
    -> [batch, seq, heads, head_dim]. attention_mask is 0 or the lowest number, and is added. s_aux
    [heads] is a score without a value (gpt-oss)."""
    group = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
    scores = query @ key.transpose(2, 3) * scaling
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    scores = scores + attention_mask
    if s_aux is not None:
        sums = torch.logaddexp(scores.logsumexp(-1, keepdim=True), s_aux[:, None, None])
        return ((scores - sums).exp() @ value).transpose(1, 2), None
    return (scores.softmax(-1) @ value).transpose(1, 2), None


# A model loaded with attn_implementation="double" calls double_attention.
AttentionInterface.register("double", double_attention)
AttentionMaskInterface.register("double", eager_mask)


def to_double(model):
    """Turns a float32 model with "double" attention into a float64 one with the same weights."""
    model.double()
    for name, module in list(model.named_modules()):
        kind = type(module).__name__
        if name.endswith("rotary_emb"):
            model.set_submodule(name, DoubleRope(model.config))
        elif kind.endswith("RMSNorm") or kind in ("CohereLayerNorm", "Cohere2LayerNorm"):
            model.set_submodule(name, DoubleNorm(module))
        elif kind == "DeepseekV2TopkRouter":
            model.set_submodule(name, DoubleGroupRouter(module))
        elif kind.endswith("TopkRouter"):
            model.set_submodule(name, DoubleSigmoidRouter(module))
        elif kind.endswith("TopKRouter") and kind != "GptOssTopKRouter":  # that one casts nothing
            model.set_submodule(name, DoubleRouter(module))
        elif kind.endswith("ScaledWordEmbedding"):
            module.embed_scale.fill_(math.sqrt(model.config.hidden_size))
    return model


def double_rotation(model):
    """While this is entered, Cohere's models and DeepSeek-V2 do not cast to float32 in RoPE, nor Llama 4's anywhere."""
    module = type(model).__module__
    if model.config.model_type == "llama4_text":
        return mock.patch.object(torch.Tensor, "float", torch.Tensor.double)
    if model.config.model_type == "deepseek_v2":
        return mock.patch(f"{module}.apply_rotary_emb", rotate_by_turns)
    if rotates_pairs(model.config):
        return mock.patch(f"{module}.apply_rotary_pos_emb", rotate_pairs)
    return contextlib.nullcontext()


class NoFloat32(TorchDispatchMode):
    """Fails on any operation, forward or backward, that makes a float32 tensor."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for x in out if isinstance(out, (tuple, list)) else [out]:
            narrow = isinstance(x, torch.Tensor) and x.dtype == torch.float32
            assert not narrow, f"{func} makes a float32 tensor in a float64 run"
        return out
