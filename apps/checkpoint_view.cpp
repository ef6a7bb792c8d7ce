#include "apps/checkpoint_view.h"

#include <fmt/core.h>

#include "tessera/base/check.h"
#include "tessera/checkpoint/diff_checkpoints.h"
#include "tessera/checkpoint/inspect_checkpoint.h"
#include "tessera/checkpoint/verify_checkpoint.h"
#include "tessera/train/resume.h"

namespace tessera {
namespace {

bool verified(const Checkpoint& checkpoint) {
  const std::vector<Damage> damage = find_damage(checkpoint);
  fmt::print("{}", damage_text(checkpoint, damage));
  return damage.empty();
}

bool compared(Checkpoint& checkpoint, const fs::path& other_path) {
  Checkpoint other = Checkpoint::open(other_path, std::nullopt);
  fmt::print("compared with '{}'\n", other.path().string());
  const CheckpointDiff diff = diff_checkpoints(checkpoint, other);
  fmt::print("{}", diff.text);
  return diff.same;
}

}  // namespace

void show_checkpoint(const Checkpoint& checkpoint, bool tensors) {
  const std::string file = (checkpoint.path() / kConfigFile).string();
  const Options saved = options_from_yaml(checkpoint.config(), file);
  fmt::print("{}", checkpoint_text(checkpoint, {saved.data.seq_length, tensors}));
}

int view_checkpoint(const ParsedCommand& parsed) {
  const TrainOptions& train = parsed.options.train;
  std::optional<Checkpoint> checkpoint;
  if (!parsed.inspect.verify) {
    checkpoint = Checkpoint::open(train.load, wanted_iteration(train));
  } else {
    const fs::path path = checkpoint_path(train.load, wanted_iteration(train));
    try {
      checkpoint.emplace(path);
    } catch (const InputError& error) {  // the manifest or the configuration
      fmt::print("DAMAGED: {}\n", error.what());
      return 1;
    }
  }
  show_checkpoint(*checkpoint, parsed.inspect.tensors);
  const bool good = !parsed.inspect.verify || verified(*checkpoint);
  if (parsed.inspect.diff.empty()) return good ? 0 : 1;
  if (good) return compared(*checkpoint, parsed.inspect.diff) ? 0 : 1;
  fmt::print("not compared with '{}': a damaged checkpoint is not read\n", parsed.inspect.diff);
  return 1;
}

}  // namespace tessera
