// The common part of the families with experts: keys of config.json, and tensor names.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/json.h"
#include "tessera/checkpoint/format/json_fields.h"
#include "tessera/checkpoint/hf/tensor_list.h"
#include "tessera/options/model_options.h"

namespace tessera {

/// A family's names of the number of experts, and the defaults of transformers.
struct HfExpertKeys {
  std::string_view count = "num_experts";
  std::string_view other_count = "";  ///< transformers writes this one in some versions
  std::int64_t experts = 0;
  std::int64_t per_token = 0;
  // Of families with groups of experts:
  std::int64_t groups = 1;
  std::int64_t group_topk = 1;
  std::int64_t group_best = 2;  ///< experts whose scores, added up, are a group's
  double scale = 1.0;
  std::int64_t dense_layers = 1;  ///< first layers without experts
};

/// A family's names of the tensors of a layer with experts, behind the layer's prefix.
struct HfExpertNames {
  std::string_view mlp = "mlp.";  ///< of a layer without experts
  std::string_view router = "mlp.gate";
  std::string_view experts = "mlp.experts";  ///< before each expert's number
  std::string_view gate = "gate_proj";       ///< behind it
  std::string_view up = "up_proj";
  std::string_view down = "down_proj";
  /// Not empty: all experts together are two tensors, [experts, gate and up, in] and [experts, out,
  /// in]
  std::string_view gate_up_stack = "";
  std::string_view down_stack = "";
  bool stacks_transposed = false;  ///< [experts, in, out]
  bool gate_interleaved = false;   ///< gate and up take turns, one channel each
  std::string_view bias = "mlp.gate.e_score_correction_bias";
  std::string_view shared = "mlp.shared_expert";  ///< its matrices have the same names
  std::string_view shared_gate = "mlp.shared_expert_gate";
};

/// What transformers 5 has in memory, and writes with save_original_format = False.
constexpr HfExpertNames memory_names(HfExpertNames names) {
  names.router = HfExpertNames{}.router;
  names.gate_up_stack = "mlp.experts.gate_up_proj";
  names.down_stack = "mlp.experts.down_proj";
  return names;
}

/// How many experts there are and how many a token goes to, in layers that all have experts; the
/// weights of the chosen ones are divided by their sum if `normalized`. The number of layers must
/// be set. InputError for a balancing loss: transformers computes it over all layers together.
void read_experts(const JsonFields& config, ModelOptions& options, const HfExpertKeys& keys,
                  bool normalized);
void write_experts(const ModelOptions& options, Json& config, const HfExpertKeys& keys);

/// n_group and topk_group.
void read_groups(const JsonFields& config, ModelOptions& options, const HfExpertKeys& keys);
void write_groups(const ModelOptions& options, Json& config);
/// routed_scaling_factor.
double read_expert_scale(const JsonFields& config, const HfExpertKeys& keys);

/// The same for a sigmoid router that knows groups of experts and a bias: n_group, topk_group,
/// norm_topk_prob (standard: true), routed_scaling_factor.
void read_sigmoid_experts(const JsonFields& config, ModelOptions& options,
                          const HfExpertKeys& keys);
void write_sigmoid_experts(const ModelOptions& options, Json& config, const HfExpertKeys& keys);

/// norm_topk_prob (standard: false): whether weights are divided by their sum.
bool read_normalized(const JsonFields& config);

/// moe_layer_freq from a 0 or 1 for each layer. InputError if no layer has experts.
void set_expert_layers(const JsonFields& config, ModelOptions& options,
                       std::vector<std::int64_t> layers);

/// first_k_dense_replace: the layers before it have no experts.
void read_first_dense_layers(const JsonFields& config, ModelOptions& options,
                             const HfExpertKeys& keys);
void write_first_dense_layers(const ModelOptions& options, Json& config);

/// Qwen's keys: the layers with experts are every decoder_sparse_step-th one (standard: 1) but
/// those of mlp_only_layers.
void read_sparse_layers(const JsonFields& config, ModelOptions& options);
void write_sparse_layers(const ModelOptions& options, Json& config);

/// The router, every expert of a layer, and the shared one if there is one: `hf` and `ours` are the
/// prefixes of its names.
void add_experts(HfTensorList& list, const ModelOptions& options, const std::string& hf,
                 const std::string& ours, const HfExpertNames& names);

}  // namespace tessera
