// Parameters of all placement classes in one model, on meshes where each class has other ranks: all
// layouts must give one rank's gradients, norm and updated weights to the bit, save each element
// once, and go on from what another layout has saved.
#include "tessera/parallel/placement.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "tests/support/placed_model.h"

namespace tessera {
namespace {

using test::placed_mesh;
using test::PlacedLayout;
using test::PlacedModel;
using test::TensorStore;

constexpr Sharding kShardings[] = {Sharding::none, Sharding::optimizer, Sharding::gradients,
                                   Sharding::parameters};

// What one rank has after each of two steps.
struct Reference {
  TensorStore initial, after_one, after_two;
  TensorStore gradients;
  double norm = 0;
};

void run(const PlacedLayout& layout, const std::function<void(PlacedModel&)>& body) {
  const ParallelOptions& p = layout.parallel;
  run_ranks(p.ranks(), 1, [&](Rank& rank) {
    PlacedModel model(layout, rank);
    body(model);
  });
}

void one_step(PlacedModel& model) {
  model.compute_gradients([](const Parameter&) {});
  model.update();
}

const Reference& reference(DType dtype, const std::string& frozen = "") {
  static std::map<std::pair<DType, std::string>, Reference> all;
  Reference& result = all[{dtype, frozen}];
  if (result.norm > 0) return result;
  PlacedLayout layout{placed_mesh(1, 1, 1, 1, 1, 1), dtype, false, frozen};
  run(layout, [&](PlacedModel& model) {
    model.save(result.initial);
    model.compute_gradients([](const Parameter&) {});
    result.norm = model.grad_norm();
    model.visit_kept("", model.parameters->grads(),
                     [&](const std::string& name, const KeptSlice& slice, const View& part) {
                       result.gradients.put(name, slice, model.lab().read(part));
                     });
    model.update();
    model.save(result.after_one);
    one_step(model);
    model.save(result.after_two);
  });
  return result;
}

// Every element of every tensor, once, with these values.
void expect_saved(const TensorStore& got, const TensorStore& want) {
  ASSERT_EQ(got.tensors().size(), want.tensors().size());
  for (const auto& [name, tensor] : want.tensors()) {
    ASSERT_TRUE(got.tensors().contains(name)) << name;
    const TensorStore::Stored& stored = got.tensors().at(name);
    EXPECT_EQ(stored.count, std::vector<int>(tensor.values.size(), 1)) << name;
    EXPECT_TRUE(stored.values == tensor.values) << name << " differs";
  }
}

// Of the gradients that a rank has summed, on every rank.
void expect_gradients(PlacedModel& model, const TensorStore& want) {
  model.visit_kept(
      "", model.parameters->grads(),
      [&](const std::string& name, const KeptSlice& slice, const View& part) {
        EXPECT_TRUE(model.lab().read(part) == want.get(name, slice.global, slice.piece))
            << name << " differs";
      });
}

void expect_values(PlacedModel& model, const Parameter& parameter, const TensorStore& want) {
  for (const ShardedTensor& tensor : parameter.tensors())
    for (const ShardPiece& piece : tensor.pieces)
      EXPECT_TRUE(model.lab().read(piece.in(parameter.value())) ==
                  want.get(tensor.name, tensor.global, piece))
          << tensor.name << " differs where it is used";
}

void expect_equal_to_one_rank(const PlacedLayout& layout) {
  const Reference& want = reference(layout.dtype, layout.frozen);
  TensorStore initial, after_one, after_two;
  run(layout, [&](PlacedModel& model) {
    model.expect_planned_memory();
    model.save(initial);
    model.compute_gradients(
        [&](const Parameter& parameter) { expect_values(model, parameter, want.initial); });
    EXPECT_EQ(model.grad_norm(), want.norm);
    expect_gradients(model, want.gradients);
    model.update();
    model.save(after_one);
    model.compute_gradients(
        [&](const Parameter& parameter) { expect_values(model, parameter, want.after_one); });
    model.update();
    model.save(after_two);
  });
  expect_saved(initial, want.initial);
  expect_saved(after_one, want.after_one);
  expect_saved(after_two, want.after_two);
}

struct MeshCase {
  ParallelOptions parallel;
  std::vector<int> instances;

