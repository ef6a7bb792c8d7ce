// A scaled-down reference model of a training configuration: the same kind of model in the same
// kind of layout, of a size that runs in a moment. What matters to the layout stays: how key/value
// heads, vocabulary, sequence and layers relate to the ranks that share them.
#pragma once

#include <string>
#include <vector>

#include "tessera/engine/session.h"
#include "tessera/options/options.h"

namespace tessera {

struct ReferenceModel {
  SessionOptions session;            ///< in f64, on the CPU
  std::vector<std::string> changes;  ///< "num-layers 32 -> 2"
};

/// Of resolved and valid options.
ReferenceModel make_reference_model(const Options& options);

/// The same model on one rank.
SessionOptions on_one_rank(SessionOptions session);

}  // namespace tessera
