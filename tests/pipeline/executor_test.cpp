// The executor over messages that are not buffered: it comes to its end, and every stage gets what
// the stage beside it made of the same microbatch.
#include "tessera/pipeline/executor.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "tessera/launch/launch.h"
#include "tessera/pipeline/schedules.h"
#include "tessera/tensor/memory.h"
#include "tests/support/rendezvous_communicator.h"

namespace tessera {
namespace {

constexpr std::int64_t kNumbers = 16;  // of a message

// What a stage sends of a microbatch; gradients are below zero.
float word_of(int stage, int microbatch, bool forward) {
  const float word = static_cast<float>(1000 * stage + microbatch + 1);
  return forward ? word : -word;
}

// Reads and writes words.
class WordStage final : public Stage {
 public:
  WordStage(int stage, int stages) : stage_(stage), stages_(stages) {}

  void forward(int microbatch, int, View out, ConstView in) override {
    pass(microbatch, true, out, in);
  }
  void backward(int microbatch, int, View out, ConstView in) override {
    pass(microbatch, false, out, in);
  }
  void backward_input(int microbatch, int, View out, ConstView in) override {
    pass(microbatch, false, out, in);
  }
  void backward_weight(int, int) override {}

  int passes() const { return passes_; }

 private:
  void pass(int microbatch, bool forward, const View& out, const ConstView& in) {
    const int step = forward ? 1 : -1;
    const int before = stage_ - step, next = stage_ + step;
    check(bool(in) == (before >= 0 && before < stages_), "stage {} gets what it should not",
          stage_);
    check(bool(out) == (next >= 0 && next < stages_), "stage {} gives what it should not", stage_);
    if (in)
      for (std::int64_t i = 0; i < kNumbers; ++i)
        check(in.data<float>()[i] == word_of(before, microbatch, forward),
              "stage {} got {} of microbatch {}", stage_, in.data<float>()[i], microbatch);
    if (out) std::fill_n(out.data<float>(), kNumbers, word_of(stage_, microbatch, forward));
    ++passes_;
  }

  int stage_, stages_;
  int passes_ = 0;
};

struct Case {
  const char* name;
  PipelineShape shape;
  RankSchedule schedule;
};

void run(const Case& c) {
  const std::vector<Schedule> schedules = make_schedules(c.shape, c.schedule);
  run_ranks(c.shape.ranks, 1, [&](Rank& rank) {
    Stream stream{Device{}};
    test::RendezvousCommunicator world(rank.world);
    PipelineChannels channels(world, c.shape, stream);
    std::deque<WordStage> chunks;
    std::vector<Stage*> stages;
    for (int chunk = 0; chunk < c.shape.chunks; ++chunk)
      stages.push_back(
          &chunks.emplace_back(stage_at(c.shape, {rank.rank, chunk}), c.shape.stages()));
    const PipelineProgram program = compile(c.shape, schedules, rank.rank);
    Memory memory{Device{}};
    const Shape message{kNumbers};
    const Tensor boundary =
        memory.allocate(MemoryUse::activations, DType::u8,
                        {program.buffers(), BoundaryBuffers::message_bytes(DType::f32, message)});
    Executor executor(stages, channels, stream, {boundary.view(), DType::f32, message});
    for (int step = 0; step < 2; ++step) executor.run(program);
    check(executor.peak().activation_buffers == program.activation_buffers,
          "{} activation buffers of {}", executor.peak().activation_buffers,
          program.activation_buffers);
    check(executor.peak().messages <= program.buffers(), "{} messages, there is room for {}",
          executor.peak().messages, program.buffers());
    int passes = 0;
    for (const WordStage& chunk : chunks) passes += chunk.passes();
    const auto weights = std::ranges::count(schedules[static_cast<std::size_t>(rank.rank)],
                                            ActionKind::backward_weight, &Action::kind);
    check(passes == 2 * (std::ssize(program.steps) - weights), "{} passes", passes);
  });
}

TEST(Executor, EndsWhereMessagesAreNotBuffered) {
  const StagePlacement loop = StagePlacement::loop;
  for (const Case& c : {Case{"1f1b", {4, 8}, one_f_one_b}, Case{"gpipe", {3, 5}, gpipe},
                        Case{"zb-h1", {4, 9}, zero_bubble_h1},
                        Case{"zb-v", {3, 8, 2, StagePlacement::vee}, zero_bubble_v},
                        Case{"interleaved", {4, 8, 2}, interleaved},
                        Case{"groups", {2, 8, 2, loop, 8}, interleaved},
                        Case{"groups", {3, 12, 2, loop, 6}, interleaved},
                        Case{"groups", {4, 16, 3, loop, 16}, interleaved},
                        Case{"evaluation", {2, 16, 2, loop, 16}, forward_only}}) {
    SCOPED_TRACE(
        fmt::format("{} over {}, {} microbatches", c.name, c.shape.ranks, c.shape.microbatches));
    EXPECT_NO_THROW(run(c));
  }
}

}  // namespace
}  // namespace tessera
