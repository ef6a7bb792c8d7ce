#include "tessera/train/dump_step.h"

#include "tessera/base/check.h"
#include "tessera/base/files.h"
#include "tessera/base/json.h"
#include "tessera/checkpoint/format/safetensors_writer.h"
#include "tessera/checkpoint/hf/hf_config.h"
#include "tessera/checkpoint/saving/hf_weights.h"

namespace tessera {

void StepDump::check_place(const fs::path& folder) {
  check_folder_can_be(folder);
  check_input(!fs::exists(folder) || fs::is_empty(folder), "the folder is there and not empty");
}

StepDump::StepDump(const fs::path& folder, const ModelOptions& model)
    : folder_(folder), family_(hf_family_for(model)) {}

void StepDump::initial_weights(Session& session) {
  const bool writes = session.context().mesh.world().rank() == 0;
  if (writes) make_folders(folder_ / "initial");
  const ModelOptions& model = session.options().model;
  if (writes && !family_.empty())
    write_file_atomically(folder_ / "initial/config.json",
                          hf_config_for(model, family_).dump(2) + "\n");
  write_hf_blocks(folder_ / "initial/model.safetensors", session, session.parameters().values(),
                  family_, "");
}

void StepDump::batch(const HostBatch& batch) { batches_.push_back(batch); }

void StepDump::gradients(Session& session) {
  write_hf_blocks(folder_ / "gradients.safetensors", session, session.parameters().grads(), family_,
                  "");
}

void StepDump::finish(Session& session, const StepRecord& record, LossAverage average) {
  write_hf_blocks(folder_ / "updated.safetensors", session, session.parameters().values(), family_,
                  "");
  if (session.context().mesh.world().rank() > 0) return;
  write_batch();
  const OptimizerOptions& o = session.options().optimizer;
  const Json step{
      {"loss", record.loss},
      {"grad_norm", record.grad_norm},
      {"learning_rate", record.learning_rate},
      {"loss_scale", record.loss_scale},
      {"loss_average", average == LossAverage::per_token ? "per_token" : "per_microbatch"},
      {"label_smoothing", session.options().model.label_smoothing},
      {"microbatches", session.options().microbatches},
      {"optimizer", to_string(o.kind)},
      {"adam_beta1", o.adam_beta1},
      {"adam_beta2", o.adam_beta2},
      {"adam_eps", o.adam_eps},
      {"sgd_momentum", o.sgd_momentum},
      {"router_losses", session.extra_losses().names()},
      {"weight_decay", o.weight_decay},
      {"clip_grad", o.clip_grad}};
  write_file_atomically(folder_ / "step.json", step.dump(2) + "\n");
}

void StepDump::write_batch() const {
  HostBatch all;
  for (const HostBatch& batch : batches_) {
    all.tokens.insert(all.tokens.end(), batch.tokens.begin(), batch.tokens.end());
    all.labels.insert(all.labels.end(), batch.labels.begin(), batch.labels.end());
    all.loss_mask.insert(all.loss_mask.end(), batch.loss_mask.begin(), batch.loss_mask.end());
    all.positions.insert(all.positions.end(), batch.positions.begin(), batch.positions.end());
  }
  const std::int64_t seq = batches_.front().seq_length;
  const Shape shape{static_cast<std::int64_t>(all.tokens.size()) / seq, seq};
  const std::vector<NamedView> tensors{
      {"tokens", ConstView(all.tokens.data(), DType::i32, shape)},
      {"labels", ConstView(all.labels.data(), DType::i32, shape)},
      {"loss_mask", ConstView(all.loss_mask.data(), DType::f32, shape)},
      {"positions", ConstView(all.positions.data(), DType::i32, shape)}};
  write_safetensors(folder_ / "batch.safetensors", tensors);
}

}  // namespace tessera
