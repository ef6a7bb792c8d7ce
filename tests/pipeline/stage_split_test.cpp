#include "tessera/pipeline/stage_split.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"

namespace tessera {
namespace {

using Counts = std::vector<std::int64_t>;

Counts layers_of(std::int64_t layers, const PipelineOptions& options, int ranks) {
  Counts counts;
  std::int64_t next = 0;
  for (const StagePart& part : split_stages({layers, false}, options, ranks)) {
    EXPECT_EQ(part.layers.begin, next) << "none is left out or repeated";
    next = part.layers.end;
    counts.push_back(part.layers.length());
  }
  EXPECT_EQ(next, layers);
  return counts;
}

PipelineOptions with(void (*change)(PipelineOptions&)) {
  PipelineOptions options;
  change(options);
  return options;
}

TEST(StageSplit, Even) {
  EXPECT_EQ(layers_of(8, {}, 4), (Counts{2, 2, 2, 2}));
  EXPECT_EQ(layers_of(8, {}, 1), (Counts{8}));
  EXPECT_EQ(layers_of(8, with([](PipelineOptions& p) { p.chunks = 2; }), 2), (Counts{2, 2, 2, 2}));
  test::expect_error(
      [] {
        split_stages({80, false}, {}, 6);
      },
      {"80 layers over 6 pipeline ranks", "80 is not a multiple of 6"});
}

TEST(StageSplit, EmbeddingAndLossAsLayers) {
  EXPECT_EQ(layers_of(7, with([](PipelineOptions& p) { p.count_embedding = true; }), 4),
            (Counts{1, 2, 2, 2}));
  EXPECT_EQ(
      layers_of(6, with([](PipelineOptions& p) { p.count_embedding = p.count_loss = true; }), 4),
      (Counts{1, 2, 2, 1}));
  EXPECT_EQ(
      layers_of(2, with([](PipelineOptions& p) { p.count_embedding = p.count_loss = true; }), 4),
      (Counts{0, 1, 1, 0}));
}

TEST(StageSplit, FirstAndLast) {
  EXPECT_EQ(layers_of(10, with([](PipelineOptions& p) { p.first_layers = 1; }), 4),
            (Counts{1, 3, 3, 3}));
  EXPECT_EQ(
      layers_of(10, with([](PipelineOptions& p) { p.first_layers = 3, p.last_layers = 1; }), 4),
      (Counts{3, 3, 3, 1}));
  EXPECT_EQ(
      layers_of(5, with([](PipelineOptions& p) { p.first_layers = 2, p.last_layers = 3; }), 2),
      (Counts{2, 3}));
  test::expect_error(
      [] {
        split_stages({6, false}, with([](PipelineOptions& p) { p.last_layers = 6; }), 3);
      },
      {"6 layers over 3 pipeline ranks: the last takes 6, which leaves 0 for 2 others"});
}

// On the way back, the first rank has the last stage.
TEST(StageSplit, ThereAndBackAgain) {
  const PipelineOptions options = with([](PipelineOptions& p) {
    p.schedule = ScheduleKind::zb_v;
    p.chunks = 2;
    p.first_layers = 2;
  });
  EXPECT_EQ(layers_of(10, options, 3), (Counts{1, 2, 2, 2, 2, 1}));
}

TEST(StageSplit, LayoutString) {
  const auto layout = [](const char* text, int chunks) {
    PipelineOptions options;
    options.layout = text;
    options.chunks = chunks;
    return options;
  };
  EXPECT_EQ(layers_of(6, layout("Et*3|tt|tL", 1), 3), (Counts{3, 2, 1}));
  EXPECT_EQ(layers_of(61, layout("Et*3|(tt|)*29L", 1), 31).size(), 31u);
  EXPECT_EQ(layers_of(4, layout("E|t|(t, |)*2 t|L", 3), 2), (Counts{0, 1, 1, 1, 1, 0}));
  EXPECT_EQ(layers_of(3, layout("Et|t||t||L", 2), 3), (Counts{1, 1, 0, 1, 0, 0}));
  test::expect_error(
      [&] {
        split_stages({2, false}, layout("Et||tL", 1), 3);
      },
      {"pipeline rank 1 has no layers, no embedding and no loss"});
  const auto refused = [&](const char* text, const char* why) {
    test::expect_error([&] { split_stages({4, false}, layout(text, 1), 2); }, {why});
  };
  refused("Ett|tL", "has 3 layers (t), --num-layers is 4");
  refused("Ett|ttt", "has 5 layers");
  refused("tt|ttL", "E, the embedding, must come once, at the very beginning");
  refused("EEtt|ttL", "must come once");
  refused("Ett|tt", "L, the loss, must come once, at the very end");
  refused("EttL|tt", "at the very end");
  refused("Ett|t|tL", "has 3 stages, the pipeline has 2");
  refused("Ex|L", "'x' is none of E");
  refused("E(tt|ttL", "a ( that is not closed");
  refused("Ett)|ttL", "a ) that closes nothing");
  refused("Et*|ttL", "* needs a number");
  refused("Et*99999999|L", "* needs a number");
  refused("E((t*9999)*9999)|L", "more than");
}

TEST(StageSplit, TiedTablesAreApart) {
  const std::vector<StagePart> parts = split_stages({4, true}, {}, 4);
  EXPECT_TRUE(parts.front().tied_apart && parts.back().tied_apart);
  EXPECT_FALSE(parts[1].tied_apart);
  EXPECT_FALSE(split_stages({4, true}, {}, 1).front().tied_apart);
}

}  // namespace
}  // namespace tessera
