// The metrics of single layers with experts (--moe-per-layer-logging): the losses of their routers,
// and how evenly they used their experts.
#pragma once

#include <string>
#include <vector>

#include "tessera/engine/session.h"
#include "tessera/observe/metrics.h"

namespace tessera {

class LayerReport {
 public:
  explicit LayerReport(Session& session);

  /// Of the last step. All ranks of the world call it together.
  std::vector<LayerMetrics> read();

 private:
  Session& session_;
  std::vector<std::string> losses_;
  Tensor loss_values_;  ///< f64 [layers, losses]; empty if there are none
  Tensor statistics_;   ///< f64 [layers, statistics]
};

}  // namespace tessera
