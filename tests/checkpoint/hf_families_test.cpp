// Families of Hugging Face models: what their config.json means, that it comes back, and the names
// of their tensors.
#include "tessera/checkpoint/hf/hf_family.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "tests/checkpoint/family_configs.h"

namespace tessera {
namespace {

using test::config_options;
using test::expect_comes_back;
using test::expect_config_refused;
using test::expect_input_error;
using test::folder_options;

TEST(HfFamilies, ReadsOptionsOfGemma) {
  const ModelOptions gemma = folder_options("gemma");
  EXPECT_EQ(gemma.activation, Activation::gelu);
  EXPECT_TRUE(gemma.gated_mlp && gemma.layernorm_1p && gemma.tie_embeddings);
  EXPECT_EQ(gemma.embedding_scale, std::sqrt(8.0));
  EXPECT_EQ(gemma.norm_placement, NormPlacement::before);
  const ModelOptions gemma2 = folder_options("gemma2");
  EXPECT_EQ(gemma2.norm_placement, NormPlacement::before_and_after);
  EXPECT_EQ(gemma2.softmax_scale, 0.5);
  EXPECT_EQ(gemma2.attention_window, 5);
  EXPECT_EQ(gemma2.window_skip_freq, 2);
  EXPECT_EQ(gemma2.attention_softcap, 50.0);
  EXPECT_EQ(gemma2.logit_softcap, 30.0);
  const ModelOptions gemma3 = folder_options("gemma3_text");
  EXPECT_EQ(gemma3.qk_norm, QkNorm::per_head);
  EXPECT_EQ(gemma3.softmax_scale, 1.0 / 16.0);
  EXPECT_EQ(gemma3.window_skip_freq, 0);
  EXPECT_EQ(gemma3.window_first_layer, 1);
  EXPECT_EQ(gemma3.rope.scaling, RopeScaling::linear);
  EXPECT_EQ(gemma3.rope.base, 1e6);
  EXPECT_EQ(gemma3.rope_local_base, 1e4);
  EXPECT_EQ(gemma3.attention_softcap, 0.0);
}

TEST(HfFamilies, ReadsOptionsOfOtherFamilies) {
  const ModelOptions phi3 = folder_options("phi3");
  EXPECT_EQ(phi3.rope.percent, 0.5);
  EXPECT_EQ(phi3.attention_window, 5);
  EXPECT_EQ(phi3.num_query_groups, 1);
  const ModelOptions olmo2 = folder_options("olmo2");
  EXPECT_EQ(olmo2.norm_placement, NormPlacement::after);
  EXPECT_EQ(olmo2.qk_norm, QkNorm::whole_width);
  const ModelOptions granite = folder_options("granite");
  EXPECT_EQ(granite.embedding_scale, 12.0);
  EXPECT_EQ(granite.residual_scale, 0.22);
  EXPECT_EQ(granite.softmax_scale, 0.25);
  EXPECT_EQ(granite.logit_scale, 0.125);
  EXPECT_TRUE(granite.qkv_bias && granite.attention_output_bias && granite.mlp_bias);
  const ModelOptions neox = folder_options("gpt_neox");
  EXPECT_EQ(neox.parallel_block, ParallelBlock::two_norms);
  EXPECT_EQ(neox.activation, Activation::gelu_exact);
  EXPECT_EQ(neox.normalization, Normalization::layer_norm);
  EXPECT_TRUE(neox.norm_bias && neox.qkv_bias && neox.mlp_bias && !neox.gated_mlp);
  EXPECT_EQ(neox.rope.percent, 0.5);
  const ModelOptions cohere = folder_options("cohere");
  EXPECT_EQ(cohere.parallel_block, ParallelBlock::one_norm);
  EXPECT_TRUE(cohere.rotary_interleaved && !cohere.norm_bias);
  EXPECT_EQ(cohere.logit_scale, 0.0625);
  const ModelOptions cohere2 = folder_options("cohere2");
  EXPECT_EQ(cohere2.no_rope_freq, 2);
  EXPECT_EQ(cohere2.window_skip_freq, 2);
  EXPECT_EQ(cohere2.attention_window, 5);
}

// transformers' three cases of yarn's two scales.
TEST(HfFamilies, ReadsOptionsOfDeepseek) {
  const ModelOptions model = folder_options("deepseek_v3");
  EXPECT_TRUE(model.multi_latent_attention);
  EXPECT_EQ(model.qk_norm, QkNorm::per_head);
  EXPECT_EQ(model.q_lora_rank, 6);
  EXPECT_EQ(model.kv_lora_rank, 5);
  EXPECT_EQ(model.qk_head_dim, 3);
  EXPECT_EQ(model.qk_pos_emb_head_dim, 4);
  EXPECT_EQ(model.v_head_dim, 7);
  EXPECT_EQ(model.kv_channels, 7);
  EXPECT_EQ(model.mscale, 1.0);
  EXPECT_EQ(model.mscale_all_dim, 0.5);
  EXPECT_EQ(model.rope.attention_factor, 0.0);
  const auto yarn = [](const char* keys) {
    return config_options("deepseek_v3",
                          fmt::format(R"("num_hidden_layers":1,"rope_scaling":{{"type":"yarn",)"
                                      R"("factor":40{}}})",
                                      keys));
  };
  const ModelOptions one = yarn(R"(,"mscale":0.7)");
  EXPECT_EQ(one.mscale, 1.0);
  EXPECT_EQ(one.mscale_all_dim, 0.0);
  const ModelOptions all = yarn(R"(,"mscale_all_dim":0.7)");
  EXPECT_EQ(all.mscale_all_dim, 0.7);
  EXPECT_EQ(all.rope.attention_factor, 0.1 * std::log(40.0) + 1.0);
}

TEST(HfFamilies, ConfigsOfAllFoldersComeBack) {
  for (const fs::path& path : test::hf_folders()) {
    SCOPED_TRACE(path.string());
    const HfModel model = read_hf_config(path);
    expect_comes_back(model.family, model.options);
  }
}

TEST(HfFamilies, DefaultConfigsComeBack) {
  for (const HfFamily* family : hf_families()) {
    SCOPED_TRACE(family->name);
    const std::string name(family->name);
    // Some defaults are not complete: Cohere's has no base, GLM-4's 96 heads do not divide its
    // hidden size, and DeepSeek-V2 does not say how many experts a token goes to.
    std::string keys = R"("rope_theta":1000.0)";
    if (name == "glm4_moe") keys = R"("head_dim":128)";
    if (name == "deepseek_v2") keys = R"("num_experts_per_tok":6)";
    expect_comes_back(name, config_options(name, keys));
  }
}

// Every folder's model is best expressed by its own family: no other one loses nothing of it.
TEST(HfFamilies, FoldersAreOfOneFamily) {
  for (const HfFamily* family : hf_families())
    EXPECT_EQ(hf_family_for(folder_options(std::string(family->name))), family->name);
}

TEST(HfFamilies, OtherConfigsComeBack) {
  const std::pair<const char*, const char*> configs[] = {
      {"gpt2", R"("activation_function":"relu")"},
      {"llama", R"("hidden_act":"gelu")"},
      {"gemma", R"("attention_bias":true,"rope_scaling":{"rope_type":"linear","factor":2})"},
      {"gemma2", R"("attn_logit_softcapping":null,"final_logit_softcapping":null)"},
      {"gemma2", R"("num_hidden_layers":2,"layer_types":["full_attention","full_attention"])"},
      {"gemma2", R"("num_hidden_layers":1,"query_pre_attn_scalar":144)"},
      {"gemma3_text", R"("final_logit_softcapping":7.5,"rope_theta":10000.0)"},
      {"gemma3_text", R"("num_hidden_layers":3,"sliding_window_pattern":2)"},
      {"gemma3_text",
       R"("num_hidden_layers":2,"layer_types":["full_attention","sliding_attention"])"},
      {"phi3", R"("partial_rotary_factor":0.75,"resid_pdrop":0.1,"embd_pdrop":0.1)"},
      {"olmo2", R"("rope_scaling":{"type":"linear","factor":4.0},"attention_bias":true)"},
      {"granite", R"("logits_scaling":49.0,"mlp_bias":true)"},
      {"gpt_neox", R"("use_parallel_residual":false,"attention_bias":false,"hidden_dropout":0.25)"},
      {"gpt_neox", R"("rotary_pct":1.0,"rotary_emb_base":77,"hidden_act":"gelu_new")"},
      {"cohere", R"("rope_theta":4e6,"attention_bias":true,"head_dim":64)"},
      {"cohere2", R"("sliding_window_pattern":3,"sliding_window":128)"},
      {"cohere2", R"("num_hidden_layers":2)"},
      {"deepseek_v3", R"("num_hidden_layers":2,"q_lora_rank":null,"qk_rope_head_dim":32)"},
      {"deepseek_v3",
       R"("num_hidden_layers":2,"rope_scaling":{"type":"yarn","factor":40,"mscale":0.7,)"
       R"("mscale_all_dim":0.9,"original_max_position_embeddings":4096})"},
      {"deepseek_v3",
       R"("num_hidden_layers":2,"rope_scaling":{"type":"yarn","factor":40,"mscale":0.7})"},
      {"deepseek_v3",
       R"("num_hidden_layers":2,"rope_scaling":{"type":"yarn","factor":40,"mscale_all_dim":0.7})"},
      {"deepseek_v3",
       R"("num_hidden_layers":2,"rope_scaling":{"type":"yarn","factor":40,"mscale":0.7,)"
       R"("mscale_all_dim":0.9,"attention_factor":1.25})"},
  };
  for (const auto& [family, keys] : configs) {
    SCOPED_TRACE(fmt::format("{} {}", family, keys));
    expect_comes_back(family, config_options(family, keys));
  }
}

TEST(HfFamilies, TakeTheKeysOfBothVersions) {
  const char* sizes = R"("num_hidden_layers":6,"sliding_window":9,)";
  const ModelOptions v4 = config_options(
      "gemma3_text", std::string(sizes) + R"("rope_theta":5e5,"rope_local_base_freq":700.0,)"
                                          R"("rope_scaling":{"rope_type":"linear","factor":8.0})");
  const ModelOptions v5 = config_options(
      "gemma3_text",
      std::string(sizes) +
          R"("rope_parameters":{"full_attention":{"rope_type":"linear","factor":8.0,)"
          R"("rope_theta":5e5},"sliding_attention":{"rope_type":"default","rope_theta":700.0}})");
  EXPECT_EQ(v4, v5);
  EXPECT_EQ(v4.rope_local_base, 700.0);
  EXPECT_EQ(v4.rope.factor, 8.0);
  EXPECT_EQ(v4.window_skip_freq, 6);
  EXPECT_EQ(config_options("gpt_neox", R"("rotary_pct":0.5,"rotary_emb_base":100)"),
            config_options("gpt_neox",
                           R"("rope_parameters":{"rope_theta":100,"partial_rotary_factor":0.5})"));
  EXPECT_EQ(config_options("cohere", R"("rope_parameters":{"rope_type":"default"})").rope.base,
            5e5);
}

TEST(HfFamilies, TakeGemmasFirstActivationAsItIsMeant) {
  EXPECT_EQ(config_options("gemma", R"("hidden_act":"gelu")").activation, Activation::gelu);
  EXPECT_EQ(config_options("gemma", R"("hidden_act":"gelu","hidden_activation":null)").activation,
            Activation::gelu);
  expect_config_refused("gemma", R"("hidden_activation":"relu")", {"hidden_act", "differ"});
}

TEST(HfFamilies, ReadActivations) {
  const std::pair<const char*, Activation> names[] = {{"gelu_new", Activation::gelu},
                                                      {"gelu_pytorch_tanh", Activation::gelu},
                                                      {"gelu_fast", Activation::gelu},
                                                      {"gelu", Activation::gelu_exact},
                                                      {"gelu_python", Activation::gelu_exact},
                                                      {"quick_gelu", Activation::quick_gelu},
                                                      {"silu", Activation::silu},
                                                      {"swish", Activation::silu},
                                                      {"relu", Activation::relu},
                                                      {"relu2", Activation::squared_relu}};
  for (const auto& [name, activation] : names) {
    const std::string keys = fmt::format(R"("hidden_act":"{}")", name);
    for (const char* family : {"llama", "gpt_neox"})
      EXPECT_EQ(config_options(family, keys).activation, activation) << name;
    ModelOptions options = folder_options("llama");
    options.activation = activation;
    expect_comes_back("llama", options);
  }
}

TEST(HfFamilies, RefuseWhatCannotBeComputed) {
  expect_config_refused("gemma3", R"("text_config":{})", {"'gemma3'", "gemma3_text"});
  for (const char* family : {"gemma", "gemma2", "gemma3_text"})
    expect_config_refused(family, R"("use_bidirectional_attention":true)",
                          {"use_bidirectional_attention = true"});
  for (const char* family : {"gemma", "olmo2", "granite", "cohere", "cohere2"})
    expect_config_refused(family, R"("rope_theta":1e4,"partial_rotary_factor":0.5)",
                          {"partial_rotary_factor = 0.5", "whole heads"});
  expect_config_refused("gemma2", R"("sliding_window":null)", {"sliding_window", "null"});
  expect_config_refused("gemma2", R"("sliding_window_pattern":3)", {"sliding_window_pattern"});
  expect_config_refused("gemma2", R"("attn_logit_softcapping":0)", {"attn_logit_softcapping"});
  expect_config_refused("gemma2", R"("query_pre_attn_scalar":0)", {"query_pre_attn_scalar"});
  expect_config_refused("gemma2",
                        R"("num_hidden_layers":3,"layer_types":["full_attention",)"
                        R"("sliding_attention","full_attention"])",
                        {"layer_types[2]", "sliding_attention"});
  expect_config_refused("gemma3_text", R"("attn_logit_softcapping":50.0)",
                        {"attn_logit_softcapping"});
  expect_config_refused("gemma3_text", R"("rope_parameters":{"rope_theta":5.0})",
                        {"each kind of layer", "rope_theta"});
  expect_config_refused("gemma3_text",
                        R"("rope_parameters":{"sliding_attention":{"rope_type":"linear",)"
                        R"("factor":2}})",
                        {"RoPE scaling in layers with an attention window"});
  expect_config_refused("gemma3_text", R"("rope_scaling":{"type":"linear","factor":2})",
                        {"rope_type instead of type"});
  expect_config_refused("gemma3_text",
                        R"("rope_scaling":{"rope_type":"linear","factor":2},"rope_parameters":{})",
                        {"rope_scaling and rope_parameters"});
  for (const char* type : {"longrope", "su"})
    expect_config_refused("phi3", fmt::format(R"("rope_scaling":{{"type":"{}"}})", type), {type});
  expect_config_refused("phi3", R"("rope_scaling":{"type":"yarn","factor":4})", {"longrope"});
  expect_config_refused("phi3", R"("resid_pdrop":0.1)", {"resid_pdrop 0.1", "embd_pdrop 0"});
  expect_config_refused("granite", R"("logits_scaling":0)", {"logits_scaling"});
  expect_config_refused("gpt_neox", R"("hidden_size":10)", {"10", "64 attention heads"});
  expect_config_refused("cohere", "", {"rope_theta is missing"});
  expect_config_refused("cohere", R"("rope_theta":1e4,"use_qk_norm":true)", {"use_qk_norm = true"});
  expect_config_refused("cohere2", R"("num_hidden_layers":1,"layer_types":["full_attention"])",
                        {"no RoPE", "every N-th layer only"});
  expect_config_refused("cohere2",
                        R"("num_hidden_layers":2,"layer_types":["full_attention",)"
                        R"("sliding_attention"])",
                        {"no RoPE", "every N-th layer only"});
}

TEST(HfFamilies, RefuseWhatLatentAttentionCannotCompute) {
  const auto refuse = [](const std::string& keys, std::initializer_list<const char*> parts) {
    expect_config_refused("deepseek_v3", R"("num_hidden_layers":2,)" + keys, parts);
  };
  refuse(R"("rope_interleave":false)", {"rope_interleave = false"});
  refuse(R"("attention_bias":true)", {"attention_bias = true"});
  refuse(R"("rms_norm_eps":1e-5)", {"rms_norm_eps 1e-05"});
  refuse(R"("num_key_value_heads":64)", {"num_key_value_heads 64", "128"});
  refuse(R"("head_dim":32)", {"head_dim 32", "qk_rope_head_dim 64"});
  refuse(R"("qk_rope_head_dim":63)", {"63"});
  refuse(R"("partial_rotary_factor":0.5)", {"partial_rotary_factor = 0.5", "whole heads"});
  refuse(R"("rope_scaling":{"type":"linear","factor":2,"mscale_all_dim":1})", {"mscale_all_dim"});
}

TEST(HfFamilies, RefuseFoldersThatCannotBeComputed) {
  for (const char* name : {"phi3_long", "phi3_short"})
    expect_input_error([&] { HfFolder{test::golden(name)}; }, {"longrope"});
  expect_input_error([&] { HfFolder{test::golden("cohere_qk_norm")}; }, {"use_qk_norm = true"});
}

TEST(HfFamilies, SayWhatTheyCannotExpress) {
  const auto problem = [](const char* family, auto change) {
    return test::changed_problem(family, change);
  };
  EXPECT_EQ(problem("gemma2", [](ModelOptions& o) { o.embedding_scale = 2; }),
            "the scale of embeddings would become 2.8284271247461903 instead of 2");
  EXPECT_EQ(problem("olmo2", [](ModelOptions& o) { o.rope.scaling = RopeScaling::yarn; }),
            "RoPE's scaling would become none instead of yarn");
  EXPECT_EQ(problem("cohere2", [](ModelOptions& o) { o.no_rope_freq = 0; }),
            "the frequency of layers without RoPE would become 2 instead of 0");
  EXPECT_EQ(
      problem("gpt_neox", [](ModelOptions& o) { o.parallel_block = ParallelBlock::one_norm; }),
      "the parallel block would become none instead of one_norm");
  EXPECT_EQ(problem("gemma2", [](ModelOptions& o) { o.softmax_scale = 0.3; }),
            "the scale of attention scores would become 0.0625 instead of 0.3")
      << "query_pre_attn_scalar is a whole number";
  EXPECT_EQ(problem("llama", [](ModelOptions& o) { o.norm_bias = false; }), "")
      << "RMSNorm has no bias";
  EXPECT_NE(problem("llama", [](ModelOptions& o) { o.num_attention_heads = 6; }), "");
  EXPECT_EQ(problem("llama", [](ModelOptions& o) { o.num_experts = 4; }),
            "the number of experts would become 0 instead of 4");
}

TEST(HfFamilies, NameFusedAndInterleavedTensors) {
  std::map<std::string, HfTensor> tensors;
  for (const char* family : {"phi3", "gpt_neox"})
    for (HfTensor& tensor : hf_tensors(folder_options(family), family))
      tensors[tensor.name] = tensor;
  const HfTensor& qkv = tensors.at("model.layers.0.self_attn.qkv_proj.weight");
  ASSERT_EQ(qkv.parts.size(), 3u);
  EXPECT_EQ(qkv.shape, (Shape{16, 8}));
  EXPECT_EQ(qkv.blocks, 1);
  EXPECT_EQ(qkv.parts[1].name, "layers.0.attention.k.weight");
  EXPECT_EQ(qkv.parts[1].shape, (Shape{4, 8}));
  const HfTensor& gate_up = tensors.at("model.layers.0.mlp.gate_up_proj.weight");
  ASSERT_EQ(gate_up.parts.size(), 2u);
  EXPECT_EQ(gate_up.parts[0].name, "layers.0.mlp.gate.weight");
  const HfTensor& heads = tensors.at("gpt_neox.layers.1.attention.query_key_value.bias");
  ASSERT_EQ(heads.parts.size(), 3u);
  EXPECT_EQ(heads.blocks, 2);
  EXPECT_EQ(heads.parts[2].name, "layers.1.attention.v.bias");
  EXPECT_TRUE(tensors.contains("embed_out.weight"));
  EXPECT_EQ(hf_full_name("lm_head.weight", "gpt_neox"), "embed_out.weight");
  EXPECT_TRUE(is_hf_buffer("gpt_neox.layers.0.attention.masked_bias"));
  EXPECT_TRUE(is_hf_buffer("gpt_neox.layers.0.attention.bias"));
  EXPECT_FALSE(is_hf_buffer("gpt_neox.layers.0.attention.dense.bias"));
}

// In a tensor that interleaves by head, each head's rows of q, k and v follow each other.
TEST(HfFamilies, InterleaveByHead) {
  const HfFolder folder(test::family_data("gpt_neox"));
  const std::string whole = "gpt_neox.layers.0.attention.query_key_value.bias";
  std::vector<float> stored(24), part(8);
  folder.files()[0].read(whole, View(stored.data(), DType::f32, {24}));
  std::size_t first = 0;
  for (const char* name : {"q", "k", "v"}) {
    folder.read(fmt::format("layers.0.attention.{}.bias", name),
                View(part.data(), DType::f32, {8}));
    for (std::size_t row = 0; row < 8; ++row)
      EXPECT_EQ(part[row], stored[row / 4 * 12 + first + row % 4]) << name << " " << row;
    first += 4;
  }
}

}  // namespace
}  // namespace tessera
