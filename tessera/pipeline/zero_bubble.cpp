// Schedules whose backward is split. What a stage's input gradient needs comes from the next stage,
// but nobody waits for its weight gradient, which can fill what would be idle time.
#include <algorithm>

#include "tessera/base/check.h"
#include "tessera/pipeline/schedules.h"

namespace tessera {
namespace {

// Counts the microbatches of each kind of action on each chunk, and leaves out those that there are
// not: a schedule is written for as many as fill the pipeline.
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
  /// All weight gradients that wait.
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

// The first microbatch comes back to this rank when it has passed all ranks behind it twice, and in
// that time the rank runs others. From then on each of its chunks gives a forward and a backward in
// turn; in the end, input gradients go first as long as others wait for them.
Schedule zero_bubble_v(const PipelineShape& shape, int rank) {
  check(shape.chunks == 2 && shape.placement == StagePlacement::vee,
        "this schedule is for two chunks, there and back again");
  const int behind = shape.ranks - rank;  // ranks from this one on
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
