// Hand-made parameters of all placement classes on any mesh of threads, with gradients that are
// known: what each token adds to each element is a small integer, so that sums are exact in any
// order, and layouts agree to the bit.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include "tessera/base/rng.h"
#include "tessera/launch/launch.h"
#include "tessera/optim/kept_slices.h"
#include "tessera/optim/optimizer.h"
#include "tests/support/tensors.h"

namespace tessera::test {

inline constexpr int kTokens = 32;
inline constexpr int kMicrobatches = 2;
inline constexpr std::int64_t kWidth = 6;
inline constexpr std::int64_t kExperts = 8;
inline constexpr std::int64_t kExpertWidth = 4;

struct PlacedLayout {
  ParallelOptions parallel;
  DType dtype = DType::f64;
  bool offload = false;
  std::string frozen = {};  ///< a tensor whose parameter is not trained
};

inline ParallelOptions placed_mesh(int tensor, int context, int data, int pipeline, int expert,
                                   int expert_tensor) {
  ParallelOptions options;
  options.tensor = tensor;
  options.context = context;
  options.data = data;
  options.pipeline = pipeline;
  options.expert = expert;
  options.expert_tensor = expert_tensor;
  options.bucket_elements = 500;  // several units
  return options;
}

/// Global tensors by name, and how often each element was put there.
class TensorStore {
 public:
  struct Stored {
    Shape shape;
    Values values;
    std::vector<int> count;
  };

  /// Ranks (threads) put and get boxes under a lock.
  void put(const std::string& name, const KeptSlice& slice, const Values& values) {
    const std::lock_guard lock(mutex_);
    Stored& tensor = tensors_[name];
    tensor.shape = slice.global;
    tensor.values.resize(static_cast<std::size_t>(slice.global.numel()));
    tensor.count.resize(tensor.values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t at = place(slice.global, slice.piece, i);
      tensor.values[at] = values[i];
      tensor.count[at] += 1;
    }
  }
  Values get(const std::string& name, const Shape& global, const ShardPiece& box) const {
    const Stored& tensor = tensors_.at(name);
    Values values(static_cast<std::size_t>(box.extent.numel()));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = tensor.values[place(global, box, i)];
    return values;
  }
  const std::map<std::string, Stored>& tensors() const { return tensors_; }

  /// The place in the tensor of a box's i-th element.
  static std::size_t place(const Shape& global, const ShardPiece& box, std::size_t i) {
    std::int64_t at = 0, scale = 1;
    auto rest = static_cast<std::int64_t>(i);
    for (int d = global.rank() - 1; d >= 0; --d) {
      at += (box.offset[d] + rest % box.extent[d]) * scale;
      rest /= box.extent[d];
      scale *= global[d];
    }
    return static_cast<std::size_t>(at);
  }

 private:
  std::mutex mutex_;
  std::map<std::string, Stored> tensors_;
};

/// One rank. Units: a table that the head shares, a dense layer, experts, the head. With two
/// pipeline stages the first has no experts, and the head a copy of the table.
class PlacedModel {
 public:
  PlacedModel(const PlacedLayout& layout, const Rank& rank)
      : layout_(layout),
        mesh_(layout.parallel, rank.world, layout.parallel.tensor),
        context_{*lab_.operator->(), lab_.stream, mesh_, workspace_.view()},
        at_(mesh_.grid().coordinates(rank.rank)),
        expert_at_(mesh_.expert_grid().coordinates(rank.rank)) {
    make_units();
    for (Parameter& parameter : made_)
      for (const ShardedTensor& tensor : parameter.tensors())
        if (tensor.name == layout.frozen) parameter.freeze();
    std::vector<ParameterBuffers::Options> classes;
    for (const PlacementClass each : kPlacementClasses)
      classes.push_back(options_for(each, mesh_.groups(each).sharding->rank()));
    const ParallelOptions& p = layout.parallel;
    parameters.emplace(
        units_, context_, lab_.memory, classes,
        DataParallel::Options{kMicrobatches, p.overlap_grad_reduce, p.overlap_param_gather});
    parameters->initialize(context_, 5);
    optimizer.emplace(optimizer_options(), *parameters, context_, lab_.memory);
    const double rate = 0.1;
    optimizer->set_rates(context_, std::span(&rate, 1));
    parameters->parameters_updated();
  }

