"""The tiny models of the golden files: their configurations, random weights and batches, and the
folders that hold them in Hugging Face's format."""

import json
import shutil
from dataclasses import dataclass

import torch
from transformers import (AutoConfig, AutoModelForCausalLM, Cohere2Config, CohereConfig,
                          DeepseekV2Config, DeepseekV3Config, Gemma2Config, Gemma3TextConfig,
                          GemmaConfig, Glm4MoeConfig, GPT2Config, GPTNeoXConfig, GptOssConfig,
                          GraniteConfig, GraniteMoeConfig, Llama4TextConfig, LlamaConfig,
                          MistralConfig, MixtralConfig, Olmo2Config, OlmoeConfig,
                          Phi3Config, PreTrainedConfig, Qwen2Config, Qwen2MoeConfig, Qwen3Config,
                          Qwen3MoeConfig)

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
    sdpa: bool = True       # False if torch's sdpa attention cannot compute the model


def rope(theta, rope_type="default", **scaling):
    return {"rope_theta": theta, "rope_type": rope_type, **scaling}


# With a pad_token_id transformers gives that row of the embedding no gradient.
TOKENS = dict(pad_token_id=None, bos_token_id=2, eos_token_id=1)

# Sizes are awkward on purpose: odd vocabularies, ffn sizes that are no multiple of 16, and in
# qwen3, llama_yarn and the Gemma models head_dim * heads != hidden_size.
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
    # one key head; config.json says "gelu", which means the tanh approximation in this family
    "gemma": Golden(GemmaConfig(
        vocab_size=67, hidden_size=24, intermediate_size=28, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=1, head_dim=8, max_position_embeddings=64,
        rope_parameters=rope(1000.0), **TOKENS),
        batch=2, seq=24, seed=8, v4_keys=True),
    # a window in layers 0 and 2; scores and logits are large enough for the soft caps to matter
    "gemma2": Golden(Gemma2Config(
        vocab_size=61, hidden_size=20, intermediate_size=24, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=2, head_dim=8, max_position_embeddings=64,
        query_pre_attn_scalar=5, sliding_window=6, attn_logit_softcapping=1.5,
        final_logit_softcapping=2.5, rope_parameters=rope(1000.0), **TOKENS),
        batch=2, seq=23, seed=47, v4_keys=True, sdpa=False),
    # a window and the local RoPE base in layers 0 and 1, the scaled global base in layer 2
    "gemma3": Golden(Gemma3TextConfig(
        vocab_size=61, hidden_size=20, intermediate_size=24, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=2, head_dim=8, max_position_embeddings=64,
        query_pre_attn_scalar=12, sliding_window=6, sliding_window_pattern=3,
        rope_parameters={"sliding_attention": rope(100.0),
                         "full_attention": rope(2000.0, "linear", factor=4.0)}, **TOKENS),
        batch=3, seq=20, seed=14, std=0.4, v4_keys=True),
    # 4 of 6 channels rotate: int(6 * 0.7)
    "phi3": Golden(Phi3Config(
        vocab_size=59, hidden_size=24, intermediate_size=28, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64, sliding_window=8,
        rope_parameters=rope(500.0, partial_rotary_factor=0.7), **TOKENS),
        batch=2, seq=23, seed=11),
    # longer than the original context: the long factors
    "phi3_long": Golden(Phi3Config(
        vocab_size=59, hidden_size=16, intermediate_size=20, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=64,
        original_max_position_embeddings=16, tie_word_embeddings=True,
        rope_parameters=rope(500.0, "longrope", partial_rotary_factor=0.75,
                             short_factor=[1.0, 1.25, 1.5], long_factor=[1.5, 2.25, 4.0]),
        **TOKENS),
        batch=2, seq=23, seed=12),
    # as long as the original context: the short factors, and still the attention factor
    "phi3_short": Golden(Phi3Config(
        vocab_size=59, hidden_size=16, intermediate_size=20, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=92,
        original_max_position_embeddings=23,
        rope_parameters=rope(500.0, "longrope", short_factor=[1.0, 1.25, 1.5, 1.75],
                             long_factor=[1.5, 2.25, 4.0, 6.0]), **TOKENS),
        batch=2, seq=23, seed=13, v4_keys=True),
    "olmo2": Golden(Olmo2Config(
        vocab_size=61, hidden_size=24, intermediate_size=28, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
        rope_parameters=rope(1000.0), **TOKENS),
        batch=2, seq=23, seed=26, std=0.2),
    "granite": Golden(GraniteConfig(
        vocab_size=67, hidden_size=24, intermediate_size=28, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
        embedding_multiplier=6.0, attention_multiplier=0.3, residual_multiplier=0.6,
        logits_scaling=1.25, tie_word_embeddings=True, rope_parameters=rope(1000.0), **TOKENS),
        batch=2, seq=24, seed=15, std=0.2),
    "gpt_neox": Golden(GPTNeoXConfig(
        vocab_size=53, hidden_size=32, intermediate_size=20, num_hidden_layers=2,
        num_attention_heads=2, max_position_embeddings=64,
        rope_parameters=rope(100.0, partial_rotary_factor=0.25), **TOKENS),
        batch=2, seq=23, seed=16),
    "gpt_neox_sequential": Golden(GPTNeoXConfig(
        vocab_size=53, hidden_size=24, intermediate_size=28, num_hidden_layers=2,
        num_attention_heads=3, max_position_embeddings=64, use_parallel_residual=False,
        rope_parameters=rope(100.0, partial_rotary_factor=0.5), **TOKENS),
        batch=2, seq=23, seed=17, v4_keys=True),
    "cohere": Golden(CohereConfig(
        vocab_size=67, hidden_size=24, intermediate_size=28, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64, logit_scale=0.75,
        rope_parameters=rope(1000.0), **TOKENS),
        batch=2, seq=24, seed=18, std=0.2),
    "cohere_qk_norm": Golden(CohereConfig(
        vocab_size=67, hidden_size=24, intermediate_size=20, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64, logit_scale=0.75,
        use_qk_norm=True, attention_bias=True, rope_parameters=rope(1000.0), **TOKENS),
        batch=2, seq=24, seed=19, std=0.2),
    # a window and RoPE in layers 0 and 1, neither in layer 2
    "cohere2": Golden(Cohere2Config(
        vocab_size=61, hidden_size=24, intermediate_size=20, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64, logit_scale=0.75,
        sliding_window=6, sliding_window_pattern=3, rope_parameters=rope(1000.0), **TOKENS),
        batch=2, seq=23, seed=20, std=0.2, v4_keys=True),
    "mixtral": Golden(MixtralConfig(
        vocab_size=61, hidden_size=24, intermediate_size=20, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
        num_local_experts=6, num_experts_per_tok=2, router_aux_loss_coef=0.05,
        rope_parameters=rope(1000.0), **TOKENS),
        batch=2, seq=23, seed=21, std=0.2),
    # no experts in layer 0
    "qwen3_moe": Golden(Qwen3MoeConfig(
        vocab_size=61, hidden_size=24, intermediate_size=28, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=2, head_dim=8, max_position_embeddings=64,
        num_experts=6, num_experts_per_tok=3, moe_intermediate_size=20, norm_topk_prob=True,
        mlp_only_layers=[0], router_aux_loss_coef=0.05, rope_parameters=rope(1000.0), **TOKENS),
        batch=2, seq=23, seed=24, std=0.16),
    # every third of 3 layers has experts; the weights of the chosen ones stay as they are
    "qwen3_moe_v4": Golden(Qwen3MoeConfig(
        vocab_size=59, hidden_size=24, intermediate_size=28, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=2, head_dim=8, max_position_embeddings=64,
        num_experts=4, num_experts_per_tok=1, moe_intermediate_size=16, norm_topk_prob=False,
        decoder_sparse_step=3, use_sliding_window=True, sliding_window=7, tie_word_embeddings=True,
        router_aux_loss_coef=0.05, rope_parameters=rope(1000.0), **TOKENS),
        batch=2, seq=23, seed=24, std=0.16, v4_keys=True),
    # a gated shared expert; no experts in layer 1
    "qwen2_moe": Golden(Qwen2MoeConfig(
        vocab_size=61, hidden_size=24, intermediate_size=28, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
        num_experts=6, num_experts_per_tok=2, moe_intermediate_size=20,
        shared_expert_intermediate_size=16, mlp_only_layers=[1], router_aux_loss_coef=0.05,
        rope_parameters=rope(1000.0), **TOKENS),
        batch=2, seq=23, seed=30, std=0.16),
    # 2 of 3 groups of experts; 4 of 8 channels rotate
    "glm4_moe": Golden(Glm4MoeConfig(
        vocab_size=61, hidden_size=24, intermediate_size=28, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, head_dim=8, max_position_embeddings=64,
        attention_bias=True, use_qk_norm=True, n_routed_experts=6, num_experts_per_tok=3,
        moe_intermediate_size=20, n_shared_experts=2, n_group=3, topk_group=2,
        routed_scaling_factor=1.5, num_nextn_predict_layers=0,
        rope_parameters=rope(1000.0, partial_rotary_factor=0.5), **TOKENS),
        batch=2, seq=23, seed=30, std=0.14),
    "glm4_moe_v4": Golden(Glm4MoeConfig(
        vocab_size=59, hidden_size=24, intermediate_size=28, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=2, head_dim=8, max_position_embeddings=64,
        n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=16,
        first_k_dense_replace=2, tie_word_embeddings=True,
        rope_parameters=rope(1000.0, partial_rotary_factor=0.75), **TOKENS),
        batch=2, seq=23, seed=26, std=0.14, v4_keys=True),
    "olmoe": Golden(OlmoeConfig(
        vocab_size=61, hidden_size=24, intermediate_size=20, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64, num_experts=6,
        num_experts_per_tok=3, router_aux_loss_coef=0.05, rope_parameters=rope(1000.0), **TOKENS),
        batch=2, seq=23, seed=24, std=0.16),
    "granitemoe": Golden(GraniteMoeConfig(
        vocab_size=61, hidden_size=24, intermediate_size=20, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
        embedding_multiplier=6.0, attention_multiplier=0.3, residual_multiplier=0.6,
        logits_scaling=1.25, num_local_experts=6, num_experts_per_tok=2, tie_word_embeddings=True,
        router_aux_loss_coef=0.05, rope_parameters=rope(1000.0), **TOKENS),
        batch=2, seq=23, seed=24, std=0.2),
    # no layer has experts; the pairs of the 12 rotated channels are those of llama_yarn
    "deepseek_v3": Golden(DeepseekV3Config(
        vocab_size=61, hidden_size=28, intermediate_size=36, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=256, q_lora_rank=18,
        kv_lora_rank=14, qk_nope_head_dim=8, qk_rope_head_dim=12, v_head_dim=10,
        first_k_dense_replace=2, num_mtp_layers=0, eos_token_id=1, bos_token_id=2,
        rope_parameters=rope(80.0, "yarn", factor=4.0, beta_fast=4.0, beta_slow=1.0, mscale=0.8,
                             mscale_all_dim=1.3, original_max_position_embeddings=64)),
        batch=2, seq=24, seed=27),
    # queries without a latent (DeepSeek-V2-Lite)
    "deepseek_v3_plain_queries": Golden(DeepseekV3Config(
        vocab_size=53, hidden_size=24, intermediate_size=28, num_hidden_layers=2,
        num_attention_heads=3, num_key_value_heads=3, max_position_embeddings=64, q_lora_rank=None,
        kv_lora_rank=10, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=8,
        first_k_dense_replace=2, num_mtp_layers=0, tie_word_embeddings=True, eos_token_id=1,
        bos_token_id=2, rope_parameters=rope(1000.0)),
        batch=2, seq=23, seed=29, v4_keys=True),
    # no experts in layer 0; 2 of 3 groups of experts
    "deepseek_v3_moe": Golden(DeepseekV3Config(
        vocab_size=61, hidden_size=24, intermediate_size=28, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=64, q_lora_rank=14,
        kv_lora_rank=10, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=8,
        first_k_dense_replace=1, moe_intermediate_size=20, n_routed_experts=6,
        num_experts_per_tok=3, n_shared_experts=2, n_group=3, topk_group=2,
        routed_scaling_factor=1.5, num_mtp_layers=0, eos_token_id=1, bos_token_id=2,
        rope_parameters=rope(1000.0)),
        batch=2, seq=23, seed=30),
    # a window in layers 0 and 2; bounds of yarn between channels
    "gpt_oss": Golden(GptOssConfig(
        vocab_size=61, hidden_size=24, intermediate_size=20, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=2, head_dim=12, max_position_embeddings=256,
        sliding_window=6, num_local_experts=6, num_experts_per_tok=3, router_aux_loss_coef=0.05,
        rope_parameters=rope(80.0, "yarn", factor=4.0, beta_fast=4.0, beta_slow=1.0, truncate=False,
                             original_max_position_embeddings=64), **TOKENS),
        batch=2, seq=23, seed=31, std=0.14, sdpa=False),
    # chunks, RoPE and norms of heads in layers 0 and 1, a temperature in layer 2; experts in layer 1;
    # the 10 channels of a head turn as those of llama3
    "llama4": Golden(Llama4TextConfig(
        vocab_size=61, hidden_size=24, intermediate_size=20, intermediate_size_mlp=28,
        num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=10,
        max_position_embeddings=192, num_local_experts=6, interleave_moe_layer_step=2,
        no_rope_layer_interval=3, attention_chunk_size=7, floor_scale=4, attn_scale=0.4,
        router_aux_loss_coef=0.0,
        rope_parameters=rope(100.0, "llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
                             original_max_position_embeddings=48), **TOKENS),
        batch=2, seq=23, seed=32, std=0.16),
    # no experts in layer 0; 2 of 3 groups of experts; RoPE as in deepseek_v3
    "deepseek_v2": Golden(DeepseekV2Config(
        vocab_size=61, hidden_size=28, intermediate_size=36, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=256, q_lora_rank=18,
        kv_lora_rank=14, qk_nope_head_dim=8, qk_rope_head_dim=12, v_head_dim=10,
        first_k_dense_replace=1, moe_intermediate_size=20, n_routed_experts=6,
        num_experts_per_tok=3, n_shared_experts=2, topk_method="group_limited_greedy", n_group=3,
        topk_group=2, routed_scaling_factor=1.5, eos_token_id=1, bos_token_id=2,
        rope_parameters=rope(80.0, "yarn", factor=4.0, beta_fast=4.0, beta_slow=1.0, mscale=0.8,
                             mscale_all_dim=1.3, original_max_position_embeddings=64)),
        batch=2, seq=24, seed=31),
    # queries without a latent, and no groups
    "deepseek_v2_lite": Golden(DeepseekV2Config(
        vocab_size=53, hidden_size=24, intermediate_size=28, num_hidden_layers=2,
        num_attention_heads=3, num_key_value_heads=3, max_position_embeddings=64, q_lora_rank=None,
        kv_lora_rank=10, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=8,
        moe_intermediate_size=16, n_routed_experts=5, num_experts_per_tok=2, n_shared_experts=1,
        eos_token_id=1, bos_token_id=2, rope_parameters=rope(1000.0)),
        batch=2, seq=23, seed=33, v4_keys=True),
}


