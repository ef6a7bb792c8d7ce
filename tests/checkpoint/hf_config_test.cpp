#include "tessera/checkpoint/hf/hf_config.h"

#include <gtest/gtest.h>

#include "tests/checkpoint/safetensors_bytes.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace tessera {
namespace {

using test::expect_input_error;

ModelOptions parse(const std::string& text) { return parse_hf_config(text, "config.json").options; }

// A config of this family with more keys: R"(,"key":1)".
std::string with(const std::string& family, const std::string& more) {
  return R"({"model_type":")" + family + "\"" + more + "}";
}

void expect_refused(const std::string& text, std::initializer_list<const char*> parts) {
  SCOPED_TRACE(text);
  expect_input_error([&] { parse(text); }, parts);
  expect_input_error([&] { parse(text); }, {"config.json"});
}

TEST(HfConfig, TakesTheDefaultsOfEachFamily) {
  const ModelOptions gpt2 = parse(with("gpt2", ""));
  EXPECT_EQ(gpt2.num_layers, 12);
  EXPECT_EQ(gpt2.hidden_size, 768);
  EXPECT_EQ(gpt2.ffn_hidden_size, 3072);
  EXPECT_EQ(gpt2.num_query_groups, 12);
  EXPECT_EQ(gpt2.kv_channels, 64);
  EXPECT_EQ(gpt2.vocab_size, 50257);
  EXPECT_EQ(gpt2.max_position_embeddings, 1024);
  EXPECT_EQ(gpt2.position_embedding, PositionEmbedding::learned_absolute);
  EXPECT_EQ(gpt2.normalization, Normalization::layer_norm);
  EXPECT_EQ(gpt2.activation, Activation::gelu);
  EXPECT_EQ(gpt2.norm_epsilon, 1e-5);
  EXPECT_TRUE(gpt2.qkv_bias && gpt2.attention_output_bias && gpt2.mlp_bias && gpt2.tie_embeddings);

  const ModelOptions llama = parse(with("llama", ""));
  EXPECT_EQ(llama.num_layers, 32);
  EXPECT_EQ(llama.hidden_size, 4096);
  EXPECT_EQ(llama.ffn_hidden_size, 11008);
  EXPECT_EQ(llama.num_query_groups, 32);
  EXPECT_EQ(llama.kv_channels, 128);
  EXPECT_EQ(llama.vocab_size, 32000);
  EXPECT_EQ(llama.max_position_embeddings, 2048);
  EXPECT_EQ(llama.rope.base, 10000.0);
  EXPECT_EQ(llama.rope.scaling, RopeScaling::none);
  EXPECT_EQ(llama.norm_epsilon, 1e-6);
  EXPECT_EQ(llama.activation, Activation::silu);
  EXPECT_TRUE(llama.gated_mlp);
  EXPECT_EQ(llama.attention_window, 0);
  EXPECT_EQ(llama.dtype, DType::f32);
  EXPECT_FALSE(llama.qkv_bias || llama.attention_output_bias || llama.mlp_bias ||
               llama.qk_norm != QkNorm::none || llama.tie_embeddings);

  const ModelOptions mistral = parse(with("mistral", ""));
  EXPECT_EQ(mistral.ffn_hidden_size, 14336);
  EXPECT_EQ(mistral.num_query_groups, 8);
  EXPECT_EQ(mistral.attention_window, 4096);
  EXPECT_EQ(mistral.max_position_embeddings, 131072);

  const ModelOptions qwen2 = parse(with("qwen2", ""));
  EXPECT_EQ(qwen2.vocab_size, 151936);
  EXPECT_EQ(qwen2.attention_window, 0);
  EXPECT_TRUE(qwen2.qkv_bias && !qwen2.attention_output_bias && !qwen2.mlp_bias);

  const ModelOptions qwen3 = parse(with("qwen3", R"(,"hidden_size":1024)"));
  EXPECT_EQ(qwen3.kv_channels, 128);
  EXPECT_TRUE(qwen3.qk_norm == QkNorm::per_head && !qwen3.qkv_bias);
}