  const Mesh& mesh() const { return mesh_; }
  Lab& lab() { return lab_; }
  Context& context() { return context_; }

  /// All microbatches forward and backward. `visit(parameter)` sees every value before it is used.
  template <class Visit>
  void compute_gradients(const Visit& visit) {
    parameters->begin_step();
    for (int microbatch = 0; microbatch < kMicrobatches; ++microbatch) {
      for (std::size_t unit = 0; unit < units_.size(); ++unit) {
        parameters->before_use(unit, NextFsdpUnit::following);
        for (const Parameter* parameter : units_[unit]) visit(*parameter);
      }
      for (std::size_t unit = units_.size(); unit-- > 0;) {
        parameters->before_use(unit, NextFsdpUnit::preceding);
        parameters->before_gradients(unit);
        for (Parameter* parameter : units_[unit]) add_gradient(*parameter, microbatch);
        parameters->gradients_added(unit, true);
      }
    }
    parameters->finish_gradients();
    optimizer->measure_gradients(context_);
  }
  double grad_norm() { return optimizer->grad_norm(context_); }
  void update() {
    const Tensor loss = lab_.full(DType::f64, {1}, 0.5), weight = lab_.full(DType::f64, {1}, 1);
    optimizer->update(context_, loss.view(), weight.view());
    parameters->parameters_updated();
  }

  /// Calls visit(name, slice, part) for all that this rank keeps of blocks.
  template <class Visit>
  void visit_kept(const std::string& prefix, const std::vector<ParameterBlock>& blocks,
                  const Visit& visit) {
    parameters->wait_for_param_gather();
    for (const ParameterBlock& block : blocks)
      for (const KeptSlice& slice : kept_slices(mesh_, block))
        visit(prefix + slice.tensor, slice, slice.in(block));
  }
  /// The same of all that a checkpoint has.
  template <class Visit>
  void visit_saved(const Visit& visit) {
    visit_kept("", parameters->values(), visit);
    for (const Optimizer::State& state : optimizer->states())
      visit_kept(state.name + ".", state.blocks, visit);
  }
  void save(TensorStore& to) {
    visit_saved([&](const std::string& name, const KeptSlice& slice, const View& part) {
      if (slice.writes) to.put(name, slice, lab_.read(part));
    });
  }
  void load(const TensorStore& from, std::int64_t step) {
    visit_saved([&](const std::string& name, const KeptSlice& slice, const View& part) {
      lab_.write(part, from.get(name, slice.global, slice.piece));
    });
    StepState state = optimizer->step_state(context_);
    state.iteration = state.step = step;
    optimizer->set_step_state(context_, state);
    parameters->parameters_updated();
  }

  /// What a rank of this layout should hold, by use.
  void expect_planned_memory() const {
    std::int64_t values = 0, grads = 0, states = 0;
    for (const PlacementClass each : kPlacementClasses) {
      const ParameterBuffers::Options options = options_for(each, 0);
      const BucketLayout layout = ParameterBuffers::layout_for(units_, options);
      const ParameterBuffers::Elements elements = ParameterBuffers::elements_for(layout, options);
      const auto size = static_cast<std::int64_t>(element_size(layout_.dtype));
      values += elements.all_values() * size;
      grads += elements.all_grads() * size + (elements.bf16_in + elements.bf16_out) * 2;
      states += layout.trained_elements() / layout.shards();
    }
    const auto held = [&](MemoryUse use) {
      return lab_.memory.counters().bytes[static_cast<std::size_t>(use)];
    };
    EXPECT_EQ(held(MemoryUse::parameters), values);
    EXPECT_EQ(held(MemoryUse::gradients), grads);
    EXPECT_EQ(
        held(MemoryUse::optimizer),
        Optimizer::bytes_for(optimizer_options(), states, layout_.dtype, kPlacementClasses.size()));
  }

