#include "tessera/nn/layer_spec.h"

namespace tessera {
namespace {

std::vector<std::string> names(const AttentionLayerSpec&) { return {}; }
std::vector<std::string> names(const MlpSpec&) { return {}; }

}  // namespace

std::vector<std::string> extra_loss_names(const LayerSpec& spec) {
  const auto visitor = [](const auto& sublayer) { return names(sublayer); };
  std::vector<std::string> all = std::visit(visitor, spec.mixer);
  for (std::string& name : std::visit(visitor, spec.feed_forward)) all.push_back(std::move(name));
  return all;
}

}  // namespace tessera