TEST(HfConfig, TakesNullAsItsOwnDefault) {
  EXPECT_EQ(parse(with("mistral", R"(,"num_key_value_heads":null)")).num_query_groups, 32);
  EXPECT_EQ(parse(with("mistral", R"(,"sliding_window":null)")).attention_window, 0);
  EXPECT_EQ(parse(with("qwen3", R"(,"head_dim":null,"num_attention_heads":64)")).kv_channels, 64);
  EXPECT_EQ(parse(with("gpt2", R"(,"n_inner":null)")).ffn_hidden_size, 3072);
  EXPECT_EQ(parse(with("llama", R"(,"rope_scaling":null,"rope_theta":5e5)")).rope.base, 5e5);
}

TEST(HfConfig, ReadsTypesInBothSpellings) {
  EXPECT_EQ(parse(with("llama", R"(,"torch_dtype":"bfloat16")")).dtype, DType::bf16);
  EXPECT_EQ(parse(with("llama", R"(,"dtype":"float16","torch_dtype":"float64")")).dtype,
            DType::f16);
  EXPECT_EQ(parse_hf_config(with("llama", R"(,"dtype":"float64")"), "x").dtype, "float64");
  expect_refused(with("llama", R"(,"dtype":"float8_e4m3fn")"), {"float8_e4m3fn", "bfloat16"});
}

TEST(HfConfig, ReadsGpt2UnderCommonNamesToo) {
  const ModelOptions options = parse(with(
      "gpt2", R"(,"hidden_size":24,"num_hidden_layers":3,"n_head":4,"max_position_embeddings":5)"));
  EXPECT_EQ(options.hidden_size, 24);
  EXPECT_EQ(options.num_layers, 3);
  EXPECT_EQ(options.kv_channels, 6);
  EXPECT_EQ(options.max_position_embeddings, 5);
}

TEST(HfConfig, ReadsRopeOfBothVersions) {
  const std::string scaling =
      R"("rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,)"
      R"("original_max_position_embeddings":8192)";
  const ModelOptions v4 =
      parse(with("llama", R"(,"rope_theta":500000.0,"rope_scaling":{)" + scaling + "}"));
  const ModelOptions v5 =
      parse(with("llama", R"(,"rope_parameters":{"rope_theta":500000.0,)" + scaling + "}"));
  for (const ModelOptions& options : {v4, v5}) {
    EXPECT_EQ(options.rope.scaling, RopeScaling::llama3);
    EXPECT_EQ(options.rope.base, 500000.0);
    EXPECT_EQ(options.rope.factor, 8.0);
    EXPECT_EQ(options.rope.original_max_position, 8192);
  }
  const RopeOptions linear =
      parse(with("qwen2", R"(,"rope_scaling":{"type":"linear","factor":2})")).rope;
  EXPECT_EQ(linear.scaling, RopeScaling::linear);
  EXPECT_EQ(linear.factor, 2.0);
  EXPECT_EQ(parse(with("llama", R"(,"rope_parameters":{"rope_type":"default","rope_theta":7})"))
                .rope.base,
            7.0);
  EXPECT_EQ(parse(with("llama", R"(,"partial_rotary_factor":0.5)")).rope.percent, 0.5);
}

TEST(HfConfig, ReadsYarn) {
  const RopeOptions plain =
      parse(with("qwen3", R"(,"max_position_embeddings":40960,"rope_scaling":{"rope_type":"yarn",)"
                          R"("factor":4.0,"original_max_position_embeddings":32768})"))
          .rope;
  EXPECT_EQ(plain.scaling, RopeScaling::yarn);
  EXPECT_EQ(plain.original_max_position, 32768);
  EXPECT_EQ(plain.beta_fast, 32.0);
  EXPECT_EQ(plain.beta_slow, 1.0);
  EXPECT_EQ(plain.attention_factor, 0.0);
  const RopeOptions implied =
      parse(with("llama",
                 R"(,"max_position_embeddings":4096,"original_max_position_embeddings":)"
                 R"(1024,"rope_scaling":{"rope_type":"yarn","beta_fast":0,"beta_slow":2})"))
          .rope;
  EXPECT_EQ(implied.factor, 4.0);
  EXPECT_EQ(implied.beta_fast, 32.0);
  EXPECT_EQ(implied.beta_slow, 2.0);
  const RopeOptions scaled =
      parse(with("llama", R"(,"rope_scaling":{"rope_type":"yarn","factor":40,"mscale":1.0,)"
                          R"("mscale_all_dim":0.5})"))
          .rope;
  // (0.1 ln 40 + 1) / (0.05 ln 40 + 1)
  EXPECT_NEAR(scaled.attention_factor, 1.368887945 / 1.184443973, 1e-8);
}

