// A model with experts that starts from a dense one (--moe-use-upcycling): every expert is a copy
// of its layer's MLP, and routers stay as they are initialised. The weights of a token's experts
// add up to 1, so the model computes at first what the dense one does. Where they do not (a softmax
// over all experts, a factor on the weights), the copies of the down matrix are scaled so that they
// do on average.
#pragma once

#include <functional>
#include <string>

#include "tessera/options/model_options.h"
#include "tessera/parallel/sharding.h"

namespace tessera {

/// The tensor of the dense model; empty: there is none.
std::string dense_name(const std::string& name);

/// What the outputs of the experts are multiplied by.
double upcycling_scale(const ModelOptions& model);

/// Fills a box of a tensor of a model with experts. `read` is called for each box of the dense
/// model that it consists of, with the global shape that the tensor must have there. A tensor that
/// the dense model has not keeps its values.
class Upcycling {
 public:
  using Read = std::function<void(const std::string& name, const Shape& global,
                                  const ShardPiece& piece, const View& part)>;

  explicit Upcycling(const ModelOptions& model) : scale_(upcycling_scale(model)) {}

  void fill(const std::string& name, const Shape& global, const ShardPiece& piece, const View& part,
            const Read& read) const;

 private:
  double scale_;
};

}  // namespace tessera
