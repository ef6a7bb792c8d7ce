// The models that are measured: configs.json, which Tessera's programs and the PyTorch peer both
// read, so that they cannot drift apart.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/options/model_options.h"

namespace tessera::bench {

struct Workload {
  std::string name;
  ModelOptions model;
  std::int64_t seq = 0;
  std::int64_t micro_batch = 1;
  std::int64_t rows() const { return seq * micro_batch; }
};

Workload workload(const std::string& config, std::int64_t micro_batch);

/// "gpt2-124m-t256:4,llama-60m:4": configuration and micro-batch, several with commas.
std::vector<Workload> workloads(const std::string& list);

}  // namespace tessera::bench
