// The bubble of a pipeline whose stages only wait: the executor and the communicator are those of a
// training, what they run takes a known time. Prints the measured bubble beside the planned one.
//
// usage: bench_pipeline [--milliseconds N]   how long an action takes (default 150)
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "tessera/launch/launch.h"
#include "tessera/pipeline/check.h"
#include "tessera/pipeline/executor.h"
#include "tessera/pipeline/schedules.h"
#include "tessera/tensor/memory.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

// Every action takes its time, and nothing else.
class WaitingStage final : public Stage {
 public:
  explicit WaitingStage(Clock::duration action) : action_(action) {}
  void forward(int, int, View, ConstView) override { wait(1); }
  void backward(int, int, View, ConstView) override { wait(2); }
  void backward_input(int, int, View, ConstView) override { wait(1); }
  void backward_weight(int, int) override { wait(1); }

 private:
  void wait(int actions) const { std::this_thread::sleep_for(actions * action_); }

  Clock::duration action_;
};

struct Kind {
  const char* name;
  RankSchedule schedule;
  int chunks = 1;
  StagePlacement placement = StagePlacement::loop;
};

// The time of a step, from when all ranks are there until the last one is done.
double seconds_of(const PipelineShape& shape, const std::vector<Schedule>& schedules,
                  Clock::duration action) {
  double longest = 0;
  run_ranks(shape.ranks, 1, [&](Rank& rank) {
    Stream stream{Device{}};
    PipelineChannels channels(*rank.world, shape, stream);
    std::vector<WaitingStage> chunks(static_cast<std::size_t>(shape.chunks), WaitingStage(action));
    std::vector<Stage*> stages;
    for (WaitingStage& chunk : chunks) stages.push_back(&chunk);
    const PipelineProgram program = compile(shape, schedules, rank.rank);
    Memory memory{Device{}};
    const Shape message{1024};
    const Tensor boundary = memory.allocate(
        MemoryUse::activations, DType::u8,
        {std::max(1, program.buffers()), BoundaryBuffers::message_bytes(DType::f32, message)});
    Executor executor(stages, channels, stream, {boundary.view(), DType::f32, message});
    rank.world->barrier();
    const auto start = Clock::now();
    executor.run(program);
    double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    View view(&seconds, DType::f64, {1});
    rank.world->all_reduce(view, ReduceOp::max, stream)->wait(stream);
    if (rank.rank == 0) longest = seconds;
  });
  return longest;
}

void run(int milliseconds) {
  const Kind kinds[] = {{"gpipe", gpipe},
                        {"1f1b", one_f_one_b},
                        {"interleaved", interleaved, 2},
                        {"zb-h1", zero_bubble_h1},
                        {"zb-v", zero_bubble_v, 2, StagePlacement::vee}};
  fmt::print("{:<12} {:>5} {:>13} {:>12} {:>12} {:>10}\n", "schedule", "ranks", "microbatches",
             "planned", "measured", "ratio");
  for (const Kind& kind : kinds)
    for (const int ranks : {2, 4, 8}) {
      const PipelineShape shape{ranks, 2 * ranks, kind.chunks, kind.placement};
      const std::vector<Schedule> schedules = make_schedules(shape, kind.schedule);
      const ScheduleReport report = check_schedules(shape, schedules);
      // Actions of a chunk are as much shorter as there are more of them.
      const auto action = std::chrono::microseconds(1000 * milliseconds / kind.chunks);
      const double seconds = seconds_of(shape, schedules, action);
      const double work = report.work * std::chrono::duration<double>(action).count();
      const double bubble = seconds / work - 1;
      fmt::print("{:<12} {:>5} {:>13} {:>10.2f} % {:>10.2f} % {:>10.3f}\n", kind.name, ranks,
                 shape.microbatches, 100 * report.bubble(), 100 * bubble, bubble / report.bubble());
    }
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  const bool given = argc == 3 && std::string_view(argv[1]) == "--milliseconds";
  const int milliseconds = given ? std::atoi(argv[2]) : 150;
  if ((argc != 1 && !given) || milliseconds < 1) {
    fmt::print(stderr, "usage: bench_pipeline [--milliseconds N]\n");
    return 2;
  }
  tessera::run(milliseconds);
  return 0;
}
