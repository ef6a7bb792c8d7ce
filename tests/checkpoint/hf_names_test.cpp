#include "tessera/checkpoint/hf/hf_names.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tessera/checkpoint/hf/hf_config.h"

namespace tessera {
namespace {

constexpr auto kSmall =
    R"(,"vocab_size":11,"hidden_size":8,"intermediate_size":12,"num_hidden_layers":2,)"
    R"("num_attention_heads":4,"num_key_value_heads":2,"head_dim":6)";

ModelOptions family_options(const std::string& family, const std::string& more) {
  return parse_hf_config(R"({"model_type":")" + family + "\"" + more + "}", "x").options;
}

std::map<std::string, HfTensor> tensors_of(const ModelOptions& options, const std::string& family) {
  std::map<std::string, HfTensor> by_name;
  for (HfTensor& tensor : hf_tensors(options, family)) by_name[tensor.name] = tensor;
  return by_name;
}

TEST(HfNames, NamesLlama) {
  const auto tensors = tensors_of(family_options("llama", kSmall), "llama");
  EXPECT_EQ(tensors.size(), 3u + 2 * 9);
  const HfTensor& k = tensors.at("model.layers.1.self_attn.k_proj.weight");
  EXPECT_EQ(k.shape, (Shape{12, 8}));
  EXPECT_FALSE(k.transposed);
  ASSERT_EQ(k.parts.size(), 1u);
  EXPECT_EQ(k.parts[0].name, "layers.1.attention.k.weight");
  EXPECT_EQ(tensors.at("model.layers.0.self_attn.o_proj.weight").shape, (Shape{8, 24}));
  EXPECT_EQ(tensors.at("model.layers.0.mlp.gate_proj.weight").parts[0].name,
            "layers.0.mlp.gate.weight");
  EXPECT_EQ(tensors.at("model.layers.0.mlp.down_proj.weight").shape, (Shape{8, 12}));
  EXPECT_EQ(tensors.at("model.norm.weight").parts[0].name, "final_norm.weight");
  EXPECT_EQ(tensors.at("lm_head.weight").parts[0].name, "output.weight");
}

TEST(HfNames, NamesBiasesAndNormsOfQwen) {
  const auto qwen2 = tensors_of(
      family_options("qwen2", std::string(kSmall) + R"(,"tie_word_embeddings":true)"), "qwen2");
  EXPECT_EQ(qwen2.size(), 2u + 2 * 12);
  EXPECT_EQ(qwen2.at("model.layers.0.self_attn.q_proj.bias").shape, (Shape{24}));
  EXPECT_FALSE(qwen2.contains("model.layers.0.self_attn.o_proj.bias"));
  EXPECT_FALSE(qwen2.contains("lm_head.weight"));
  const auto qwen3 = tensors_of(family_options("qwen3", kSmall), "qwen3");
  EXPECT_EQ(qwen3.at("model.layers.1.self_attn.k_norm.weight").shape, (Shape{6}));
  EXPECT_EQ(qwen3.at("model.layers.1.self_attn.k_norm.weight").parts[0].name,
            "layers.1.attention.k_norm.weight");
}

TEST(HfNames, FusesAndTransposesGpt2) {
  const auto tensors = tensors_of(
      family_options("gpt2",
                     R"(,"vocab_size":11,"n_embd":8,"n_layer":2,"n_head":2,"n_positions":5)"),
      "gpt2");
  EXPECT_EQ(tensors.size(), 4u + 2 * 12);
  const HfTensor& fused = tensors.at("transformer.h.1.attn.c_attn.weight");
  EXPECT_EQ(fused.shape, (Shape{8, 24}));
  EXPECT_TRUE(fused.transposed);
  ASSERT_EQ(fused.parts.size(), 3u);
  EXPECT_EQ(fused.parts[0].name, "layers.1.attention.q.weight");
  EXPECT_EQ(fused.parts[2].name, "layers.1.attention.v.weight");
  EXPECT_EQ(fused.parts[2].shape, (Shape{8, 8}));
  const HfTensor& bias = tensors.at("transformer.h.1.attn.c_attn.bias");
  EXPECT_EQ(bias.shape, (Shape{24}));
  EXPECT_EQ(bias.parts[1].name, "layers.1.attention.k.bias");
  const HfTensor& up = tensors.at("transformer.h.0.mlp.c_fc.weight");
  EXPECT_EQ(up.shape, (Shape{8, 32}));
  EXPECT_EQ(up.parts[0].name, "layers.0.mlp.up.weight");
  EXPECT_EQ(up.parts[0].shape, (Shape{32, 8}));
  EXPECT_EQ(tensors.at("transformer.wpe.weight").shape, (Shape{5, 8}));
  EXPECT_EQ(tensors.at("transformer.ln_f.bias").parts[0].name, "final_norm.bias");
}

TEST(HfNames, NamesEachExpert) {
  const auto tensors = tensors_of(
      family_options("mixtral", std::string(kSmall) + R"(,"num_local_experts":3)"), "mixtral");
  EXPECT_EQ(tensors.size(), 3u + 2 * (6 + 1 + 3 * 3));
  const std::string block = "model.layers.1.block_sparse_moe.";
  EXPECT_EQ(tensors.at(block + "gate.weight").parts[0].name, "layers.1.mlp.router.weight");
  EXPECT_EQ(tensors.at(block + "gate.weight").shape, (Shape{3, 8}));
  EXPECT_FALSE(tensors.at(block + "gate.weight").expert.has_value());
  const HfTensor& down = tensors.at(block + "experts.2.w2.weight");
  EXPECT_EQ(down.shape, (Shape{8, 12}));
  EXPECT_EQ(down.expert, 2);
  ASSERT_EQ(down.parts.size(), 1u);
  EXPECT_EQ(down.parts[0].name, "layers.1.mlp.experts.down.weight");
  EXPECT_EQ(down.parts[0].shape, (Shape{3, 8, 12}));
  EXPECT_EQ(down.part_shape(down.parts[0]), (Shape{8, 12}));
  EXPECT_EQ(tensors.at(block + "experts.0.w1.weight").parts[0].name,
            "layers.1.mlp.experts.gate.weight");
  EXPECT_EQ(tensors.at(block + "experts.0.w3.weight").parts[0].name,
            "layers.1.mlp.experts.up.weight");
}

TEST(HfNames, StacksExpertsOfGranite) {
  const auto tensors =
      tensors_of(family_options("granitemoe", std::string(kSmall) + R"(,"num_local_experts":3)"),
                 "granitemoe");
  const HfTensor& both = tensors.at("model.layers.0.block_sparse_moe.input_linear.weight");
  EXPECT_EQ(both.shape, (Shape{3, 24, 8}));
  EXPECT_EQ(both.matrix_shape(), (Shape{24, 8}));
  ASSERT_EQ(both.parts.size(), 2u);
  EXPECT_EQ(both.parts[0].name, "layers.0.mlp.experts.gate.weight");
  EXPECT_EQ(both.parts[1].name, "layers.0.mlp.experts.up.weight");
  EXPECT_EQ(both.parts[1].shape, (Shape{3, 12, 8}));
  EXPECT_EQ(both.part_shape(both.parts[1]), (Shape{12, 8}));
  EXPECT_TRUE(tensors.contains("model.layers.1.block_sparse_moe.router.layer.weight"));
}

TEST(HfNames, NamesEveryParameterWithoutAFamily) {
  ModelOptions options = family_options("gpt2", R"(,"n_layer":1)");
  options.qk_norm = QkNorm::per_head;
  options.tie_embeddings = false;
  std::set<std::string> names;
  std::set<std::string> ours;
  for (const HfTensor& tensor : hf_tensors(options, "")) {
    names.insert(tensor.name);
    for (const HfPart& part : tensor.parts) ours.insert(part.name);
  }
  EXPECT_TRUE(names.contains("model.embed_positions.weight"));
  EXPECT_TRUE(names.contains("model.layers.0.input_layernorm.bias"));
  EXPECT_TRUE(names.contains("model.layers.0.mlp.up_proj.bias"));
  EXPECT_FALSE(names.contains("model.layers.0.mlp.gate_proj.weight"));
  EXPECT_EQ(ours.size(), names.size());
  // 3 matrices, final norm, and per layer 2 norms, q k v out up down (weight and bias), 2 head
  // norms
  EXPECT_EQ(names.size(), 3u + 2 + 4 + 12 + 2);
}

TEST(HfNames, KnowsPrefixesAndBuffers) {
  EXPECT_EQ(hf_full_name("wte.weight", "gpt2"), "transformer.wte.weight");
  EXPECT_EQ(hf_full_name("transformer.wte.weight", "gpt2"), "transformer.wte.weight");
  EXPECT_EQ(hf_full_name("lm_head.weight", "gpt2"), "lm_head.weight");
  EXPECT_EQ(hf_full_name("model.norm.weight", "llama"), "model.norm.weight");
  EXPECT_TRUE(is_hf_buffer("h.0.attn.bias"));
  EXPECT_TRUE(is_hf_buffer("transformer.h.0.attn.masked_bias"));
  EXPECT_TRUE(is_hf_buffer("model.layers.0.self_attn.rotary_emb.inv_freq"));
  EXPECT_FALSE(is_hf_buffer("h.0.attn.c_attn.bias"));
  EXPECT_FALSE(is_hf_buffer("model.layers.0.self_attn.q_proj.bias"));
}

}  // namespace
}  // namespace tessera
