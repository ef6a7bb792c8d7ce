// Whole tensors of all placement classes, read and written through buckets on any mesh.
#include <gtest/gtest.h>

#include "tessera/checkpoint/saving/whole_tensors.h"
#include "tests/support/placed_model.h"

namespace tessera {
namespace {

using test::placed_mesh;
using test::PlacedLayout;
using test::PlacedModel;

using WholeValues = std::map<std::string, test::Values>;

// What rank 0 sees after the buckets were written with what they held, times two.
WholeValues doubled_values(const PlacedLayout& layout) {
  const ParallelOptions& p = layout.parallel;
  WholeValues result;
  run_ranks(p.ranks(), 1, [&](Rank& rank) {
    PlacedModel model(layout, rank);
    const ParameterAccess access(*model.parameters, model.context(), model.lab().memory);
    std::map<const Bucket*, test::Values> before;
    for (const ParameterBlock& block : model.parameters->values()) {
      read_buckets(access, block, [&](const Bucket& bucket, const View& whole) {
        before[&bucket] = model.lab().read(whole);
      });
      write_buckets(access, block, [&](const Bucket& bucket, const View& whole) {
        for (double& value : before[&bucket]) value *= 2;
        model.lab().write(whole, before[&bucket]);
      });
    }
    model.parameters->parameters_updated();
    const WholeTensors whole(access, model.parameters->values());
    for (const auto& [name, view] : whole.by_name()) result[name] = model.lab().read(view);
  });
  return result;
}

TEST(PlacedTensors, AreWholeOnRankZero) {
  const WholeValues want = doubled_values({placed_mesh(1, 1, 1, 1, 1, 1)});
  EXPECT_EQ(want.size(), 9 + test::kExperts);
  for (const Sharding sharding : {Sharding::none, Sharding::optimizer, Sharding::parameters})
    for (const ParallelOptions& mesh :
         {placed_mesh(2, 1, 4, 1, 2, 2), placed_mesh(4, 1, 2, 1, 2, 1),
          placed_mesh(2, 1, 2, 2, 2, 1), placed_mesh(2, 1, 1, 1, 1, 1)}) {
      PlacedLayout layout{mesh};
      layout.parallel.sharding = sharding;
      EXPECT_TRUE(doubled_values(layout) == want)
          << mesh.tensor << " " << mesh.expert << " " << static_cast<int>(sharding);
    }
}

}  // namespace
}  // namespace tessera