TEST(HfConfig, ReadsWindows) {
  const std::string used = R"(,"num_hidden_layers":4,"use_sliding_window":true,"sliding_window":8)";
  const ModelOptions options = parse(with("qwen2", used + R"(,"max_window_layers":3)"));
  EXPECT_EQ(options.attention_window, 8);
  EXPECT_EQ(options.window_first_layer, 3);
  EXPECT_EQ(parse(with("qwen2", used)).attention_window, 0);  // 28 full layers come first
  EXPECT_EQ(parse(with("qwen3", used + R"(,"max_window_layers":0,"layer_types":[)"
                                       R"("sliding_attention","sliding_attention",)"
                                       R"("sliding_attention","sliding_attention"])"))
                .attention_window,
            8);
  expect_refused(with("qwen3", used + R"(,"max_window_layers":2,"layer_types":["full_attention",)"
                                      R"("sliding_attention","full_attention","full_attention"])"),
                 {"layer_types[1]", "sliding_attention", "full_attention"});
  expect_refused(with("qwen3", R"(,"num_hidden_layers":2,"layer_types":["full_attention"])"),
                 {"layer_types", "2 names"});
  expect_refused(with("qwen3", R"(,"num_hidden_layers":1,"layer_types":["conv"])"),
                 {"layer_types[0]", "conv"});
}

TEST(HfConfig, RefusesWhatItCannotCompute) {
  expect_refused("", {"not valid JSON"});
  expect_refused("[]", {"object", "array"});
  expect_refused("{}", {"model_type ''", "gpt2, llama, mistral, qwen2, qwen3, phi3, gemma"});
  expect_refused(with("jamba", ""), {"'jamba'", "gpt2, llama, mistral, qwen2, qwen3, phi3, gemma"});
  expect_refused(R"({"model_type":3})", {"model_type", "a string", "3"});
  expect_refused(R"({"model_type":"llama","model_type":"llama"})", {"model_type", "twice"});
  expect_refused(with("llama", R"(,"hidden_act":"mish")"), {"hidden_act", "'mish'", "silu"});
  expect_refused(with("gpt2", R"(,"activation_function":"gelu_10")"),
                 {"activation_function", "'gelu_10'", "gelu_new"});
  expect_refused(with("gpt2", R"(,"resid_pdrop":0.2)"), {"resid_pdrop 0.2", "embd_pdrop 0.1"});
  expect_refused(with("gpt2", R"(,"scale_attn_weights":false)"), {"scale_attn_weights = false"});
  expect_refused(with("gpt2", R"(,"scale_attn_by_inverse_layer_idx":true)"), {"= true"});
  expect_refused(with("gpt2", R"(,"add_cross_attention":true)"), {"add_cross_attention"});
  expect_refused(with("llama", R"(,"quantization_config":{"quant_method":"fp8"})"), {"quantized"});
  expect_refused(with("llama", R"(,"rope_scaling":{"rope_type":"dynamic","factor":2})"),
                 {"'dynamic'", "default, linear, llama3 or yarn"});
  expect_refused(with("llama", R"(,"rope_scaling":{"type":"mrope"})"), {"'mrope'", "yarn"});
  expect_refused(with("llama", R"(,"rope_scaling":"linear")"), {"rope_scaling", "object"});
  expect_refused(with("llama", R"(,"rope_scaling":{"type":"linear"})"), {"factor is missing"});
  expect_refused(with("llama", R"(,"rope_scaling":{"type":"llama3","factor":8})"),
                 {"low_freq_factor is missing"});
  expect_refused(with("llama", R"(,"rope_scaling":{"type":"llama3","factor":8,)"
                               R"("low_freq_factor":5,"high_freq_factor":4})"),
                 {"high_freq_factor 4", "low_freq_factor 5"});
  expect_refused(with("llama", R"(,"rope_scaling":{"type":"yarn","factor":8,"beta_fast":0.5})"),
                 {"beta_fast 0.5"});
  expect_refused(with("llama", R"(,"rope_scaling":{"type":"yarn",)"
                               R"("original_max_position_embeddings":99999})"),
                 {"factor is missing"});
  expect_refused(with("llama", R"(,"rope_parameters":{"full_attention":{"rope_theta":1e4}})"),
                 {"'full_attention'", "each kind of layer"});
}

