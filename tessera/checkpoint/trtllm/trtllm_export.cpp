#include "tessera/checkpoint/trtllm/trtllm_export.h"

#include <algorithm>

#include "tessera/base/check.h"
#include "tessera/base/log.h"
#include "tessera/checkpoint/format/safetensors_writer.h"
#include "tessera/checkpoint/hf/hf_config.h"
#include "tessera/checkpoint/hf/hf_family.h"
#include "tessera/checkpoint/hf/hf_rope.h"
#include "tessera/checkpoint/hf/weight_reader.h"
#include "tessera/checkpoint/new_folder.h"
#include "tessera/checkpoint/trtllm/trtllm_tensors.h"

namespace tessera {
namespace {

void check_model(const ModelOptions& model, int ranks) {
  const std::string problem = trtllm_problem(model, ranks);
  check_input(problem.empty(), "this model cannot be exported for TensorRT-LLM with --tp {}: {}",
              ranks, problem);
  const std::string family = hf_family_for(model);
  check_input(!family.empty() && hf_family(family).in_trtllm,
              "this model{} cannot be exported for TensorRT-LLM: it is none of GPT-2, Llama, "
              "Mistral, Qwen2 and Mixtral",
              family.empty() ? "" : fmt::format(" ({})", family));
  if (model.attention_window > 0)
    log_warning(
        "TensorRT-LLM's files do not hold the attention window of {} keys: give it to its runtime "
        "(max_attention_window_size)",
        model.attention_window);
}

DType stored_type(const TrtTensor& tensor, const WeightReader& weights) {
  return tensor.accumulator ? accumulator_type(weights.dtype()) : weights.dtype();
}

// A tensor in memory: the parts below each other, and zeros where there are none.
ConstView assemble_trt_tensor(const TrtTensor& tensor, WeightReader& weights,
                              std::vector<std::byte>& buffer) {
  const std::size_t bytes =
      static_cast<std::size_t>(tensor.shape.numel()) * element_size(stored_type(tensor, weights));
  buffer.assign(bytes, std::byte{0});
  const View whole(buffer.data(), stored_type(tensor, weights), tensor.shape);
  const int rows = tensor.shape.rank() == 3 ? 1 : 0;
  std::int64_t row = 0;
  for (const TrtPart& part : tensor.parts) {
    weights.read_box(part.name, part.offset, whole.slice(rows, row, part.extent[rows]));
    row += part.extent[rows];
  }
  return whole;
}

// Tensors of the wider type come first in a file, where they are aligned.
void write_rank(const fs::path& path, std::vector<TrtTensor> tensors, WeightReader& weights) {
  std::stable_partition(tensors.begin(), tensors.end(),
                        [](const TrtTensor& tensor) { return tensor.accumulator; });
  std::vector<SafetensorsDeclaration> declared;
  for (const TrtTensor& tensor : tensors)
    declared.push_back({tensor.name, stored_type(tensor, weights), tensor.shape});
  SafetensorsWriter writer(path, std::move(declared), {}, SafetensorsWriter::Order::given);
  std::vector<std::byte> buffer;
  for (const TrtTensor& tensor : tensors)
    writer.append(assemble_trt_tensor(tensor, weights, buffer));
  writer.close();
}

}  // namespace

Json trtllm_config(const ModelOptions& model, int ranks) {
  const bool gpt = model.position_embedding == PositionEmbedding::learned_absolute;
  const bool qwen = !gpt && model.qkv_bias && !model.attention_output_bias;
  const bool experts = model.num_experts > 0;
  Json config = {{"architecture", gpt       ? "GPTForCausalLM"
                                  : qwen    ? "Qwen2ForCausalLM"
                                  : experts ? "MixtralForCausalLM"
                                            : "LlamaForCausalLM"},
                 {"dtype", torch_name(model.dtype)},
                 {"logits_dtype", "float32"},
                 {"vocab_size", model.vocab_size},
                 {"max_position_embeddings", model.max_position_embeddings},
                 {"hidden_size", model.hidden_size},
                 {"intermediate_size", experts ? model.moe_ffn_hidden_size : model.ffn_hidden_size},
                 {"num_hidden_layers", model.num_layers},
                 {"num_attention_heads", model.num_attention_heads},
                 {"num_key_value_heads", model.num_query_groups},
                 {"head_size", model.kv_channels},
                 {"hidden_act", gpt       ? "gelu"
                                : experts ? "swiglu"
                                          : "silu"},
                 {"norm_epsilon", model.norm_epsilon},
                 {"position_embedding_type", gpt ? "learned_absolute" : "rope_gpt_neox"},
                 {"use_parallel_embedding", false},
                 {"embedding_sharding_dim", 0},
                 {"mapping", {{"world_size", ranks}, {"tp_size", ranks}, {"pp_size", 1}}},
                 {"quantization", {{"quant_algo", nullptr}, {"kv_cache_quant_algo", nullptr}}}};
  if (gpt) {
    config["bias"] = true;
    return config;
  }
  Json rope;
  write_hf_rope(rope, model.rope);
  config["rotary_base"] = model.rope.base;
  config["rotary_scaling"] = rope.value("rope_scaling", Json());
  config["attn_bias"] = model.qkv_bias;
  config["mlp_bias"] = model.mlp_bias;
  if (qwen) config["qwen_type"] = "qwen2";
  constexpr int kRenormalize = 1;  // weights are divided by their sum
  if (experts)
    config["moe"] = {{"num_experts", model.num_experts},
                     {"top_k", model.moe_router_topk},
                     {"normalization_mode", kRenormalize}};
  return config;
}

void export_trtllm(Checkpoint& checkpoint, const ModelOptions& saved, const fs::path& folder,
                   int ranks, std::optional<DType> dtype) {
  ModelOptions model = saved;
  model.mtp_num_layers = 0;
  check_model(model, ranks);
  if (saved.mtp_num_layers > 0)
    log_warning("the {} layer(s) for multi-token prediction are left out: this export has none",
                saved.mtp_num_layers);
  WeightReader weights(checkpoint, saved, dtype);
  check_input(weights.dtype() != DType::f64,
              "TensorRT-LLM has no float64: give --params-dtype f32, bf16 or f16");
  model.dtype = weights.dtype();
  NewFolder made(folder);
  for (int rank = 0; rank < ranks; ++rank)
    write_rank(made.staging_dir() / fmt::format("rank{}.safetensors", rank),
               trtllm_tensors(model, ranks, rank), weights);
  const std::string text = trtllm_config(model, ranks).dump(2) + "\n";
  FileWriter config(made.staging_dir() / "config.json");
  config.write(text.data(), text.size());
  config.close();
  made.commit();
}

}  // namespace tessera