  std::string text() const {
    const ParallelOptions& p = parallel;
    return fmt::format("tensor {} context {} data {} pipeline {} expert {} x {}", p.tensor,
                       p.context, p.data, p.pipeline, p.expert, p.expert_tensor);
  }
};

// Expert-data groups of the data-parallel ranks, smaller ones, larger ones, and of one rank.
std::vector<MeshCase> meshes() {
  return {{placed_mesh(2, 1, 2, 1, 2, 1), {1, 2}}, {placed_mesh(2, 1, 4, 1, 2, 2), {1, 2}},
          {placed_mesh(4, 1, 2, 1, 2, 1), {1, 2}}, {placed_mesh(1, 1, 8, 1, 4, 1), {1, 2}},
          {placed_mesh(2, 1, 2, 2, 2, 1), {1, 2}}, {placed_mesh(2, 2, 2, 1, 8, 1), {1}},
          {placed_mesh(2, 1, 4, 1, 1, 2), {1, 4}}, {placed_mesh(1, 2, 1, 2, 1, 1), {1}}};
}

// All of them with TESSERA_FULL, otherwise every `sample`-th.
template <class Body>
void for_each_layout(int sample, const Body& body) {
  int number = 0;
  for (const MeshCase& mesh : meshes())
    for (const Sharding sharding : kShardings)
      for (const int instances : mesh.instances) {
        if (sharding == Sharding::none && instances > 1) continue;
        if (std::getenv("TESSERA_FULL") == nullptr && number++ % sample != 0) continue;
        SCOPED_TRACE(fmt::format("{} sharding {} instances {}", mesh.text(),
                                 static_cast<int>(sharding), instances));
        PlacedLayout layout{mesh.parallel};
        layout.parallel.sharding = sharding;
        layout.parallel.sharding_instances = instances;
        layout.parallel.overlap_grad_reduce = mesh.parallel.tensor > 1;
        layout.parallel.overlap_param_gather = mesh.parallel.data > 2;
        body(layout);
      }
}

TEST(Placement, EveryLayoutEqualsOneRank) {
  for_each_layout(2, [](const PlacedLayout& layout) { expect_equal_to_one_rank(layout); });
}

// The sums fit into bf16, so that nothing is rounded on the way.
TEST(Placement, GradientsOfAllClassesTravelInBf16) {
  for_each_layout(5, [](PlacedLayout layout) {
    layout.dtype = DType::f32;
    layout.parallel.grad_reduce_in_bf16 = true;
    expect_equal_to_one_rank(layout);
  });
}

TEST(Placement, StateOfAllClassesIsOffloaded) {
  for (const Sharding sharding : kShardings) {
    PlacedLayout layout{placed_mesh(2, 1, 4, 1, 2, 2)};
    layout.parallel.sharding = sharding;
    layout.offload = true;
    const Reference& want = reference(layout.dtype);
    TensorStore after_two;
    run(layout, [&](PlacedModel& model) {
      one_step(model);
      one_step(model);
      model.save(after_two);
    });
    expect_saved(after_two, want.after_two);
  }
}

TEST(Placement, FrozenExpertsStay) {
  for (const Sharding sharding : kShardings)
    for (const char* frozen : {"gate", "table"}) {
      PlacedLayout layout{placed_mesh(2, 1, 4, 1, 2, 2)};
      layout.parallel.sharding = sharding;
      layout.frozen = frozen;
      expect_equal_to_one_rank(layout);
    }
}

TEST(Placement, ALayoutGoesOnFromWhatAnotherSaved) {
  PlacedLayout before{placed_mesh(2, 1, 4, 1, 2, 2)};
  before.parallel.sharding = Sharding::parameters;
  TensorStore saved;
  run(before, [&](PlacedModel& model) {
    one_step(model);
    model.save(saved);
  });
  const Reference& want = reference(before.dtype);
  expect_saved(saved, want.after_one);
  for_each_layout(5, [&](const PlacedLayout& layout) {
    TensorStore after;
    run(layout, [&](PlacedModel& model) {
      model.load(saved, 1);
      one_step(model);
      model.save(after);
    });
    expect_saved(after, want.after_two);
  });
}

TEST(Placement, SizesFollowFromTheClassesGrids) {
  ParallelOptions options = placed_mesh(4, 1, 2, 1, 2, 1);
  options.sharding = Sharding::optimizer;
  EXPECT_EQ(placement_sizes(options, PlacementClass::dense).data_parallel, 2);
  EXPECT_EQ(placement_sizes(options, PlacementClass::expert).data_parallel, 4);
  EXPECT_EQ(placement_sizes(options, PlacementClass::expert).sharding, 4);
  options.sharding_instances = 2;
  EXPECT_EQ(placement_sizes(options, PlacementClass::dense).sharding, 1);
  EXPECT_EQ(placement_sizes(options, PlacementClass::expert).sharding, 2);
  EXPECT_EQ(placement_sizes(options, PlacementClass::expert).replication(), 2);
  options.expert = 8;  // one rank has each expert
  test::expect_input_error([&] { placement_sizes(options, PlacementClass::expert); },
                           {"1 ranks", "expert", "2 groups"});
  options.sharding = Sharding::none;
  EXPECT_EQ(placement_sizes(options, PlacementClass::expert).sharding, 1);
}

TEST(Placement, AStorageHasOneClass) {
  const ShardPiece box{{0}, {4}, 0, {1}};
  const ShardedTensor dense{"a", {4}, {box}};
  const ShardedTensor expert{"b", {4}, {box}, true, {PlacementClass::expert}};
  EXPECT_THROW(Parameter(DType::f32, {8}, {dense, expert}, {}), Error);
}

}  // namespace
}  // namespace tessera
