#include <gtest/gtest.h>

#include "tessera/checkpoint/hf/hf_config.h"
#include "tests/support/expect_error.h"

namespace tessera {
namespace {

using test::expect_input_error;

ModelOptions written_options(const std::string& family, const std::string& more = "") {
  return parse_hf_config(R"({"model_type":")" + family + "\"" + more + "}", "x").options;
}

// Every field, so that a field which one direction forgets is seen.
void expect_equal(const ModelOptions& a, const ModelOptions& b) {
  EXPECT_EQ(a.num_layers, b.num_layers);
  EXPECT_EQ(a.hidden_size, b.hidden_size);
  EXPECT_EQ(a.ffn_hidden_size, b.ffn_hidden_size);
  EXPECT_EQ(a.num_attention_heads, b.num_attention_heads);
  EXPECT_EQ(a.num_query_groups, b.num_query_groups);
  EXPECT_EQ(a.kv_channels, b.kv_channels);
  EXPECT_EQ(a.vocab_size, b.vocab_size);
  EXPECT_EQ(a.max_position_embeddings, b.max_position_embeddings);
  EXPECT_EQ(a.position_embedding, b.position_embedding);
  EXPECT_EQ(a.rope.base, b.rope.base);
  EXPECT_EQ(a.rope.percent, b.rope.percent);
  EXPECT_EQ(a.rope.scaling, b.rope.scaling);
  EXPECT_EQ(a.rope.factor, b.rope.factor);
  EXPECT_EQ(a.rope.low_freq_factor, b.rope.low_freq_factor);
  EXPECT_EQ(a.rope.high_freq_factor, b.rope.high_freq_factor);
  EXPECT_EQ(a.rope.original_max_position, b.rope.original_max_position);
  EXPECT_EQ(a.rope.beta_fast, b.rope.beta_fast);
  EXPECT_EQ(a.rope.beta_slow, b.rope.beta_slow);
  EXPECT_EQ(a.rope.attention_factor, b.rope.attention_factor);
  EXPECT_EQ(a.normalization, b.normalization);
  EXPECT_EQ(a.norm_epsilon, b.norm_epsilon);
  EXPECT_EQ(a.activation, b.activation);
  EXPECT_EQ(a.qkv_bias, b.qkv_bias);
  EXPECT_EQ(a.attention_output_bias, b.attention_output_bias);
  EXPECT_EQ(a.mlp_bias, b.mlp_bias);
  EXPECT_EQ(a.qk_norm, b.qk_norm);
  EXPECT_EQ(a.tie_embeddings, b.tie_embeddings);
  EXPECT_EQ(a.attention_window, b.attention_window);
  EXPECT_EQ(a.window_first_layer, b.window_first_layer);
  EXPECT_EQ(a.attention_dropout, b.attention_dropout);
  EXPECT_EQ(a.hidden_dropout, b.hidden_dropout);
  EXPECT_EQ(a.init_std, b.init_std);
  EXPECT_EQ(a.dtype, b.dtype);
  EXPECT_EQ(a, b);
}

void expect_round_trip(const std::string& family, const std::string& more) {
  SCOPED_TRACE(family + more);
  const ModelOptions options = written_options(family, more);
  EXPECT_EQ(hf_family_for(options), family);
  const HfModel back = parse_hf_config(hf_config_for(options, family).dump(), "written");
  EXPECT_EQ(back.family, family);
  expect_equal(back.options, options);
}

TEST(HfConfigWrite, RoundTripsEachFamily) {
  expect_round_trip("gpt2", R"(,"n_embd":24,"n_inner":50,"resid_pdrop":0.2,"embd_pdrop":0.2,)"
                            R"("attn_pdrop":0,"layer_norm_epsilon":1e-6,"dtype":"float16",)"
                            R"("tie_word_embeddings":false,"initializer_range":0.1)");
  expect_round_trip("llama", R"(,"attention_bias":true,"mlp_bias":true,"tie_word_embeddings":true,)"
                             R"("num_key_value_heads":4,"attention_dropout":0.25,)"
                             R"("dtype":"bfloat16","rms_norm_eps":1e-5,"head_dim":64)");
  expect_round_trip("mistral", R"(,"sliding_window":77)");
  expect_round_trip("qwen2", R"(,"use_sliding_window":true,"max_window_layers":3)");
  expect_round_trip("qwen2", "");
  expect_round_trip("qwen3", R"(,"use_sliding_window":true,"sliding_window":9,)"
                             R"("max_window_layers":0,"attention_bias":true)");
  expect_round_trip("qwen3", R"(,"dtype":"float64")");
}

TEST(HfConfigWrite, RoundTripsRope) {
  expect_round_trip("llama", R"(,"rope_theta":12345.5)");
  expect_round_trip("llama", R"(,"rope_scaling":{"type":"linear","factor":2.5})");
  expect_round_trip("llama", R"(,"rope_scaling":{"type":"llama3","factor":32,"low_freq_factor":2,)"
                             R"("high_freq_factor":5,"original_max_position_embeddings":123})");
  expect_round_trip("qwen3", R"(,"rope_scaling":{"type":"yarn","factor":4,"beta_fast":30,)"
                             R"("beta_slow":2,"attention_factor":1.25})");
  expect_round_trip("qwen3", R"(,"rope_scaling":{"type":"yarn","factor":4})");
}

TEST(HfConfigWrite, FindsAFamilyForOptions) {
  ModelOptions options = written_options("llama");
  EXPECT_EQ(hf_family_for(options), "llama");
  options.qkv_bias = true;
  EXPECT_EQ(hf_family_for(options), "qwen2");
  options.attention_output_bias = true;
  EXPECT_EQ(hf_family_for(options), "llama");
  options.attention_window = 5;
  EXPECT_EQ(hf_family_for(options), "");
  options.qk_norm = QkNorm::per_head;
  EXPECT_EQ(hf_family_for(options), "qwen3");
  options.mlp_bias = true;
  EXPECT_EQ(hf_family_for(options), "");

  ModelOptions odd = written_options("llama", R"(,"num_attention_heads":6,"head_dim":64)");
  EXPECT_EQ(hf_family_for(odd), "mistral") << "Llama needs a hidden size that heads divide";
  odd.rope.percent = 0.5;
  EXPECT_EQ(hf_family_for(odd), "phi3");
  odd.qk_norm = QkNorm::per_head;
  EXPECT_EQ(hf_family_for(odd), "");

  ModelOptions gpt = written_options("gpt2");
  gpt.mlp_bias = false;
  EXPECT_EQ(hf_family_for(gpt), "");
  gpt = written_options("gpt2");
  gpt.position_embedding = PositionEmbedding::rope;
  EXPECT_EQ(hf_family_for(gpt), "gpt_neox");
  gpt.position_embedding = PositionEmbedding::none;
  EXPECT_EQ(hf_family_for(gpt), "");
}

// Several families have a padding token by default, whose embedding transformers does not train.
TEST(HfConfigWrite, HasNoPaddingToken) {
  for (const char* family : {"gemma", "phi3", "olmoe"}) {
    const Json config = hf_config_for(written_options(family), family);
    EXPECT_TRUE(config.contains("pad_token_id") && config["pad_token_id"].is_null()) << family;
  }
}

TEST(HfConfigWrite, SaysWhyAFamilyDoesNotFit) {
  ModelOptions options = written_options("mistral");
  expect_input_error([&] { hf_config_for(options, "llama"); },
                     {"'llama'", "the attention window would become 0 instead of 4096"});
  options.window_first_layer = 2;
  expect_input_error([&] { hf_config_for(options, "mistral"); },
                     {"the first layer with an attention window would become 0 instead of 2"});
  expect_input_error([&] { hf_config_for(options, "gpt2"); },
                     {"the position embedding would become learned_absolute instead of rope"});
  EXPECT_THROW(hf_config_for(options, "jamba"), Error);
  EXPECT_THROW(hf_family_for(ModelOptions{}), Error);
}

}  // namespace
}  // namespace tessera