def is_matrix(name, p):
    """Cohere's q_norm and k_norm have two dimensions, [heads, head_dim], and are no matrices; nor are
    the biases of gpt-oss's experts, [experts, out]."""
    return p.dim() >= 2 and "norm" not in name and not name.endswith("_bias")


def expert_biases(model):
    """The biases of experts for the choice, by name. They are not trained."""
    return {name: b for name, b in model.named_buffers() if name.endswith("correction_bias")}


def draw_weights(model, std, generator):
    """Nothing is trivial: norm weights differ from 1 (in Gemma from 0), biases from 0, attention is
    not uniform."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=generator)
            if is_matrix(name, p):
                p.copy_(std * noise)
            elif name.endswith("sinks"):
                p.copy_(noise)
            elif name.endswith("gate_up_proj_bias"):  # some gates are beyond the limit of 7
                p.copy_(5 * noise)
            else:
                p.add_(0.2 * noise)
        for bias in expert_biases(model).values():
            bias.copy_(0.1 * torch.randn(bias.shape, generator=generator))


def draw_batches(golden, generator):
    """tokens [steps, batch, seq + 1], loss_mask [steps, batch, seq], a quarter of it zeros."""
    shape = (STEPS, golden.batch, golden.seq)
    tokens = torch.randint(golden.config.vocab_size, (*shape[:2], golden.seq + 1),
                           generator=generator, dtype=torch.int32)
    return tokens, (torch.rand(shape, generator=generator) > 0.25).float()


def to_v4_keys(config):
    """Version 4 has rope_theta and rope_scaling, and no keys that can be derived from others."""
    family = config["model_type"]
    scaling = config.pop("rope_parameters")
    if family == "gemma3_text":  # one for each kind of layer
        config["rope_local_base_freq"] = scaling["sliding_attention"]["rope_theta"]
        scaling = scaling["full_attention"]
    names = {"rope_theta": "rope_theta", "partial_rotary_factor": "partial_rotary_factor"}
    if family == "gpt_neox":
        names = {"rope_theta": "rotary_emb_base", "partial_rotary_factor": "rotary_pct"}
    config |= {new: scaling.pop(old) for old, new in names.items() if old in scaling}
    config["rope_scaling"] = None if scaling["rope_type"] == "default" else scaling
    config["torch_dtype"] = config.pop("dtype")
    layer_types = config.pop("layer_types", None)
    if family in ("gemma3_text", "cohere2"):
        config["sliding_window_pattern"] = layer_types.index("full_attention") + 1
        config.pop("_sliding_window_pattern", None)
    if family == "glm4_moe":  # version 4 does not have it
        del config["num_nextn_predict_layers"]
    if config.get("head_dim") == config["hidden_size"] // config["num_attention_heads"]:
        del config["head_dim"]
    if family == "qwen3_moe":
        config["num_experts"] = config.pop("num_local_experts")
    if family == "gemma":  # the name in the first files
        config["hidden_act"] = "gelu"
    if family in ("llama", "phi3") and scaling["rope_type"] in ("linear", "longrope"):
        scaling["type"] = scaling.pop("rope_type")  # files from before "rope_type"
    if family == "phi3":  # has it beside rope_scaling
        scaling.pop("original_max_position_embeddings", None)
    if family == "llama" and "type" in scaling:  # ... and from before GQA
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
    weights = [*model.parameters(), *expert_biases(model).values()]
    weight_bytes = 4 * sum(w.numel() for w in weights)
    shard_bytes = weight_bytes * 6 // 10 if golden.sharded else weight_bytes
    model.save_pretrained(folder, max_shard_size=shard_bytes)
    assert len(list(folder.glob("model*.safetensors"))) == (2 if golden.sharded else 1)
    (folder / "generation_config.json").unlink()
    write_config(folder / "config.json", golden)