  std::optional<ModelParameters> parameters;
  std::optional<Optimizer> optimizer;

 private:
  ParameterBuffers::Options options_for(PlacementClass placement_class, int shard) const {
    return ParameterBuffers::options_for(layout_.parallel, placement_class, shard, layout_.dtype,
                                         layout_.dtype);
  }
  OptimizerOptions optimizer_options() const {
    OptimizerOptions options;
    options.clip_grad = 10;
    options.cpu_offload = layout_.offload;
    options.offload_window = 96;
    return options;
  }

  void make_units() {
    const int stage = at_.pipeline, stages = layout_.parallel.pipeline;
    if (stage == 0) {
      add_table(stages > 1, false);
      units_.emplace_back();
      add_dense_layer();
    }
    if (stage == stages - 1) {
      units_.emplace_back();
      add_experts();
      if (stages > 1) add_table(true, true);
      units_.emplace_back();
      add(rows("output", 9));
    }
  }

  void add(Parameter parameter) {
    units_.back().push_back(&made_.emplace_back(std::move(parameter)));
  }
  InitSpec init() const { return {InitKind::normal, 1}; }

  // Rows over the tensor group, unequal ones.
  Parameter rows(const std::string& name, std::int64_t count) const {
    const Range mine = balanced_range(count, layout_.parallel.tensor, at_.tensor);
    const Shape local{mine.length(), kWidth};
    return {layout_.dtype,
            local,
            {{name, {count, kWidth}, {{{mine.begin, 0}, local, 0, contiguous_strides(local)}}}},
            init()};
  }
  void add_table(bool tied, bool copy) {
    units_.emplace_back();
    add(rows("table", 7));
    if (tied) made_.back().tie(copy);
  }
  // Queries of their own, and keys that all tensor-parallel ranks have, in one matrix.
  void add_dense_layer() {
    const Range mine = balanced_range(8, layout_.parallel.tensor, at_.tensor);
    const std::int64_t own = mine.length() * kWidth;
    const ShardPiece q{{mine.begin, 0}, {mine.length(), kWidth}, 0, {kWidth, 1}};
    const ShardPiece k{{0, 0}, {2, kWidth}, own, {kWidth, 1}};
    add({layout_.dtype,
         {mine.length() + 2, kWidth},
         {{"q", {8, kWidth}, {q}},
          {"k",
           {2, kWidth},
           {k},
           at_.tensor == 0,
           {.gradient_group = GradientGroup::kv_replication}}},
         init()});
    add(replicated_parameter(layout_.dtype, "norm", {kWidth}, {InitKind::ones}, at_.tensor,
                             {.gradient_group = GradientGroup::tensor}));
    add(replicated_parameter(layout_.dtype, "bias", {kWidth}, init(), at_.tensor));
  }
  // gate and up [experts, width, kWidth] as [gate | up] of each expert, one down matrix per expert,
  // and biases that all ranks have which share an expert.
  void add_experts() {
    const ExpertGrid& grid = mesh_.expert_grid();
    const Range mine = balanced_range(kExperts, grid.expert(), expert_at_.expert);
    const Range part = balanced_range(kExpertWidth, grid.tensor(), expert_at_.tensor);
    const std::int64_t n = mine.length(), f = part.length();
    const Placement placement{PlacementClass::expert};
    const Shape global{kExperts, kExpertWidth, kWidth};
    const auto half = [&](std::int64_t at) {
      return ShardPiece{
          {mine.begin, part.begin, 0}, {n, f, kWidth}, at, {2 * f * kWidth, kWidth, 1}};
    };
    add({layout_.dtype,
         {n, 2 * f, kWidth},
         {{"gate", global, {half(0)}, true, placement},
          {"up", global, {half(f * kWidth)}, true, placement}},
         init()});
    std::vector<ShardedTensor> down;
    for (std::int64_t i = 0; i < n; ++i)
      down.push_back({"down" + std::to_string(mine.begin + i),
                      {kWidth, kExpertWidth},
                      {{{0, part.begin}, {kWidth, f}, i * kWidth * f, {f, 1}}},
                      true,
                      placement});
    add({layout_.dtype, {n, kWidth, f}, std::move(down), init()});
    const Shape local{n, kWidth};
    add({layout_.dtype,
         local,
         {{"expert_bias",
           {kExperts, kWidth},
           {{{mine.begin, 0}, local, 0, contiguous_strides(local)}},
           expert_at_.tensor == 0,
           {PlacementClass::expert, GradientGroup::expert_tensor}}},
         init()});
  }

