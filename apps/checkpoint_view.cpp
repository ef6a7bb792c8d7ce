#include "apps/checkpoint_view.h"

#include <fmt/core.h>

#include "tessera/base/check.h"
#include "tessera/checkpoint/diff_checkpoints.h"
#include "tessera/checkpoint/inspect_checkpoint.h"
#include "tessera/checkpoint/verify_checkpoint.h"

namespace tessera {
namespace {

bool verified(const Checkpoint& checkpoint) {
  const std::vector<Damage> damage = find_damage(checkpoint);
  fmt::print("{}", damage_text(checkpoint, damage));
  return damage.empty();
}

bool compared(Checkpoint& checkpoint, const fs::path& other_path) {
  Checkpoint other(checkpoint_path(other_path, std::nullopt));
  fmt::print("compared with '{}'\n", other.path().string());
  const CheckpointDiff diff = diff_checkpoints(checkpoint, other);
  fmt::print("{}", diff.text);
  return diff.same;
}

}  // namespace

int view_checkpoint(const ParsedCommand& parsed) {
  const TrainOptions& train = parsed.options.train;
  const fs::path path = checkpoint_path(
      train.load, train.ckpt_step < 0 ? std::nullopt : std::optional(train.ckpt_step));
  std::optional<Checkpoint> checkpoint;
  try {
    checkpoint.emplace(path);
  } catch (const InputError& error) {  // the manifest or the configuration
    if (!parsed.inspect.verify) throw;
    fmt::print("DAMAGED: {}\n", error.what());
    return 1;
  }
  const Options saved = options_from_yaml(checkpoint->config(), (path / kConfigFile).string());
  fmt::print("{}", checkpoint_text(*checkpoint, {saved.data.seq_length, parsed.inspect.tensors}));
  bool good = true;
  if (parsed.inspect.verify) good = verified(*checkpoint);
  if (good && !parsed.inspect.diff.empty()) good = compared(*checkpoint, parsed.inspect.diff);
  return good ? 0 : 1;
}

}  // namespace tessera
