// Families of Hugging Face models with experts: what their config.json means, and that it comes
// back.
#include <algorithm>

#include "tessera/spec/parameter_table.h"
#include "tests/checkpoint/family_configs.h"

namespace tessera {
namespace {

using test::config_options;
using test::expect_comes_back;
using test::expect_config_refused;
using test::folder_options;

TEST(HfExpertFamilies, ReadsOptionsOfMixtral) {
  const ModelOptions mixtral = folder_options("mixtral");
  EXPECT_EQ(mixtral.num_experts, 3);
  EXPECT_EQ(mixtral.moe_router_topk, 2);
  EXPECT_EQ(mixtral.moe_ffn_hidden_size, 12);
  EXPECT_EQ(mixtral.moe_router_score, RouterScore::softmax);
  EXPECT_FALSE(mixtral.moe_router_pre_softmax);
  EXPECT_EQ(mixtral.moe_layer_freq, (std::vector<std::int64_t>{1}));
  EXPECT_EQ(mixtral.attention_window, 16);
  const ModelOptions standard = config_options("mixtral", "");
  EXPECT_EQ(standard.num_experts, 8);
  EXPECT_EQ(standard.moe_ffn_hidden_size, 14336);
  EXPECT_EQ(standard.rope.base, 1e6);
  EXPECT_EQ(standard.attention_window, 0);
}

TEST(HfExpertFamilies, ReadsOptionsOfQwen) {
  using Layers = std::vector<std::int64_t>;
  const ModelOptions qwen3 = folder_options("qwen3_moe");
  EXPECT_EQ(qwen3.num_experts, 4);
  EXPECT_EQ(qwen3.moe_router_topk, 2);
  EXPECT_EQ(qwen3.ffn_hidden_size, 12);
  EXPECT_EQ(qwen3.moe_ffn_hidden_size, 10);
  EXPECT_EQ(qwen3.moe_layer_freq, (Layers{1, 0, 1}));
  EXPECT_FALSE(qwen3.moe_router_pre_softmax) << "norm_topk_prob";
  EXPECT_EQ(qwen3.qk_norm, QkNorm::per_head);
  const ModelOptions standard = config_options("qwen3_moe", "");
  EXPECT_EQ(standard.num_experts, 128);
  EXPECT_TRUE(standard.moe_router_pre_softmax);
  EXPECT_EQ(standard.moe_layer_freq, Layers{1});
  EXPECT_EQ(standard.attention_window, 0);
  EXPECT_EQ(config_options("qwen3_moe", R"("num_local_experts":4,"num_experts_per_tok":2)"),
            config_options("qwen3_moe", R"("num_experts":4,"num_experts_per_tok":2)"))
      << "transformers 5 writes the first, 4 the second";
  EXPECT_EQ(config_options("qwen3_moe", R"("num_hidden_layers":6,"decoder_sparse_step":2,)"
                                        R"("mlp_only_layers":[3,0])")
                .moe_layer_freq,
            (Layers{0, 1, 0, 0, 0, 1}));
}

TEST(HfExpertFamilies, ReadsSharedExperts) {
  const ModelOptions qwen2 = folder_options("qwen2_moe");
  EXPECT_EQ(qwen2.moe_layer_freq, (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(qwen2.moe_ffn_hidden_size, 10);
  EXPECT_EQ(qwen2.moe_shared_ffn, 14);
  EXPECT_TRUE(qwen2.moe_shared_gate && qwen2.moe_router_pre_softmax && qwen2.qkv_bias);
  EXPECT_FALSE(qwen2.attention_output_bias);
}

TEST(HfExpertFamilies, ReadsSigmoidRouters) {
  const ModelOptions glm = folder_options("glm4_moe");
  EXPECT_EQ(glm.moe_layer_freq, (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(glm.moe_router_score, RouterScore::sigmoid);
  EXPECT_TRUE(glm.moe_expert_bias && glm.qkv_bias);
  EXPECT_FALSE(glm.attention_output_bias || glm.moe_router_pre_softmax || glm.moe_shared_gate);
  EXPECT_EQ(glm.moe_router_num_groups, 3);
  EXPECT_EQ(glm.moe_router_group_topk, 2);
  EXPECT_EQ(glm.moe_router_group_best, 2);
  EXPECT_EQ(glm.moe_router_scaling_factor, 2.5);
  EXPECT_EQ(glm.moe_ffn_hidden_size, 10);
  EXPECT_EQ(glm.moe_shared_ffn, 20);
  EXPECT_EQ(glm.qk_norm, QkNorm::per_head);
  EXPECT_EQ(glm.rope.percent, 0.5);
  const ModelOptions standard = config_options("glm4_moe", R"("head_dim":128)");
  EXPECT_EQ(standard.moe_router_num_groups, 0);
  EXPECT_EQ(standard.moe_layer_freq.front(), 0);
  EXPECT_EQ(standard.moe_layer_freq[1], 1);
  EXPECT_EQ(standard.qk_norm, QkNorm::none);
}

// The defaults of transformers are DeepSeek-V3's own sizes.
TEST(HfExpertFamilies, ReadsOptionsOfDeepseek) {
  const ModelOptions model = config_options("deepseek_v3", "");
  EXPECT_EQ(model.num_experts, 256);
  EXPECT_EQ(model.moe_router_topk, 8);
  EXPECT_EQ(model.moe_router_score, RouterScore::sigmoid);
  EXPECT_EQ(model.moe_router_num_groups, 8);
  EXPECT_EQ(model.moe_router_group_topk, 4);
  EXPECT_EQ(model.moe_router_scaling_factor, 2.5);
  EXPECT_EQ(model.moe_ffn_hidden_size, 2048);
  EXPECT_EQ(model.moe_shared_ffn, 2048);
  EXPECT_TRUE(model.moe_expert_bias);
  EXPECT_EQ(std::ranges::count(model.moe_layer_freq, 0), 3);
  EXPECT_EQ(model.kv_channels, 192);
  EXPECT_EQ(parameter_count(model_spec(model)), 671'026'404'352.0);
  const ModelOptions dense = config_options("deepseek_v3", R"("num_hidden_layers":3)");
  EXPECT_EQ(dense.num_experts, 0);
}

TEST(HfExpertFamilies, ReadsOptionsOfDeepseekV2) {
  const ModelOptions model = folder_options("deepseek_v2");
  EXPECT_TRUE(model.multi_latent_attention && model.moe_router_pre_softmax);
  EXPECT_FALSE(model.moe_expert_bias);
  EXPECT_EQ(model.moe_router_score, RouterScore::softmax);
  EXPECT_EQ(model.moe_router_scaling_factor, 16.0);
  EXPECT_EQ(model.moe_layer_freq, (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(model.moe_router_num_groups, 3);
  EXPECT_EQ(model.moe_router_group_topk, 2);
  EXPECT_EQ(model.moe_router_group_best, 1);
  EXPECT_EQ(model.moe_shared_ffn, 20);
  EXPECT_EQ(model.mscale, 0.707);
  EXPECT_EQ(model.mscale_all_dim, 0.707);
}

// The sizes of the released models, from which their numbers of parameters follow.
TEST(HfExpertFamilies, CountsParametersOfDeepseekV2) {
  const char* common =
      R"("num_hidden_layers":{},"hidden_size":{},"intermediate_size":{},)"
      R"("num_attention_heads":{},"moe_intermediate_size":{},"n_routed_experts":{},)"
      R"("q_lora_rank":{},"vocab_size":102400,"num_experts_per_tok":6,)"
      R"("first_k_dense_replace":1,{})";
  const std::string lite = fmt::format(fmt::runtime(common), 27, 2048, 10944, 16, 1408, 64, "null",
                                       R"("n_group":1,"topk_group":1)");
  EXPECT_EQ(parameter_count(model_spec(config_options("deepseek_v2", lite))), 15'706'484'224.0);
  const std::string large =
      fmt::format(fmt::runtime(common), 60, 5120, 12288, 128, 1536, 160, 1536,
                  R"("n_group":8,"topk_group":3,"topk_method":"group_limited_greedy")");
  EXPECT_EQ(parameter_count(model_spec(config_options("deepseek_v2", large))), 235'741'434'880.0);
}

TEST(HfExpertFamilies, RefuseWhatDeepseekV2CannotCompute) {
  const auto refused = [](const std::string& keys, std::initializer_list<const char*> parts) {
    expect_config_refused("deepseek_v2", R"("n_routed_experts":8,)" + keys, parts);
  };
  const std::string two = R"("num_experts_per_tok":2,)";
  refused(R"("n_shared_experts":2)", {"num_experts_per_tok is missing"});
  refused(two + R"("topk_method":"noaux_tc")", {"topk_method 'noaux_tc'", "greedy"});
  refused(two + R"("scoring_func":"sigmoid")", {"scoring_func 'sigmoid'"});
  refused(two + R"("norm_topk_prob":true)", {"norm_topk_prob = true"});
  refused(two + R"("moe_layer_freq":2)", {"moe_layer_freq 2"});
  refused(two + R"("mlp_bias":true)", {"mlp_bias = true"});
  refused(two + R"("attention_bias":true)", {"attention_bias = true"});
  refused(two + R"("topk_method":"group_limited_greedy","n_group":3,"topk_group":1)",
          {"8 experts", "n_group = 3"});
}

TEST(HfExpertFamilies, RefuseWhatCannotBeComputed) {
  expect_config_refused("mixtral", R"("router_jitter_noise":0.01)", {"router_jitter_noise"});
  for (const char* family :
       {"mixtral", "qwen3_moe", "qwen2_moe", "glm4_moe", "olmoe", "granitemoe"})
    expect_config_refused(family, R"("head_dim":64,"output_router_logits":true)",
                          {"output_router_logits = true", "--moe-aux-loss-coeff"});
  expect_config_refused("qwen2_moe", R"("use_sliding_window":true)", {"use_sliding_window = true"});
  expect_config_refused("qwen2_moe", R"("shared_expert_intermediate_size":0)",
                        {"shared_expert_intermediate_size"});
  expect_config_refused("mixtral", R"("num_local_experts":1)", {"num_local_experts", "2"});
  expect_config_refused("mixtral", R"("num_local_experts":4,"num_experts_per_tok":5)",
                        {"num_experts_per_tok 5", "num_local_experts = 4"});
  expect_config_refused("mixtral", R"("num_experts_per_tok":1)",
                        {"num_experts_per_tok = 1", "learn nothing"});
  expect_config_refused("mixtral", R"("num_hidden_layers":40,"num_local_experts":4096)",
                        {"40 layers of 4096 experts"});
}

TEST(HfExpertFamilies, RefuseLayersThatMakeNoSense) {
  const char* four = R"("num_hidden_layers":4,)";
  const auto refused = [&](const char* keys, std::initializer_list<const char*> parts) {
    for (const char* family : {"qwen3_moe", "qwen2_moe"})
      expect_config_refused(family, std::string(four) + keys, parts);
  };
  refused(R"("decoder_sparse_step":5)", {"no layer has experts"});
  refused(R"("mlp_only_layers":[0,1,2,3])", {"no layer has experts"});
  refused(R"("mlp_only_layers":[4])", {"mlp_only_layers has 4", "below 4"});
  refused(R"("mlp_only_layers":[-1])", {"mlp_only_layers has -1"});
  refused(R"("mlp_only_layers":[1.5])", {"mlp_only_layers has 1.5"});
  refused(R"("mlp_only_layers":2)", {"mlp_only_layers must be a list"});
  refused(R"("decoder_sparse_step":0)", {"decoder_sparse_step"});
  expect_config_refused("qwen3_moe", R"("num_experts":8,"num_local_experts":16)",
                        {"num_experts and num_local_experts differ"});
}

TEST(HfExpertFamilies, RefuseSigmoidRoutersThatCannotBeComputed) {
  const auto refused = [](const std::string& keys, std::initializer_list<const char*> parts) {
    expect_config_refused("glm4_moe", R"("head_dim":64,"n_routed_experts":8,)" + keys, parts);
  };
  refused(R"("norm_topk_prob":false)", {"norm_topk_prob = false", "num_experts_per_tok = 8"});
  refused(R"("num_experts_per_tok":1)", {"norm_topk_prob = true", "num_experts_per_tok = 1"});
  refused(R"("n_group":3)", {"8 experts", "n_group = 3", "equal size"});
  refused(R"("n_group":8,"topk_group":8)", {"n_group = 8", "2 experts at least"});
  refused(R"("n_group":2,"topk_group":3,"num_experts_per_tok":2)", {"topk_group = 3 of 2"});
  refused(R"("n_group":4,"topk_group":2,"num_experts_per_tok":5)", {"num_experts_per_tok = 5"});
  refused(R"("n_shared_experts":0)", {"n_shared_experts"});
  refused(R"("first_k_dense_replace":46)", {"no layer has experts"});
}

// Losses, noise and dropped tokens are how a model is trained. No layer has an MLP of
// ffn_hidden_size.
TEST(HfExpertFamilies, TakeModelsHoweverTheyAreTrained) {
  ModelOptions options = folder_options("mixtral");
  options.moe_balance = {MoeBalance::microbatch};
  options.moe_aux_loss_coeff = {0.01};
  options.moe_z_loss = 0.001;
  options.moe_input_jitter = 0.01;
  options.moe_force_balance = true;
  options.moe_capacity_factor = 1.25;
  options.moe_drop_policy = DropPolicy::position;
  options.ffn_hidden_size = 32;
  EXPECT_EQ(hf_family_problem(options, "mixtral"), "");
  options.moe_layer_freq = {1, 0};
  EXPECT_NE(hf_family_problem(options, "mixtral").find("the layers with experts"),
            std::string::npos);
}

TEST(HfExpertFamilies, ReadsOptionsOfOlmoe) {
  const ModelOptions olmoe = folder_options("olmoe");
  EXPECT_EQ(olmoe.num_experts, 4);
  EXPECT_EQ(olmoe.moe_ffn_hidden_size, 12);
  EXPECT_EQ(olmoe.qk_norm, QkNorm::whole_width);
  EXPECT_EQ(olmoe.norm_placement, NormPlacement::before);
  EXPECT_TRUE(olmoe.moe_router_pre_softmax);
  expect_config_refused("olmoe", R"("clip_qkv":8.0)", {"clip_qkv"});
}

TEST(HfExpertFamilies, ReadsOptionsOfGranite) {
  const ModelOptions granite = folder_options("granitemoe");
  EXPECT_EQ(granite.num_experts, 3);
  EXPECT_EQ(granite.moe_router_topk, 2);
  EXPECT_EQ(granite.moe_ffn_hidden_size, 12);
  EXPECT_FALSE(granite.moe_router_pre_softmax);
  EXPECT_EQ(granite.embedding_scale, 12.0);
  EXPECT_EQ(granite.residual_scale, 0.22);
  EXPECT_EQ(granite.softmax_scale, 0.25);
}

TEST(HfExpertFamilies, ReadsOptionsOfGptOss) {
  const ModelOptions model = folder_options("gpt_oss");
  EXPECT_EQ(model.num_experts, 3);
  EXPECT_EQ(model.moe_router_topk, 2);
  EXPECT_EQ(model.moe_ffn_hidden_size, 12);
  EXPECT_FALSE(model.moe_router_pre_softmax);
  EXPECT_EQ(model.softmax_type, SoftmaxType::learnable);
  EXPECT_EQ(model.activation, Activation::quick_gelu);
  EXPECT_EQ(model.activation_clamp, 7);
  EXPECT_EQ(model.glu_offset, 1);
  EXPECT_TRUE(model.gated_mlp && model.mlp_bias && model.qkv_bias && model.attention_output_bias);
  EXPECT_EQ(model.attention_window, 5);
  EXPECT_EQ(model.window_skip_freq, 2);
  EXPECT_EQ(model.rope.scaling, RopeScaling::yarn);
  EXPECT_FALSE(model.rope.truncate);
  // gpt-oss-120b.
  const ModelOptions standard = config_options("gpt_oss", "");
  EXPECT_EQ(standard.num_experts, 128);
  EXPECT_EQ(standard.attention_window, 128);
  EXPECT_EQ(standard.rope.base, 150000);
  EXPECT_EQ(standard.rope.factor, 32);
  EXPECT_FALSE(standard.rope.truncate);
  EXPECT_EQ(parameter_count(model_spec(standard)), 116'829'156'672.0);
  expect_config_refused("gpt_oss", R"("swiglu_limit":5.0)", {"swiglu_limit must be 7"});
  expect_config_refused("gpt_oss", R"("hidden_act":"gelu")", {"hidden_act", "silu"});
  expect_config_refused("gpt_oss", R"("sliding_window":null)", {"sliding_window"});
  expect_config_refused("gpt_oss", R"("quantization_config":{"quant_method":"gptq"})",
                        {"quantization_config"});
}

TEST(HfExpertFamilies, ReadsOptionsOfLlama4) {
  using Layers = std::vector<std::int64_t>;
  const ModelOptions model = folder_options("llama4_text");
  EXPECT_EQ(model.num_experts, 3);
  EXPECT_EQ(model.moe_layer_freq, (Layers{0, 1, 0}));
  EXPECT_EQ(model.ffn_hidden_size, 14);
  EXPECT_EQ(model.moe_ffn_hidden_size, 12);
  EXPECT_EQ(model.moe_shared_ffn, 12);
  EXPECT_EQ(model.moe_router_topk, 1);
  EXPECT_EQ(model.moe_router_score, RouterScore::sigmoid);
  EXPECT_TRUE(model.moe_probs_on_input && model.rotary_interleaved);
  EXPECT_EQ(model.no_rope_freq, 3);
  EXPECT_EQ(model.attention_chunk, 5);
  EXPECT_EQ(model.qk_norm, QkNorm::l2);
  EXPECT_EQ(model.temperature_scale, 0.1);
  EXPECT_EQ(model.temperature_floor, 4);
  EXPECT_EQ(model.rope.high_freq_factor, 1) << "equal to low_freq_factor, as in Llama 4 Scout";
  // The defaults of transformers are Scout's sizes.
  const ModelOptions standard = config_options("llama4_text", "");
  EXPECT_EQ(standard.moe_layer_freq, Layers{1});
  EXPECT_EQ(standard.no_rope_freq, 4);
  EXPECT_EQ(standard.attention_chunk, 8192);
  const auto refused = [](const std::string& keys, std::initializer_list<const char*> parts) {
    expect_config_refused("llama4_text", R"("num_hidden_layers":4,)" + keys, parts);
  };
  refused(R"("num_experts_per_tok":2)", {"num_experts_per_tok = 2", "expected 1"});
  refused(R"("no_rope_layers":[1,0,1,1])", {"no_rope_layers[3] is 1", "every N-th"});
  refused(R"("no_rope_layers":[0,0,0,0])", {"without any layer with RoPE"});
  refused(R"("no_rope_layers":[1,1])", {"no_rope_layers must be a list of 4"});
  refused(R"("moe_layers":[4])", {"moe_layers has 4", "below 4"});
  refused(R"("moe_layers":[])", {"no layer has experts"});
  refused(R"("layer_types":["chunked_attention","full_attention","chunked_attention",)"
          R"("full_attention"])",
          {"layer_types[1]", "chunks are supported"});
}

TEST(HfExpertFamilies, OtherConfigsComeBack) {
  const std::pair<const char*, const char*> configs[] = {
      {"qwen3_moe", R"("use_sliding_window":true,"attention_bias":true,"norm_topk_prob":true)"},
      {"qwen3_moe", R"("num_hidden_layers":5,"decoder_sparse_step":3,"num_experts_per_tok":1)"},
      {"qwen2_moe", R"("norm_topk_prob":true,"qkv_bias":false,"mlp_only_layers":[0,3])"},
      {"glm4_moe", R"("head_dim":64,"num_experts_per_tok":1,"norm_topk_prob":false)"},
      {"deepseek_v3", R"("num_hidden_layers":5,"n_shared_experts":2,"n_group":4,"topk_group":2)"},
      {"deepseek_v3",
       R"("num_hidden_layers":2,"first_k_dense_replace":0,"n_group":1,"topk_group":1)"},
      {"deepseek_v2", R"("num_hidden_layers":3,"num_experts_per_tok":1,"n_shared_experts":1)"},
      {"deepseek_v2", R"("num_experts_per_tok":6,"q_lora_rank":null,"routed_scaling_factor":2.5)"},
      {"glm4_moe", R"("head_dim":64,"first_k_dense_replace":0,"partial_rotary_factor":1.0)"},
      {"glm4_moe", R"("head_dim":64,"n_group":8,"topk_group":4,"n_shared_experts":3)"},
      {"gpt_oss", R"("num_hidden_layers":1,"rope_scaling":{"rope_type":"default"})"},
      {"gpt_oss", R"("num_hidden_layers":2,"attention_bias":false,"sliding_window":9,)"
                  R"("layer_types":["full_attention","sliding_attention"])"},
      {"gpt_oss", R"("num_hidden_layers":2,"layer_types":["full_attention","full_attention"])"},
      {"llama4_text", R"("num_hidden_layers":3,"attn_temperature_tuning":false)"},
      {"llama4_text", R"("num_hidden_layers":8,"interleave_moe_layer_step":2,"use_qk_norm":false)"},
      {"llama4_text", R"("num_hidden_layers":2,"layer_types":["full_attention","full_attention"])"},
      {"llama4_text", R"("num_hidden_layers":4,"no_rope_layers":[1,0,1,0,1,0],"floor_scale":64,)"
                      R"("attn_scale":0.3,"attention_chunk_size":32,"moe_layers":[0,3])"},
      {"mixtral", R"("sliding_window":7,"num_local_experts":5,"num_experts_per_tok":5)"},
      {"granitemoe", R"("logits_scaling":6.0,"num_experts_per_tok":8,"attention_bias":true)"},
      {"olmoe", R"("norm_topk_prob":true,"attention_bias":true,"num_key_value_heads":4)"},
  };
  for (const auto& [family, keys] : configs) {
    SCOPED_TRACE(fmt::format("{} {}", family, keys));
    expect_comes_back(family, config_options(family, keys));
  }
}

TEST(HfExpertFamilies, SayWhatTheyCannotExpress) {
  const auto problem = [](const char* family, auto change) {
    return test::changed_problem(family, change);
  };
  EXPECT_EQ(problem("mixtral", [](ModelOptions& o) { o.moe_router_pre_softmax = true; }),
            "the router's softmax over all experts would become false instead of true");
  EXPECT_EQ(problem("qwen2_moe", [](ModelOptions& o) { o.moe_shared_gate = false; }),
            "the shared expert's gate would become true instead of false");
  EXPECT_EQ(problem("qwen3_moe", [](ModelOptions& o) { o.moe_shared_ffn = 8; }),
            "the size of the shared expert would become 0 instead of 8");
  EXPECT_EQ(problem("glm4_moe", [](ModelOptions& o) { o.moe_shared_ffn = 15; }),
            "the size of the shared expert would become 10 instead of 15");
  EXPECT_EQ(problem("glm4_moe", [](ModelOptions& o) { o.moe_router_group_best = 1; }),
            "the experts that make a group's score would become 2 instead of 1");
  EXPECT_EQ(problem("gpt_oss", [](ModelOptions& o) { o.activation_clamp = 0; }),
            "the limit of the MLP's gate would become 7 instead of 0");
  EXPECT_EQ(problem("gpt_oss", [](ModelOptions& o) { o.softmax_type = SoftmaxType::vanilla; }),
            "the softmax of attention would become learnable instead of vanilla");
  EXPECT_EQ(problem("llama4_text", [](ModelOptions& o) { o.moe_probs_on_input = false; }),
            "the weighting of experts' inputs would become true instead of false");
  EXPECT_EQ(problem("llama4_text", [](ModelOptions& o) { o.moe_shared_ffn = 8; }),
            "the size of the shared expert would become 12 instead of 8");
  EXPECT_EQ(problem("llama", [](ModelOptions& o) { o.attention_chunk = 8; }),
            "the chunks of attention would become 0 instead of 8");
  EXPECT_EQ(problem("glm4_moe", [](ModelOptions& o) { o.moe_expert_bias = false; }),
            "the bias of experts would become true instead of false");
}

}  // namespace
}  // namespace tessera
