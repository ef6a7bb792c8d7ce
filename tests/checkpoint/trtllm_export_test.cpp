#include "tessera/checkpoint/trtllm/trtllm_export.h"

#include <gtest/gtest.h>

#include "tessera/base/check.h"
#include "tessera/checkpoint/format/safetensors_reader.h"
#include "tests/checkpoint/made_checkpoint.h"
#include "tests/support/temp_folder.h"

namespace tessera {
namespace {

using Matrix = std::vector<std::vector<float>>;

Matrix matrix(const Shape& shape, const std::vector<float>& values) {
  Matrix rows(static_cast<std::size_t>(shape[0]));
  const std::size_t width = values.size() / rows.size();
  for (std::size_t i = 0; i < values.size(); ++i) rows[i / width].push_back(values[i]);
  return rows;
}

Matrix ours(Checkpoint& checkpoint, const std::string& name) {
  const Shape shape = checkpoint.tensor(name).shape;
  return matrix(shape, test::made_values(name, shape));
}

Matrix theirs(const SafetensorsFile& file, const std::string& name) {
  const Shape shape = file.shape(name);
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  file.read(name, View(values.data(), DType::f32, shape));
  return matrix(shape, values);
}

Matrix below(Matrix top, const Matrix& bottom) {
  top.insert(top.end(), bottom.begin(), bottom.end());
  return top;
}

Matrix rows(const Matrix& all, std::ptrdiff_t begin, std::ptrdiff_t count) {
  return {all.begin() + begin, all.begin() + begin + count};
}

// The matrix that ranks share by columns.
Matrix beside(Matrix left, const Matrix& right) {
  for (std::size_t i = 0; i < left.size(); ++i)
    left[i].insert(left[i].end(), right[i].begin(), right[i].end());
  return left;
}

TEST(TrtllmExport, LeavesMultiTokenPredictionOut) {
  const test::TempFolder temp;
  ModelOptions model = test::small_model();
  model.mtp_num_layers = 1;
  Checkpoint checkpoint = test::made_checkpoint(temp / "saved", model);
  testing::internal::CaptureStderr();
  export_trtllm(checkpoint, model, temp / "trt", 1, std::nullopt);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("multi-token prediction are left out"),
            std::string::npos);
  model.mtp_num_layers = 0;
  Checkpoint plain = test::made_checkpoint(temp / "plain", model);
  export_trtllm(plain, model, temp / "plain_trt", 1, std::nullopt);
  const SafetensorsFile got(temp / "trt/rank0.safetensors"),
      want(temp / "plain_trt/rank0.safetensors");
  EXPECT_EQ(got.names(), want.names());
  for (const std::string& name : want.names()) EXPECT_EQ(theirs(got, name), theirs(want, name));
}

TEST(TrtllmExport, RanksShareALlama) {
  const test::TempFolder temp;
  const ModelOptions model = test::small_model();  // 4 heads of 2, 2 key heads, MLP of 12, V 11
  Checkpoint checkpoint = test::made_checkpoint(temp / "saved", model);
  export_trtllm(checkpoint, model, temp / "trt", 2, std::nullopt);
  const SafetensorsFile first(temp / "trt/rank0.safetensors"),
      second(temp / "trt/rank1.safetensors");
  EXPECT_FALSE(fs::exists(temp / "trt/rank2.safetensors"));
  const std::string layer = "layers.1.", name = "transformer.layers.1.";
  const Matrix q = ours(checkpoint, layer + "attention.q.weight");
  const Matrix k = ours(checkpoint, layer + "attention.k.weight");
  const Matrix v = ours(checkpoint, layer + "attention.v.weight");
  EXPECT_EQ(theirs(first, name + "attention.qkv.weight"),
            below(below(rows(q, 0, 4), rows(k, 0, 2)), rows(v, 0, 2)));
  EXPECT_EQ(theirs(second, name + "attention.qkv.weight"),
            below(below(rows(q, 4, 4), rows(k, 2, 2)), rows(v, 2, 2)));
  for (const auto& [their, our] :
       {std::pair("attention.dense", "attention.out"), std::pair("mlp.proj", "mlp.down")})
    EXPECT_EQ(
        beside(theirs(first, name + their + ".weight"), theirs(second, name + their + ".weight")),
        ours(checkpoint, layer + our + ".weight"));
  for (const auto& [their, our] :
       {std::pair("mlp.fc", "mlp.gate"), std::pair("mlp.gate", "mlp.up")})
    EXPECT_EQ(
        below(theirs(first, name + their + ".weight"), theirs(second, name + their + ".weight")),
        ours(checkpoint, layer + our + ".weight"));
  const Matrix head = below(theirs(first, "lm_head.weight"), theirs(second, "lm_head.weight"));
  EXPECT_EQ(rows(head, 0, 11), ours(checkpoint, "output.weight"));
  EXPECT_EQ(head.at(11), std::vector<float>(8, 0.0f));  // padded
  for (const SafetensorsFile* file : {&first, &second}) {
    EXPECT_EQ(theirs(*file, "transformer.vocab_embedding.weight"),
              ours(checkpoint, "embedding.word.weight"));
    EXPECT_EQ(theirs(*file, name + "post_layernorm.weight"),
              ours(checkpoint, layer + "mlp_norm.weight"));
    EXPECT_EQ(file->names().size(), 1u + 2 * 7 + 2);
  }
}

TEST(TrtllmExport, RanksShareKeyHeads) {
  const test::TempFolder temp;
  const ModelOptions model = test::small_model();
  Checkpoint checkpoint = test::made_checkpoint(temp / "saved", model);
  export_trtllm(checkpoint, model, temp / "trt", 4, std::nullopt);
  const Matrix k = ours(checkpoint, "layers.0.attention.k.weight");
  for (int rank = 0; rank < 4; ++rank) {
    const SafetensorsFile file(temp / fmt::format("trt/rank{}.safetensors", rank));
    const Matrix qkv = theirs(file, "transformer.layers.0.attention.qkv.weight");
    EXPECT_EQ(rows(qkv, 2, 2), rows(k, std::ptrdiff_t{rank} / 2 * 2, 2)) << rank;
  }
}

TEST(TrtllmExport, Gpt2HasBiasesAndATiedHead) {
  const test::TempFolder temp;
  ModelOptions model = test::small_model();
  model.position_embedding = PositionEmbedding::learned_absolute;
  model.normalization = Normalization::layer_norm;
  model.activation = Activation::gelu;
  model.gated_mlp = false;
  model.num_query_groups = 4;
  model.qkv_bias = model.attention_output_bias = model.mlp_bias = true;
  model.tie_embeddings = true;
  Checkpoint checkpoint = test::made_checkpoint(temp / "saved", model);
  export_trtllm(checkpoint, model, temp / "trt", 2, std::nullopt);
  const SafetensorsFile second(temp / "trt/rank1.safetensors");
  const std::string name = "transformer.layers.0.";
  Matrix bias;
  for (const char* each : {"q", "k", "v"})
    bias =
        below(bias, rows(ours(checkpoint, fmt::format("layers.0.attention.{}.bias", each)), 4, 4));
  EXPECT_EQ(theirs(second, name + "attention.qkv.bias"), bias);
  EXPECT_EQ(theirs(second, name + "attention.dense.bias"),
            ours(checkpoint, "layers.0.attention.out.bias"));
  EXPECT_EQ(theirs(second, name + "mlp.fc.bias"),
            rows(ours(checkpoint, "layers.0.mlp.up.bias"), 6, 6));
  EXPECT_FALSE(second.contains(name + "mlp.gate.weight"));
  EXPECT_EQ(rows(theirs(second, "lm_head.weight"), 0, 5),
            rows(ours(checkpoint, "embedding.word.weight"), 6, 5));
  EXPECT_TRUE(second.contains("transformer.position_embedding.weight"));
  const Json config = trtllm_config(model, 2);
  EXPECT_EQ(config["architecture"], "GPTForCausalLM");
  EXPECT_EQ(config["position_embedding_type"], "learned_absolute");
  EXPECT_EQ(config["mapping"]["tp_size"], 2);
}

// Expert e's matrices, which lie one after the other.
Matrix of_expert(const Matrix& all, std::ptrdiff_t expert, std::ptrdiff_t rows_each) {
  return rows(all, expert * rows_each, rows_each);
}

// [E, rows, columns] as E x rows rows of that many columns.
Matrix as_rows(const Matrix& stacks, std::size_t columns) {
  Matrix flat;
  for (const std::vector<float>& stack : stacks)
    for (std::size_t i = 0; i < stack.size(); i += columns)
      flat.emplace_back(stack.begin() + static_cast<std::ptrdiff_t>(i),
                        stack.begin() + static_cast<std::ptrdiff_t>(i + columns));
  return flat;
}

// 3 experts of width 12, of which each of two ranks has 6.
TEST(TrtllmExport, RanksShareTheWidthOfExperts) {
  const test::TempFolder temp;
  ModelOptions model = test::small_model();
  model.num_experts = 3;
  model.moe_ffn_hidden_size = 12;
  model.dtype = DType::bf16;
  Checkpoint checkpoint = test::made_checkpoint(temp / "saved", model);
  export_trtllm(checkpoint, model, temp / "trt", 2, std::nullopt);
  const std::string name = "transformer.layers.1.mlp.", layer = "layers.1.mlp.";
  const Matrix up = as_rows(ours(checkpoint, layer + "experts.up.weight"), 8);
  const Matrix gate = as_rows(ours(checkpoint, layer + "experts.gate.weight"), 8);
  const Matrix down = as_rows(ours(checkpoint, layer + "experts.down.weight"), 12);
  for (std::ptrdiff_t rank = 0; rank < 2; ++rank) {
    const SafetensorsFile file(temp / fmt::format("trt/rank{}.safetensors", rank));
    EXPECT_EQ(file.shape(name + "fc.weight"), (Shape{3, 12, 8}));
    EXPECT_EQ(file.shape(name + "proj.weight"), (Shape{3, 8, 6}));
    EXPECT_EQ(theirs(file, name + "router.weight"), ours(checkpoint, layer + "router.weight"));
    EXPECT_FALSE(file.contains(name + "gate.weight"));
    const Matrix fc = as_rows(theirs(file, name + "fc.weight"), 8);
    const Matrix proj = as_rows(theirs(file, name + "proj.weight"), 6);
    for (std::ptrdiff_t e = 0; e < 3; ++e) {
      EXPECT_EQ(of_expert(fc, e, 12), below(rows(of_expert(up, e, 12), 6 * rank, 6),
                                            rows(of_expert(gate, e, 12), 6 * rank, 6)));
      Matrix columns;
      for (const std::vector<float>& row : of_expert(down, e, 8))
        columns.emplace_back(row.begin() + 6 * rank, row.begin() + 6 * rank + 6);
      EXPECT_EQ(of_expert(proj, e, 8), columns);
    }
  }
  EXPECT_THROW(export_trtllm(checkpoint, model, temp / "four", 8, std::nullopt), InputError);
}

TEST(TrtllmExport, RoutersStayInFloat32) {
  const test::TempFolder temp;
  ModelOptions model = test::small_model();
  model.num_experts = 3;
  model.moe_ffn_hidden_size = 12;
  Checkpoint checkpoint = test::made_checkpoint(temp / "saved", model);
  export_trtllm(checkpoint, model, temp / "trt", 1, DType::bf16);
  const SafetensorsFile file(temp / "trt/rank0.safetensors");
  const std::string name = "transformer.layers.0.mlp.";
  EXPECT_EQ(file.dtype(name + "router.weight"), DType::f32);
  EXPECT_EQ(file.dtype(name + "fc.weight"), DType::bf16);
  const Json config = trtllm_config(model, 1);
  EXPECT_EQ(config["architecture"], "MixtralForCausalLM");
  EXPECT_EQ(config["hidden_act"], "swiglu");
  EXPECT_EQ(config["intermediate_size"], 12);
  EXPECT_EQ(config["moe"]["num_experts"], 3);
  EXPECT_EQ(config["moe"]["top_k"], 2);
  EXPECT_EQ(config["moe"]["normalization_mode"], 1);
}

TEST(TrtllmExport, ConfigsSayTheFamily) {
  ModelOptions model = test::small_model();
  model.dtype = DType::bf16;
  model.rope.scaling = RopeScaling::llama3;
  Json config = trtllm_config(model, 1);
  EXPECT_EQ(config["architecture"], "LlamaForCausalLM");
  EXPECT_EQ(config["dtype"], "bfloat16");
  EXPECT_EQ(config["rotary_scaling"]["rope_type"], "llama3");
  EXPECT_EQ(config["num_key_value_heads"], 2);
  model.qkv_bias = true;
  EXPECT_EQ(trtllm_config(model, 1)["architecture"], "Qwen2ForCausalLM");
}

TEST(TrtllmExport, RefusesWhatCannotBe) {
  const test::TempFolder temp;
  ModelOptions model = test::small_model();
  Checkpoint checkpoint = test::made_checkpoint(temp / "saved", model);
  EXPECT_THROW(export_trtllm(checkpoint, model, temp / "trt", 3, {}), InputError);
  EXPECT_THROW(export_trtllm(checkpoint, model, temp / "trt", 2, DType::f64), InputError);
  EXPECT_THROW(export_trtllm(checkpoint, model, temp / "saved", 2, {}), InputError);
  EXPECT_FALSE(fs::exists(temp / "trt"));
  model.vocab_size = 12;  // not what is there
  EXPECT_THROW(export_trtllm(checkpoint, model, temp / "trt", 2, {}), InputError);
}

}  // namespace
}  // namespace tessera
