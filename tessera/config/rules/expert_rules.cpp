// The rules of mixtures of experts, and of their layout.
#include <algorithm>
#include <cstddef>

#include "tessera/config/rules/rules.h"
#include "tessera/options/model_names.h"

namespace tessera::config {
namespace {

void expert_layer_rules(const ModelOptions& m, Problems& problems) {
  const std::vector<std::int64_t>& freq = m.moe_layer_freq;
  problems.require(std::ranges::count(freq, 0) < std::ssize(freq),
                   "--moe-layer-freq has no layer with experts: set a 1 in it, or drop "
                   "--num-experts");
  problems.require(freq.size() == 1 || std::ssize(freq) == m.num_layers,
                   "--moe-layer-freq has {} values for --num-layers {}: give one number N for "
                   "every N-th layer, or a 0 or 1 for each layer",
                   freq.size(), m.num_layers);
}

void router_rules(const ModelOptions& m, Problems& problems) {
  problems.require(m.num_experts != 1,
                   "--num-experts 1: the router's softmax over one expert is always 1, and the "
                   "router would learn nothing; set 2 or more, or drop it");
  problems.require(m.moe_router_topk <= m.num_experts,
                   "--moe-router-topk {} is more than --num-experts {}: a token goes to different "
                   "experts; change one of them",
                   m.moe_router_topk, m.num_experts);
  const bool softmax_of_one = m.moe_router_topk == 1 && !m.moe_router_pre_softmax &&
                              m.moe_router_score == RouterScore::softmax;
  problems.require(!softmax_of_one,
                   "--moe-router-topk 1 without --moe-router-pre-softmax: a softmax over one "
                   "chosen expert is always 1, and the router would learn nothing; add "
                   "--moe-router-pre-softmax");
  problems.require(!m.mlp_bias || m.moe_shared_ffn == 0,
                   "--moe-shared-expert-intermediate-size {}: a model with a shared expert has no "
                   "biases in its experts; add --disable-bias-linear, without --add-mlp-bias",
                   m.moe_shared_ffn);
  problems.require(!m.mlp_bias || !m.moe_probs_on_input,
                   "--moe-apply-probs-on-input: experts whose inputs are weighted have no biases; "
                   "add --disable-bias-linear, without --add-mlp-bias");
}

void router_group_rules(const ModelOptions& m, Problems& problems) {
  const std::int64_t groups = m.moe_router_num_groups, topk = m.moe_router_group_topk;
  if (groups == 0) return;
  problems.require(topk > 0,
                   "--moe-router-num-groups {} without --moe-router-group-topk: set how many of "
                   "the groups the experts of a token are in",
                   groups);
  problems.require(topk <= groups,
                   "--moe-router-group-topk {} is more than --moe-router-num-groups {}: change one "
                   "of them",
                   topk, groups);
  problems.require(m.num_experts % groups == 0,
                   "--num-experts {} is not a multiple of --moe-router-num-groups {}: groups have "
                   "the same number of experts; change one of them",
                   m.num_experts, groups);
  if (topk == 0 || topk > groups || m.num_experts % groups != 0) return;
  const std::int64_t size = m.num_experts / groups;
  problems.require(m.moe_router_topk <= topk * size,
                   "--moe-router-topk {} is more than the {} experts of --moe-router-group-topk {} "
                   "groups: change one of them",
                   m.moe_router_topk, topk * size, topk);
  problems.require(m.moe_router_group_best <= size,
                   "--moe-router-group-best {} is more than the {} experts of a group: set {} or "
                   "less",
                   m.moe_router_group_best, size, size);
}

void balance_rules(const ModelOptions& m, Problems& problems) {
  const std::size_t kinds = m.moe_balance.size(), coefficients = m.moe_aux_loss_coeff.size();
  problems.require(coefficients <= 1 || coefficients == kinds,
                   "--moe-aux-loss-coeff has {} values for {} of --moe-router-load-balancing-type: "
                   "give one for all, or one for each",
                   coefficients, kinds);
  for (const MoeBalance kind : {MoeBalance::sequence, MoeBalance::microbatch, MoeBalance::global})
    problems.require(std::ranges::count(m.moe_balance, kind) <= 1,
                     "--moe-router-load-balancing-type has {} twice: give each once",
                     to_string(kind));
  const bool with_none = std::ranges::count(m.moe_balance, MoeBalance::none) > 0;
  problems.require(!with_none || kinds == 1,
                   "--moe-router-load-balancing-type has none beside others: give none alone, or "
                   "drop it");
  problems.require(!with_none || std::ranges::all_of(m.moe_aux_loss_coeff,
                                                     [](double each) { return each == 0; }),
                   "--moe-aux-loss-coeff with --moe-router-load-balancing-type none has no effect: "
                   "drop one of them");
}

void upcycling_rules(const ModelOptions& m, Problems& problems) {
  problems.require(m.moe_ffn_hidden_size == m.ffn_hidden_size,
                   "--moe-use-upcycling with --moe-ffn-hidden-size {} and --ffn-hidden-size {}: an "
                   "expert is a copy of the MLP, and has its width; drop --moe-ffn-hidden-size",
                   m.moe_ffn_hidden_size, m.ffn_hidden_size);
  problems.require(m.moe_shared_ffn == 0,
                   "--moe-use-upcycling with --moe-shared-expert-intermediate-size {}: a dense "
                   "model has no weights for a shared expert; drop one of them",
                   m.moe_shared_ffn);
  problems.require(!m.moe_probs_on_input,
                   "--moe-use-upcycling and --moe-apply-probs-on-input exclude each other: with "
                   "weighted inputs, experts cannot compute what the dense model does");
}

void router_dtype_rules(const Options& options, Problems& problems) {
  const DType computed = accumulator_type(options.model.dtype);
  problems.require(options.train.router_dtype.value_or(computed) == computed,
                   "--moe-router-dtype {}: the router of a model in {} computes in {}; drop the "
                   "flag",
                   computed == DType::f32 ? "fp64" : "fp32", to_string(options.model.dtype),
                   computed == DType::f32 ? "fp32" : "fp64");
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
                   "to its experts {} times",
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
  problems.require(m.moe_shared_ffn % p.tensor == 0,
                   "--moe-shared-expert-intermediate-size {} is not a multiple of "
                   "--tensor-model-parallel-size {}: every tensor-parallel rank has a part of the "
                   "shared expert of the same width; change one of them",
                   m.moe_shared_ffn, p.tensor);
  problems.require(p.tensor_2d == 0,
                   "--num-experts {} with --tensor-model-parallel-grid: experts need 1-D tensor "
                   "parallelism; use --tensor-model-parallel-size",
                   m.num_experts);
}

void expert_rules(const Options& options, Problems& problems) {
  const ParallelOptions& p = options.parallel;
  if (options.model.num_experts > 0) {
    expert_layer_rules(options.model, problems);
    router_rules(options.model, problems);
    router_group_rules(options.model, problems);
    balance_rules(options.model, problems);
    router_dtype_rules(options, problems);
    if (options.train.upcycle) upcycling_rules(options.model, problems);
    expert_layout_rules(options, problems);
  } else {
    problems.require(
        !options.train.upcycle,
        "--moe-use-upcycling: the model has no experts; set --num-experts, or drop it");
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
