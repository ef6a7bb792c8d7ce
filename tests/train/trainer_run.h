// Short runs of the trainer on a little data, on any device, and what they leave in their folder.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "tessera/base/json.h"
#include "tessera/config/print.h"
#include "tessera/config/resolve.h"
#include "tessera/train/trainer.h"
#include "tests/support/devices.h"
#include "tests/support/small_data.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_models.h"

namespace tessera::test {

constexpr std::int64_t kSteps = 20;

/// A run that evaluates, and saves after every step. A GPU takes it in its deterministic mode.
inline Options run_options(const fs::path& folder, Device device = {}) {
  Options options;
  options.model = tiny_gpt();
  options.model.vocab_size = 0;
  options.data.data_path = {small_data()};
  options.data.split = "80,10,10";
  options.data.tokenizer.kind = TokenizerKind::null;
  options.data.tokenizer.vocab_size = kVocabulary;
  options.data.seq_length = 16;
  options.train.micro_batch_size = 2;
  options.train.global_batch_size = 4;
  options.train.train_iters = kSteps;
  options.train.eval_interval = 7;
  options.train.eval_iters = 1;
  options.train.save = folder.string();
  options.train.save_interval = 1;
  options.schedule.lr = 1e-2;
  options.schedule.min_lr = 1e-3;
  options.schedule.warmup_iters = 3;
  options.schedule.decay_style = DecayStyle::cosine;
  if (device.kind == DeviceKind::cuda) {
    options.train.device = DeviceChoice::cuda;
    options.train.deterministic_mode = true;
    options.model.kv_channels = 64;  // heads for the fast attention kernels
  }
  resolve(options);
  return options;
}

/// A run that layouts of ranks can share: heads and samples for up to eight, saved at the end.
inline Options ranks_options(const fs::path& folder, std::int64_t iterations) {
  Options options = run_options(folder);
  options.model.num_attention_heads = options.model.num_query_groups = 4;
  options.model.kv_channels = options.model.hidden_size / 4;
  options.train.global_batch_size = 16;
  options.train.save_interval = options.train.train_iters = iterations;
  return options;
}

inline Trainer trainer_of(const Options& options) {
  return {options, print_config(options), {0, 1, 2, make_self_communicator()}};
}

/// On as many ranks as the options say.
inline void run(const Options& options) {
  const ParallelOptions& p = options.parallel;
  const int ranks = p.ranks();
  if (ranks == 1) {
    trainer_of(options).run();
    return;
  }
  run_ranks(ranks, 1, [&](Rank& rank) {
    Trainer trainer(options, print_config(options), rank);
    trainer.run();
  });
}

/// The entries of a run's metrics.jsonl.
inline std::vector<Json> metrics_of(const fs::path& folder) {
  std::vector<Json> entries;
  std::ifstream file(folder / "metrics.jsonl");
  for (std::string line; std::getline(file, line);) entries.push_back(Json::parse(line));
  return entries;
}

/// Losses of its steps and of its evaluations, in their order.
inline std::vector<double> losses_of(const fs::path& folder) {
  std::vector<double> losses;
  for (const Json& entry : metrics_of(folder))
    for (const char* key : {"lm_loss", "valid_loss", "test_loss"})
      if (entry.contains(key)) losses.push_back(entry[key]);
  return losses;
}

/// Within a relative error.
inline void expect_near(const std::vector<double>& got, const std::vector<double>& want,
                        double error) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], error * want[i]) << i;
}

/// Whether a test goes through all of its cases, not just a sample.
inline bool runs_all_cases() { return std::getenv("TESSERA_FULL") != nullptr; }

}  // namespace tessera::test
