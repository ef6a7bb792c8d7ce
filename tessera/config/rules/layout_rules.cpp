// Whether a model and its batches can be split over tensor-parallel ranks.
#include <fmt/ranges.h>

#include <algorithm>

#include "tessera/config/rules/rules.h"

namespace tessera::config {
namespace {

// Adds a problem unless the ranks get equal parts. `why` says what they split.
void require_parts(std::string_view flag, std::int64_t value, std::int64_t parts,
                   std::string_view parts_text, std::string_view why, Problems& problems) {
  problems.require(value % parts == 0, "--{} {} is not a multiple of {}: {}; change one of them",
                   flag, value, parts_text, why);
}

void row_rules(const Options& options, Problems& problems) {
  const ModelOptions& m = options.model;
  const int size = options.parallel.tensor;
  const std::string ranks = fmt::format("--tensor-model-parallel-size {}", size);
  require_parts("num-attention-heads", m.num_attention_heads, size, ranks,
                "every tensor-parallel rank computes the same number of heads", problems);
  const std::int64_t groups = m.num_query_groups;
  problems.require(
      groups <= 0 || groups == m.num_attention_heads || groups % size == 0 || size % groups == 0,
      "--num-query-groups {} and {}: one must be a multiple of the other, so that a rank holds "
      "whole key/value heads, or ranks hold copies of one; change one of them",
      groups, ranks);
  if (m.num_experts == 0)
    require_parts("ffn-hidden-size", m.ffn_hidden_size, size, ranks,
                  "every tensor-parallel rank computes a part of the MLP of the same width",
                  problems);
}

void tensor_2d_rules(const Options& options, Problems& problems) {
  const ModelOptions& m = options.model;
  const int side = options.parallel.tensor_2d;
  const std::string ranks =
      fmt::format("{0}, the side of --tensor-model-parallel-grid {0},{0}", side);
  require_parts("micro-batch-size", options.train.micro_batch_size, side, ranks,
                "the grid's rows split the samples", problems);
  problems.require(!m.multi_latent_attention,
                   "--multi-latent-attention with --tensor-model-parallel-grid: latent attention "
                   "needs 1-D tensor parallelism; use --tensor-model-parallel-size");
  problems.require(m.mtp_num_layers == 0,
                   "--mtp-num-layers with --tensor-model-parallel-grid: multi-token prediction "
                   "needs 1-D tensor parallelism; use --tensor-model-parallel-size");
  const auto columns = [&](std::string_view flag, std::int64_t value, std::string_view what) {
    require_parts(flag, value, side, ranks, fmt::format("the grid's columns split {}", what),
                  problems);
  };
  columns("hidden-size", m.hidden_size, "the hidden size");
  columns("num-attention-heads", m.num_attention_heads, "the heads");
  if (m.num_query_groups != m.num_attention_heads)
    columns("num-query-groups", m.num_query_groups, "the key/value heads");
  columns("ffn-hidden-size", m.ffn_hidden_size, "the MLP's width");
}

void vocabulary_rule(const Options& options, Problems& problems) {
  const ModelOptions& m = options.model;
  const bool known = m.hidden_size > 0 && m.vocab_size > 0;
  problems.require(!known || m.vocab_size >= options.parallel.tensor,
                   "a vocabulary of {} tokens cannot be split over {} tensor-parallel ranks: use "
                   "at most {} of them, or raise --padded-vocab-size",
                   m.vocab_size, options.parallel.tensor, m.vocab_size);
}

// Each context-parallel rank has two chunks of the sequence, which with sequence parallelism its
// tensor-parallel ranks split further.
void context_rule(const Options& options, Problems& problems) {
  const ParallelOptions& p = options.parallel;
  const std::int64_t seq = options.data.seq_length;
  const std::int64_t parts = 2 * std::int64_t{p.context} * (p.sequence_parallel ? p.tensor : 1);
  if (p.context == 1 || seq % parts == 0) return;
  const std::int64_t below = seq / parts * parts;
  problems.add(
      "--seq-length {} is not a multiple of {}, which is 2 x --context-parallel-size {}{}: every "
      "rank works on two chunks of each sequence, all of the same length; set it to {}{}, or "
      "change the sizes",
      seq, parts, p.context,
      p.sequence_parallel ? fmt::format(" x --tensor-model-parallel-size {}", p.tensor) : "",
      below > 0 ? fmt::format("{} or ", below) : "", below + parts);
}

void cp_comm_type_rules(const Options& options, Problems& problems) {
  const ParallelOptions& p = options.parallel;
  const ModelOptions& m = options.model;
  if (p.context == 1 || m.num_layers == 0 || m.num_attention_heads == 0) return;
  const auto kinds = std::ssize(p.cp_comm_types);
  problems.require(kinds == 1 || kinds == m.num_layers,
                   "--cp-comm-type has {} kinds for {} layers: give one, or one for each layer",
                   kinds, m.num_layers);
  const auto has = [&](CpCommType kind) { return std::ranges::count(p.cp_comm_types, kind) > 0; };
  const std::int64_t heads = m.num_attention_heads / p.head_shards();
  problems.require(
      !has(CpCommType::a2a) || heads >= p.context,
      "--cp-comm-type a2a: {} query heads on a tensor-parallel rank cannot be shared by "
      "--context-parallel-size {} ranks; use p2p, all_gather or a2a+p2p",
      heads, p.context);
  const std::vector<int>& sizes = p.hierarchical_context;
  if (!has(CpCommType::a2a_p2p)) {
    problems.require(
        sizes.empty(),
        "--hierarchical-context-parallel-sizes needs --cp-comm-type a2a+p2p: drop it, or "
        "select that kind");
    return;
  }
  if (sizes.size() != 2 || std::ranges::min(sizes) < 2 ||
      std::int64_t{sizes[0]} * sizes[1] != p.context) {
    problems.add(
        "--cp-comm-type a2a+p2p needs --hierarchical-context-parallel-sizes A B, both at least 2, "
        "with A x B = --context-parallel-size {}, got {}",
        p.context, sizes.empty() ? "none" : fmt::format("{}", fmt::join(sizes, " ")));
    return;
  }
  problems.require(
      heads >= sizes[0],
      "--hierarchical-context-parallel-sizes {} {}: {} query heads on a tensor-parallel "
      "rank cannot be shared by {} ranks; make the first size smaller",
      sizes[0], sizes[1], heads, sizes[0]);
}

void sequence_rules(const Options& options, Problems& problems) {
  const ParallelOptions& p = options.parallel;
  context_rule(options, problems);
  cp_comm_type_rules(options, problems);
  if (!p.sequence_parallel) return;
  if (p.tensor_2d > 0)
    problems.add(
        "--sequence-parallel and --tensor-model-parallel-grid exclude each other: the grid "
        "splits what sequence parallelism would split; drop --sequence-parallel");
  else if (p.context == 1)
    require_parts("seq-length", options.data.seq_length, p.tensor,
                  fmt::format("--tensor-model-parallel-size {}", p.tensor),
                  "with --sequence-parallel every rank holds the same number of positions",
                  problems);
}

void saved_rules(const Options& options, Problems& problems) {
  const ParallelOptions& p = options.parallel;
  if (!options.recompute.distribute_saved_activations) return;
  if (p.tensor == 1)
    problems.add(
        "--distribute-saved-activations splits kept layer inputs over the tensor-parallel "
        "ranks, but --tensor-model-parallel-size is 1: raise it, or drop "
        "--distribute-saved-activations");
  else if (p.sequence_parallel || p.tensor_2d > 0)
    problems.add(
        "--distribute-saved-activations and --{} exclude each other: every rank keeps only "
        "a part of the layer inputs already; drop --distribute-saved-activations",
        p.sequence_parallel ? "sequence-parallel" : "tensor-model-parallel-grid");
  else
    problems.require(
        options.data.seq_length / p.context * options.train.micro_batch_size % p.tensor == 0,
        "--seq-length {}{} x --micro-batch-size {} is not a multiple of "
        "--tensor-model-parallel-size {}: with --distribute-saved-activations every "
        "rank keeps a layer's inputs for the same number of tokens; change one of "
        "them, or drop --distribute-saved-activations",
        options.data.seq_length,
        p.context > 1 ? fmt::format(" / --context-parallel-size {}", p.context) : "",
        options.train.micro_batch_size, p.tensor);
}

}  // namespace

void split_model_rules(const Options& options, Problems& problems) {
  if (options.parallel.tensor_2d > 0)
    tensor_2d_rules(options, problems);
  else
    row_rules(options, problems);
  if (options.model.num_experts > 0) expert_split_rules(options, problems);
  vocabulary_rule(options, problems);
  sequence_rules(options, problems);
  saved_rules(options, problems);
}

}  // namespace tessera::config
