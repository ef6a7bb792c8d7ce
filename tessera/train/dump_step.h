// Writes the data of one step under Hugging Face names, so that it can be checked with another
// framework:
//
//   <folder>/initial/{config.json, model.safetensors}   the weights before the step
//   <folder>/batch.safetensors                          tokens, labels, loss_mask [samples, S]
//   <folder>/gradients.safetensors, updated.safetensors every gradient, every weight after the step
//   <folder>/step.json                                  loss, gradient norm, optimizer settings
#pragma once

#include <vector>

#include "tessera/base/files.h"
#include "tessera/data/loader.h"
#include "tessera/engine/train_step.h"

namespace tessera {

/// All ranks call it together; rank 0 writes.
class StepDump {
 public:
  /// InputError unless the folder can be created, or exists and is empty.
  static void check_place(const fs::path& folder);
  StepDump(const fs::path& folder, const ModelOptions& model);

  void initial_weights(Session& session);
  void batch(const HostBatch& batch);
  void gradients(Session& session);
  /// Writes the remaining files.
  void finish(Session& session, const StepRecord& record, LossAverage average);

 private:
  void write_batch() const;

  fs::path folder_;
  std::string family_;
  std::vector<HostBatch> batches_;
};

}  // namespace tessera
