"""The tiny models of the golden files: their configurations, random weights and batches, and the
folders that hold them in Hugging Face's format."""

import json
import shutil
from dataclasses import dataclass

import torch
from transformers import (AutoConfig, AutoModelForCausalLM, GPT2Config, LlamaConfig, MistralConfig,
                          PreTrainedConfig, Qwen2Config, Qwen3Config)

STEPS = 5


@dataclass
class Golden:
    config: PreTrainedConfig
    batch: int
    seq: int
    seed: int
    std: float = 0.14       # of the matrices
    v4_keys: bool = False   # config.json as transformers 4 wrote it
    sharded: bool = False   # the weights in two files


def rope(theta, rope_type="default", **scaling):
    return {"rope_theta": theta, "rope_type": rope_type, **scaling}


# Sizes are awkward on purpose: odd vocabularies, ffn sizes that are no multiple of 16, and in qwen3
# and llama_yarn head_dim * heads != hidden_size.
MODELS = {
    # the small std lets the gradient norm fall below 1: the last steps are not clipped
    "gpt2": Golden(GPT2Config(
        vocab_size=101, n_positions=32, n_embd=28, n_layer=2, n_head=2, embd_pdrop=0.0,
        attn_pdrop=0.0, resid_pdrop=0.0, bos_token_id=0, eos_token_id=0),
        batch=3, seq=24, seed=1, std=0.12),
    # wave lengths 6.3 | 15.8 39.6 | 99.6 250: kept below 12, divided above 48, blended between
    "llama3": Golden(LlamaConfig(
        vocab_size=97, hidden_size=40, intermediate_size=52, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=192,
        rms_norm_eps=1e-5,
        rope_parameters=rope(100.0, "llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
                             original_max_position_embeddings=48)),
        batch=2, seq=29, seed=2, v4_keys=True, sharded=True),
    "mistral": Golden(MistralConfig(
        vocab_size=99, hidden_size=32, intermediate_size=44, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64, sliding_window=7,
        rope_parameters=rope(1000.0)),
        batch=2, seq=24, seed=3),
    # full attention in layer 0, a window in layer 1
    "qwen2": Golden(Qwen2Config(
        vocab_size=103, hidden_size=32, intermediate_size=44, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
        tie_word_embeddings=True, use_sliding_window=True, sliding_window=9, max_window_layers=1,
        rope_parameters=rope(500.0)),
        batch=2, seq=25, seed=4, v4_keys=True),
    "qwen3": Golden(Qwen3Config(
        vocab_size=97, hidden_size=40, intermediate_size=36, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, head_dim=16, max_position_embeddings=64,
        tie_word_embeddings=True, rope_parameters=rope(2000.0)),
        batch=3, seq=24, seed=5),
    "llama_linear": Golden(LlamaConfig(
        vocab_size=97, hidden_size=32, intermediate_size=36, num_hidden_layers=2,
        num_attention_heads=4, max_position_embeddings=128,
        rope_parameters=rope(10000.0, "linear", factor=4.0)),
        batch=2, seq=24, seed=6, v4_keys=True),
    # channel pairs 0 and 1 keep their frequency, 2 and 3 are blended, 4 and 5 divided
    "llama_yarn": Golden(LlamaConfig(
        vocab_size=97, hidden_size=32, intermediate_size=44, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, head_dim=12, max_position_embeddings=256,
        attention_bias=True, mlp_bias=True,
        rope_parameters=rope(80.0, "yarn", factor=4.0, beta_fast=4.0, beta_slow=1.0,
                             original_max_position_embeddings=64)),
        batch=3, seq=24, seed=7),
}


def draw_weights(model, std, generator):
    """Nothing is trivial: norm weights differ from 1, biases from 0, attention is not uniform."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=generator)
            if p.dim() >= 2:
                p.copy_(std * noise)
            elif name.endswith(".bias"):
                p.copy_(0.2 * noise)
            else:
                p.copy_(1.0 + 0.2 * noise)


def draw_batches(golden, generator):
    """tokens [steps, batch, seq + 1], loss_mask [steps, batch, seq], a quarter of it zeros."""
    shape = (STEPS, golden.batch, golden.seq)
    tokens = torch.randint(golden.config.vocab_size, (*shape[:2], golden.seq + 1),
                           generator=generator, dtype=torch.int32)
    return tokens, (torch.rand(shape, generator=generator) > 0.25).float()


def to_v4_keys(config):
    """Version 4 has rope_theta and rope_scaling, and no keys that can be derived from others."""
    scaling = config.pop("rope_parameters")
    config["rope_theta"] = scaling.pop("rope_theta")
    config["rope_scaling"] = None if scaling["rope_type"] == "default" else scaling
    config["torch_dtype"] = config.pop("dtype")
    config.pop("layer_types", None)
    config.pop("head_dim", None)
    if scaling["rope_type"] == "linear":  # the oldest files: before "rope_type", and before GQA
        scaling["type"] = scaling.pop("rope_type")
        del config["num_key_value_heads"]
    return config


def write_config(path, golden):
    if golden.v4_keys:
        keys = to_v4_keys(json.loads(path.read_text()))
        path.write_text(json.dumps(keys, indent=2, sort_keys=True) + "\n")
    read, meant = (c.to_dict() for c in (AutoConfig.from_pretrained(path.parent), golden.config))
    read.get("rope_parameters", {}).pop("type", None)
    origin = {"architectures", "dtype", "_name_or_path", "transformers_version"}
    for key in meant.keys() - origin:
        assert read[key] == meant[key], f"{path}: {key} is read as {read[key]}, not {meant[key]}"


def write_model(folder, golden, generator):
    shutil.rmtree(folder, ignore_errors=True)
    model = AutoModelForCausalLM.from_config(golden.config, dtype=torch.float32)
    draw_weights(model, golden.std, generator)
    weight_bytes = 4 * sum(p.numel() for p in model.parameters())
    shard_bytes = weight_bytes * 6 // 10 if golden.sharded else weight_bytes
    model.save_pretrained(folder, max_shard_size=shard_bytes)
    assert len(list(folder.glob("model*.safetensors"))) == (2 if golden.sharded else 1)
    (folder / "generation_config.json").unlink()
    write_config(folder / "config.json", golden)
