// Schedules with a split backward. The input gradient of a stage depends on the next stage, but no
// other rank waits for its weight gradient, which can therefore fill idle time.
#include <algorithm>

#include "tessera/base/check.h"
#include "tessera/pipeline/schedules.h"

namespace tessera {
namespace {

// Writes actions, counting microbatches by kind and chunk. Skips microbatches that do not exist: a
// schedule is written for as many as fill the pipeline.
class Writer {
 public:
  explicit Writer(int microbatches) : microbatches_(microbatches) {}

  void add(ActionKind kind, int chunk) {
    const int microbatch = next_[chunk][static_cast<std::size_t>(kind)]++;
    if (microbatch < microbatches_) schedule_.push_back({kind, microbatch, chunk});
  }
  void forward(int chunk) { add(ActionKind::forward, chunk); }
  void input(int chunk) { add(ActionKind::backward_input, chunk); }
  void weight(int chunk) { add(ActionKind::backward_weight, chunk); }
  void both(int chunk) {
    input(chunk);
    weight(chunk);
  }
  int forwards(int chunk) const { return next_[chunk][0]; }
  /// All pending weight gradients.
  void rest(int chunk) {
    while (count(ActionKind::backward_weight, chunk) < count(ActionKind::backward_input, chunk))
      weight(chunk);
  }
  Schedule take() && { return std::move(schedule_); }

 private:
  int count(ActionKind kind, int chunk) const {
    return next_[chunk][static_cast<std::size_t>(kind)];
  }

  int microbatches_;
  int next_[2][5] = {};
  Schedule schedule_;
};

}  // namespace

Schedule zero_bubble_h1(const PipelineShape& shape, int rank) {
  Writer writer(shape.microbatches);
  const int warm_up = std::min(shape.microbatches, shape.ranks - 1 - rank);
  for (int i = 0; i < warm_up; ++i) writer.forward(0);
  for (int i = 0; i < shape.microbatches; ++i) {
    writer.forward(0);
    writer.input(0);
    if (i >= rank) writer.weight(0);
  }
  writer.rest(0);
  return std::move(writer).take();
}

// The first microbatch returns to this rank after it has passed all following ranks twice, and
// meanwhile the rank runs other microbatches. From then on each of its chunks alternates between
// forward and backward. At the end, input gradients go first as long as other ranks wait for them.
Schedule zero_bubble_v(const PipelineShape& shape, int rank) {
  check(shape.chunks == 2 && shape.placement == StagePlacement::vee,
        "this schedule is for two chunks, there and back again");
  const int behind = shape.ranks - rank;  // number of ranks from this one on
  const int count = std::max(shape.microbatches, 2 * shape.ranks - 1);
  Writer writer(shape.microbatches);
  for (int i = 0; i < 2 * behind - 1; ++i) writer.forward(0);
  for (int i = 0; i < rank; ++i) {
    writer.forward(1);
    writer.forward(0);
  }
  for (int i = 0; i < behind; ++i) {
    writer.forward(1);
    writer.both(1);
  }
  while (writer.forwards(1) < writer.forwards(0) || writer.forwards(0) < count) {
    if (writer.forwards(0) < count) writer.forward(0);
    writer.both(0);
    writer.forward(1);
    writer.both(1);
  }
  for (int i = 0; i < rank; ++i) {
    writer.input(0);
    writer.input(1);
  }
  for (int i = 0; i < behind; ++i) writer.both(0);
  writer.rest(1);
  writer.rest(0);
  return std::move(writer).take();
}

}  // namespace tessera
