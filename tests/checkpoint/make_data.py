"""Makes tests/checkpoint/data: tiny models of each family as transformers saves them.

Needs torch, transformers and safetensors. Usage: python make_data.py [FAMILY...]

Element j of the tensor that is k-th by name in the checkpoint holds (31 k + j) mod 251 - 125, a number that every
float type has, so that the tests can tell each element's origin.
"""

import pathlib
import shutil
import sys

import torch
import transformers
from safetensors.torch import load_file, save_file

DATA = pathlib.Path(__file__).parent / "data"

SMALL = dict(
    vocab_size=11,
    hidden_size=8,
    intermediate_size=12,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=64,
)

ONE_LAYER = SMALL | dict(num_hidden_layers=1)

MODELS = {
    "gpt2": transformers.GPT2Config(vocab_size=11, n_positions=6, n_embd=6, n_layer=2, n_head=2, n_inner=10),
    "llama": transformers.LlamaConfig(
        **SMALL,
        attention_bias=True,
        dtype="bfloat16",
        rope_parameters=dict(
            rope_type="llama3",
            rope_theta=500000.0,
            factor=8.0,
            low_freq_factor=1.0,
            high_freq_factor=4.0,
            original_max_position_embeddings=32,
        ),
    ),
    "mistral": transformers.MistralConfig(**ONE_LAYER, head_dim=6, sliding_window=16, dtype="float16"),
    "qwen2": transformers.Qwen2Config(
        **SMALL,
        use_sliding_window=True,
        sliding_window=5,
        max_window_layers=1,
        tie_word_embeddings=True,
        dtype="bfloat16",
    ),
    "qwen3": transformers.Qwen3Config(
        **ONE_LAYER,
        head_dim=6,
        dtype="bfloat16",
        rope_parameters=dict(rope_type="yarn", rope_theta=1e6, factor=4.0, original_max_position_embeddings=16),
    ),
    "gemma": transformers.GemmaConfig(**ONE_LAYER, head_dim=6, dtype="bfloat16"),
    "gemma2": transformers.Gemma2Config(**SMALL, head_dim=6, query_pre_attn_scalar=4, sliding_window=5, dtype="bfloat16"),
    "gemma3_text": transformers.Gemma3TextConfig(
        **SMALL,
        head_dim=6,
        sliding_window=5,
        layer_types=["full_attention", "sliding_attention"],
        rope_parameters=dict(
            full_attention=dict(rope_type="linear", rope_theta=1e6, factor=8.0),
            sliding_attention=dict(rope_type="default", rope_theta=1e4),
        ),
        dtype="bfloat16",
    ),
    "phi3": transformers.Phi3Config(
        **(ONE_LAYER | dict(num_attention_heads=2, num_key_value_heads=1)),
        pad_token_id=None,
        sliding_window=5,
        rope_parameters=dict(rope_type="default", rope_theta=1e4, partial_rotary_factor=0.5),
        dtype="bfloat16",
    ),
    "olmo2": transformers.Olmo2Config(**ONE_LAYER, dtype="float32"),
    "granite": transformers.GraniteConfig(
        **ONE_LAYER,
        attention_bias=True,
        mlp_bias=True,
        embedding_multiplier=12,
        attention_multiplier=0.25,
        residual_multiplier=0.22,
        logits_scaling=8,
        dtype="bfloat16",
    ),
    "gpt_neox": transformers.GPTNeoXConfig(
        vocab_size=11,
        hidden_size=8,
        intermediate_size=12,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=64,
        rope_parameters=dict(rope_type="default", rope_theta=1e4, partial_rotary_factor=0.5),
        dtype="float16",
    ),
    "cohere": transformers.CohereConfig(**ONE_LAYER, dtype="float16"),
    "cohere2": transformers.Cohere2Config(
        **SMALL,
        sliding_window=5,
        layer_types=["sliding_attention", "full_attention"],
        attention_bias=True,
        dtype="bfloat16",
    ),
    "mixtral": transformers.MixtralConfig(**SMALL, num_local_experts=3, sliding_window=16, dtype="bfloat16"),
    "qwen3_moe": transformers.Qwen3MoeConfig(
        **(SMALL | dict(num_hidden_layers=3)),
        head_dim=6,
        moe_intermediate_size=10,
        num_experts=4,
        num_experts_per_tok=2,
        mlp_only_layers=[1],
        norm_topk_prob=True,
        tie_word_embeddings=True,
        dtype="bfloat16",
    ),
    "qwen2_moe": transformers.Qwen2MoeConfig(
        **SMALL,
        moe_intermediate_size=10,
        shared_expert_intermediate_size=14,
        num_experts=4,
        num_experts_per_tok=2,
        decoder_sparse_step=2,
        dtype="bfloat16",
    ),
    "glm4_moe": transformers.Glm4MoeConfig(
        **(SMALL | dict(num_attention_heads=2, num_key_value_heads=1)),
        attention_bias=True,
        use_qk_norm=True,
        moe_intermediate_size=10,
        n_shared_experts=2,
        n_routed_experts=6,
        num_experts_per_tok=2,
        n_group=3,
        topk_group=2,
        routed_scaling_factor=2.5,
        num_nextn_predict_layers=0,
        dtype="bfloat16",
    ),
    "olmoe": transformers.OlmoeConfig(
        **ONE_LAYER, num_experts=4, num_experts_per_tok=3, pad_token_id=None, dtype="bfloat16"
    ),
    "granitemoe": transformers.GraniteMoeConfig(
        **ONE_LAYER,
        num_local_experts=3,
        num_experts_per_tok=2,
        embedding_multiplier=12,
        attention_multiplier=0.25,
        residual_multiplier=0.22,
        logits_scaling=6,
        dtype="float16",
    ),
    "deepseek_v2": transformers.DeepseekV2Config(
        **(SMALL | dict(num_key_value_heads=4)),
        q_lora_rank=6,
        kv_lora_rank=5,
        qk_nope_head_dim=3,
        qk_rope_head_dim=4,
        v_head_dim=7,
        first_k_dense_replace=1,
        moe_intermediate_size=10,
        n_shared_experts=2,
        n_routed_experts=6,
        num_experts_per_tok=2,
        topk_method="group_limited_greedy",
        n_group=3,
        topk_group=2,
        routed_scaling_factor=16.0,
        dtype="bfloat16",
        rope_parameters=dict(
            rope_type="yarn",
            rope_theta=1e4,
            factor=4.0,
            mscale=0.707,
            mscale_all_dim=0.707,
            original_max_position_embeddings=16,
        ),
    ),
    "deepseek_v3": transformers.DeepseekV3Config(
        **(SMALL | dict(num_key_value_heads=4)),
        q_lora_rank=6,
        kv_lora_rank=5,
        qk_nope_head_dim=3,
        qk_rope_head_dim=4,
        v_head_dim=7,
        first_k_dense_replace=2,
        num_mtp_layers=0,
        dtype="bfloat16",
        rope_parameters=dict(
            rope_type="yarn",
            rope_theta=1e4,
            factor=4.0,
            mscale=1.0,
            mscale_all_dim=0.5,
            original_max_position_embeddings=16,
        ),
    ),
    "gpt_oss": transformers.GptOssConfig(
        **SMALL,
        head_dim=6,
        sliding_window=5,
        num_local_experts=3,
        num_experts_per_tok=2,
        dtype="bfloat16",
        rope_parameters=dict(
            rope_type="yarn",
            rope_theta=150000.0,
            factor=4.0,
            truncate=False,
            original_max_position_embeddings=16,
        ),
    ),
    "llama4_text": transformers.Llama4TextConfig(
        **(SMALL | dict(num_hidden_layers=3)),
        head_dim=6,
        intermediate_size_mlp=14,
        num_local_experts=3,
        interleave_moe_layer_step=2,
        no_rope_layer_interval=3,
        attention_chunk_size=5,
        floor_scale=4,
        dtype="bfloat16",
        rope_parameters=dict(
            rope_type="llama3",
            rope_theta=500000.0,
            factor=16.0,
            low_freq_factor=1.0,
            high_freq_factor=1.0,
            original_max_position_embeddings=16,
        ),
    ),
}


def fill(folder):
    paths = sorted(folder.glob("*.safetensors"))
    files = {path: load_file(path) for path in paths}
    names = sorted(name for tensors in files.values() for name in tensors)
    for path, tensors in files.items():
        for name, tensor in tensors.items():
            numbers = (31 * names.index(name) + torch.arange(tensor.numel())) % 251 - 125
            tensor.copy_(numbers.reshape(tensor.shape))
        save_file(tensors, path, metadata={"format": "pt"})


def main():
    """Of the families that are named on the command line, or of all."""
    for family in sys.argv[1:] or MODELS:
        config = MODELS[family]
        shutil.rmtree(DATA / family, ignore_errors=True)
        model = transformers.AutoModelForCausalLM.from_config(config)
        # One model is split over several files.
        size = 1500 if family == "llama" else "1GB"
        model.save_pretrained(DATA / family, max_shard_size=size)
        (DATA / family / "generation_config.json").unlink(missing_ok=True)
        fill(DATA / family)


if __name__ == "__main__":
    main()