  // Tokens lie on the ranks of a stage in turn. Whether this rank computes what a token adds to a
  // parameter: a dense one sees those of its data and context ranks, an expert those that were sent
  // to its expert-data rank; of both, a partial gradient those of its place in the group.
  bool sees(int token, const Placement& placement) const {
    const int slot = token % (mesh_.grid().ranks() / mesh_.grid().size(Axis::pipeline));
    const RankCoordinates dense = mesh_.grid().coordinates(slot);
    const ExpertCoordinates expert = mesh_.expert_grid().coordinates(slot);
    const bool mine = placement.placement_class == PlacementClass::dense
                          ? dense.data == at_.data && dense.context == at_.context
                          : expert.data == expert_at_.data;
    switch (placement.gradient_group) {
      case GradientGroup::none: return mine;
      case GradientGroup::expert_tensor: return mine && expert.tensor == expert_at_.tensor;
      default: return mine && dense.tensor == at_.tensor;
    }
  }
  static double added_by(const RngKey& key, std::size_t element, int token) {
    return static_cast<double>(philox_word(key, element * kTokens + std::size_t(token)) % 3) - 1;
  }
  // Both ends add to the table.
  std::vector<RngKey> keys_of(const std::string& tensor) const {
    std::vector<RngKey> keys;
    const bool first = at_.pipeline == 0, last = at_.pipeline == layout_.parallel.pipeline - 1;
    if (tensor != "table" || first) keys.push_back(rng_key(11, RngPurpose::test, tensor));
    if (tensor == "table" && last) keys.push_back(rng_key(11, RngPurpose::test, "head"));
    return keys;
  }
  void add_gradient(Parameter& parameter, int microbatch) {
    if (!parameter.trained()) return;
    const Gradient gradient_view = parameter.grad();
    for (const ShardedTensor& tensor : parameter.tensors())
      for (const ShardPiece& piece : tensor.pieces) {
        const View part = piece.in(gradient_view.view);
        Values values = gradient_view.accumulate
                            ? lab_.read(part)
                            : Values(static_cast<std::size_t>(part.numel()), 0.0);
        // Tokens go around the ranks within a microbatch.
        for (int token = microbatch; token < kTokens; token += kMicrobatches)
          if (sees(token / kMicrobatches, tensor.placement))
            for (const RngKey& key : keys_of(tensor.name))
              for (std::size_t i = 0; i < values.size(); ++i)
                values[i] += added_by(key, TensorStore::place(tensor.global, piece, i), token);
        lab_.write(part, values);
      }
  }

  PlacedLayout layout_;
  Lab lab_;
  Mesh mesh_;
  Tensor workspace_ = lab_.workspace(1 << 16);
  Context context_;
  RankCoordinates at_;
  ExpertCoordinates expert_at_;
  std::deque<Parameter> made_;
  std::vector<ParameterList> units_;
};

}  // namespace tessera::test
