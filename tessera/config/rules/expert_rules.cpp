// The rules of mixtures of experts, and of their layout.
#include "tessera/config/rules/rules.h"

namespace tessera::config {
namespace {

void router_rules(const ModelOptions& m, Problems& problems) {
  problems.require(m.num_experts != 1,
                   "--num-experts 1: the router's softmax over one expert is always 1, and the "
                   "router would learn nothing; set 2 or more, or drop it");
  problems.require(m.moe_router_topk == 1,
                   "--moe-router-topk {}: this version sends each token to one expert; set "
                   "--moe-router-topk 1",
                   m.moe_router_topk);
  problems.require(m.moe_router_topk != 1 || m.moe_router_pre_softmax,
                   "--moe-router-topk 1 without --moe-router-pre-softmax: a softmax over one "
                   "chosen expert is always 1, and the router would learn nothing; add "
                   "--moe-router-pre-softmax");
  problems.require(!m.mlp_bias,
                   "--num-experts {}: experts have no biases; add --disable-bias-linear",
                   m.num_experts);
}

void expert_layout_rules(const Options& options, Problems& problems) {
  const ModelOptions& m = options.model;
  const ParallelOptions& p = options.parallel;
  problems.require(m.num_experts % p.expert == 0,
                   "--num-experts {} is not a multiple of --expert-model-parallel-size {}: every "
                   "rank has the same number of experts; change one of them",
                   m.num_experts, p.expert);
  problems.require(p.tensor == 1 || p.tensor_2d > 0 || p.sequence_parallel,
                   "--num-experts {} with --tensor-model-parallel-size {} needs "
                   "--sequence-parallel: otherwise the tensor-parallel ranks would send each token "
                   "to its expert {} times",
                   m.num_experts, p.tensor, p.tensor);
}

}  // namespace

void expert_split_rules(const Options& options, Problems& problems) {
  const ModelOptions& m = options.model;
  const ParallelOptions& p = options.parallel;
  problems.require(m.moe_ffn_hidden_size % p.expert_tensor_size() == 0,
                   "--moe-ffn-hidden-size {} is not a multiple of --expert-tensor-parallel-size "
                   "{}: every rank has a part of an expert of the same width; change one of them",
                   m.moe_ffn_hidden_size, p.expert_tensor_size());
  problems.require(p.tensor_2d == 0,
                   "--num-experts {} with --tensor-model-parallel-grid: experts need 1-D tensor "
                   "parallelism; use --tensor-model-parallel-size",
                   m.num_experts);
}

void expert_rules(const Options& options, Problems& problems) {
  const ParallelOptions& p = options.parallel;
  if (options.model.num_experts > 0) {
    router_rules(options.model, problems);
    expert_layout_rules(options, problems);
  } else {
    problems.require(p.expert == 1,
                     "--expert-model-parallel-size {}: the model has no experts; set "
                     "--num-experts, or drop it",
                     p.expert);
  }
}

void expert_sharding_rules(const ParallelOptions& p, const Ranks& ranks, Problems& problems) {
  const std::int64_t set = std::int64_t{p.expert_tensor_size()} * p.expert * p.pipeline;
  if (p.sharding == Sharding::none || ranks.count % set != 0) return;
  const std::int64_t copies = ranks.count / set;
  problems.require(copies % p.sharding_instances == 0,
                   "--num-distributed-optimizer-instances {} does not divide the {} copies of each "
                   "expert into equal groups: change one of them",
                   p.sharding_instances, copies);
}

}  // namespace tessera::config