TEST(HfConfig, RefusesNumbersOutOfRange) {
  expect_refused(with("llama", R"(,"hidden_size":0)"), {"hidden_size", "from 1", "got 0"});
  expect_refused(with("llama", R"(,"hidden_size":-4096)"), {"hidden_size", "-4096"});
  expect_refused(with("llama", R"(,"hidden_size":18446744073709551615)"), {"hidden_size"});
  expect_refused(with("llama", R"(,"hidden_size":4096.0)"), {"hidden_size", "whole number"});
  expect_refused(with("llama", R"(,"hidden_size":"4096")"), {"hidden_size", "\"4096\""});
  expect_refused(with("llama", R"(,"hidden_size":true)"), {"hidden_size", "true"});
  expect_refused(with("llama", R"(,"hidden_size":[1])"), {"hidden_size", "[1]"});
  expect_refused(with("llama", R"(,"num_hidden_layers":1000000000)"), {"num_hidden_layers"});
  expect_refused(with("llama", R"(,"vocab_size":9223372036854775807)"), {"vocab_size"});
  expect_refused(with("llama", R"(,"num_attention_heads":0)"), {"num_attention_heads"});
  expect_refused(with("llama", R"(,"num_attention_heads":3)"), {"4096", "3 attention heads"});
  expect_refused(with("llama", R"(,"num_key_value_heads":5)"), {"32", "num_key_value_heads 5"});
  expect_refused(with("llama", R"(,"head_dim":7)"), {"pairs", "7"});
  expect_refused(with("llama", R"(,"head_dim":100000)"), {"head_dim"});
  expect_refused(with("llama", R"(,"hidden_size":4194304)"), {"size 131072", "16384"});
  expect_refused(with("llama", R"(,"rms_norm_eps":0)"), {"rms_norm_eps"});
  expect_refused(with("llama", R"(,"rms_norm_eps":1e999)"), {"not valid JSON"});
  expect_refused(with("llama", R"(,"rope_theta":1)"), {"rope_theta"});
  expect_refused(with("llama", R"(,"rope_theta":-1e4)"), {"rope_theta", "-10000"});
  expect_refused(with("llama", R"(,"partial_rotary_factor":1.5)"), {"partial_rotary_factor"});
  expect_refused(with("llama", R"(,"attention_dropout":1)"), {"attention_dropout"});
  expect_refused(with("llama", R"(,"attention_bias":1)"), {"attention_bias", "true or false"});
  expect_refused(with("mistral", R"(,"sliding_window":0)"), {"sliding_window"});
  expect_refused(with("llama", R"(,"rope_scaling":{"type":"linear","factor":0})"), {"factor"});
  expect_refused(with("gpt2", R"(,"n_embd":770)"), {"770", "12 attention heads"});
  expect_refused(with("gpt2", R"(,"n_positions":null,"n_layer":0)"), {"n_layer"});
}

TEST(HfConfig, NamesTheFolder) {
  const test::TempFolder folder;
  expect_input_error([&] { read_hf_config(folder / "none"); }, {"none", "not a folder"});
  expect_input_error([&] { read_hf_config(folder.path()); }, {"config.json"});
  test::write_bytes(folder / "config.json", "{");
  expect_input_error([&] { read_hf_config(folder.path()); }, {"config.json", "not valid JSON"});
}

}  // namespace
}  // namespace tessera
