// Builder for the list of a family's tensors: names, shapes, and the parameters that each is made
// of. Used by the families.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/checkpoint/hf/hf_names.h"
#include "tessera/options/model_options.h"

namespace tessera {

/// A linear layer of ours: its name, and its rows.
struct HfLinear {
  std::string name;
  std::int64_t out;
};

class HfTensorList {
 public:
  /// How the weight of a linear layer is stored.
  struct Layout {
    bool transposed = false;  ///< [in, out] (Conv1D)
    std::int64_t blocks = 1;  ///< see HfTensor
  };

  explicit HfTensorList(const ModelOptions& options) : options_(options) {}

  std::vector<HfTensor> take() { return std::move(tensors_); }

  void add(const std::string& hf_name, const Shape& shape, const std::string& name);
  /// The matrix of one expert, [out, in], of a parameter [experts, out, in].
  void add_expert(const std::string& hf_name, const Shape& shape, const std::string& name,
                  std::int64_t expert);
  /// The matrices of all experts of one linear layer, or of several fused along `out`.
  void add_stack(const std::string& hf_name, const std::vector<HfLinear>& linears, std::int64_t in,
                 Layout layout);
  /// Their biases, fused as the matrices are.
  void add_bias_stack(const std::string& hf_name, const std::vector<HfLinear>& linears,
                      Layout layout);
  /// A vector in the accumulator type.
  void add_accumulator(const std::string& hf_name, std::int64_t size, const std::string& name);
  /// A tensor that is in the file under another name as well.
  void add_copy(const std::string& hf_name, const Shape& shape, const std::string& name);
  /// A weight of the hidden size, and a bias if the options give norms one.
  void add_norm(const std::string& hf_name, const std::string& name);
  /// q_norm and k_norm, if the options ask for them, behind these prefixes.
  void add_qk_norms(const std::string& hf_prefix, const std::string& prefix);
  /// Weight and bias of one linear layer, or of several fused into one along `out`.
  void add_linear(const std::string& hf_name, const std::vector<HfLinear>& linears, std::int64_t in,
                  bool bias, Layout layout);
  void add_linear(const std::string& hf_name, const std::vector<HfLinear>& linears, std::int64_t in,
                  bool bias) {
    add_linear(hf_name, linears, in, bias, {});
  }
  /// Tokens, and positions where they are learned.
  void add_embedding(const std::string& hf_tokens, const std::string& hf_positions);
  /// The output layer, unless it is tied.
  void add_output(const std::string& hf_name);

 private:
  const ModelOptions& options_;
  std::vector<HfTensor> tensors_;
};

}  // namespace tessera
