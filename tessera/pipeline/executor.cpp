#include "tessera/pipeline/executor.h"

#include <algorithm>
#include <utility>

#include "tessera/base/check.h"

namespace tessera {
namespace {

constexpr std::int64_t kAlignment = 64;  // bytes

using std::size_t;

}  // namespace

std::int64_t BoundaryBuffers::message_bytes(DType dtype, const Shape& shape) {
  const auto bytes = shape.numel() * static_cast<std::int64_t>(element_size(dtype));
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

View BoundaryBuffers::buffer(int i) const { return {memory.slice(0, i, 1).raw(), dtype, shape}; }

Executor::Executor(std::vector<Stage*> stages, PipelineChannels& channels, Stream& stream,
                   BoundaryBuffers boundary_buffers, Trace* trace)
    : stages_(std::move(stages)),
      channels_(channels),
      stream_(stream),
      boundary_buffers_(std::move(boundary_buffers)),
      trace_(trace) {}

void Executor::run(const PipelineProgram& program) {
  lay_out(program);
  for (const PipelineProgram::Step& step : program.steps) {
    for (const PipelineProgram::Boundary& boundary : step.early) ask_early(boundary);
    const View in = step.in ? incoming(step.in) : View();
    const View out = step.out ? outgoing(step.out) : View();
    run_action(step.action, out, in);
    if (step.out) send(step.out);
    if (step.in) used(step.in);
  }
  finish();
}

void Executor::warm_up(const PipelineProgram& program) {
  lay_out(program);
  for (const PipelineProgram::Step& step : program.steps) {
    const auto any = [&](const PipelineProgram::Boundary& boundary) {
      return boundary ? boundary_buffers_.buffer(0) : View();
    };
    run_action(step.action, any(step.out), any(step.in));
  }
}

void Executor::lay_out(const PipelineProgram& program) {
  program_ = &program;
  held_ = {};
  holders_.assign(static_cast<size_t>(program.activation_buffers), {});
  receiving_.clear();
  sending_.clear();
  int buffer = 0;
  for (const PipelineProgram::Incoming& channel : program.incoming) {
    receiving_.push_back({buffer, 0, std::vector<WorkHandle>(static_cast<size_t>(channel.window)),
                          std::vector<bool>(static_cast<size_t>(channel.messages))});
    buffer += channel.window;
  }
  for (const PipelineProgram::Outgoing& channel : program.outgoing) {
    sending_.push_back({buffer, std::vector<WorkHandle>(static_cast<size_t>(channel.buffers))});
    buffer += channel.buffers;
  }
  check(buffer == 0 || buffer <= boundary_buffers_.memory.dim(0),
        "{} messages at once, there is room for {}", buffer,
        buffer == 0 ? 0 : boundary_buffers_.memory.dim(0));
}

// ---- messages

// Posts recvs for all messages of a channel before `up_to`.
void Executor::ask(int channel, int up_to) {
  const PipelineProgram::Incoming& from = program_->incoming[static_cast<size_t>(channel)];
  Receiving& state = receiving_[static_cast<size_t>(channel)];
  for (; state.asked < up_to; ++state.asked) {
    const int place = state.asked % from.window;
    check(state.asked < from.window || state.used[static_cast<size_t>(state.asked - from.window)],
          "no room for message {} from rank {}", state.asked, from.from);
    hold_message();
    state.works[static_cast<size_t>(place)] =
        channels_.recv(boundary_buffers_.buffer(state.first_buffer + place), from.from, stream_);
  }
}

void Executor::ask_early(const PipelineProgram::Boundary& boundary) {
  const PipelineProgram::Incoming& from = program_->incoming[static_cast<size_t>(boundary.channel)];
  if (!channels_.receives_ahead(from.from)) return;
  const Receiving& state = receiving_[static_cast<size_t>(boundary.channel)];
  int up_to = state.asked;
  while (up_to <= boundary.message &&
         (up_to < from.window || state.used[static_cast<size_t>(up_to - from.window)]))
    ++up_to;
  ask(boundary.channel, up_to);
}

View Executor::incoming(const PipelineProgram::Boundary& boundary) {
  const PipelineProgram::Incoming& from = program_->incoming[static_cast<size_t>(boundary.channel)];
  Receiving& state = receiving_[static_cast<size_t>(boundary.channel)];
  const int place = boundary.message % from.window;
  if (from.from != channels_.rank()) {
    ask(boundary.channel, boundary.message + 1);
    if (WorkHandle work = std::move(state.works[static_cast<size_t>(place)])) work->wait(stream_);
  }
  return boundary_buffers_.buffer(state.first_buffer + place);
}

void Executor::used(const PipelineProgram::Boundary& boundary) {
  receiving_[static_cast<size_t>(boundary.channel)].used[static_cast<size_t>(boundary.message)] =
      true;
  --held_.messages;
}

void Executor::hold_message() { peak_.messages = std::max(peak_.messages, ++held_.messages); }

// A message from a rank to itself is produced in the receiver's buffer.
View Executor::outgoing(const PipelineProgram::Boundary& boundary) {
  const PipelineProgram::Outgoing& to = program_->outgoing[static_cast<size_t>(boundary.channel)];
  if (to.local >= 0) {
    const auto local = static_cast<size_t>(to.local);
    hold_message();
    return boundary_buffers_.buffer(receiving_[local].first_buffer +
                                    boundary.message % program_->incoming[local].window);
  }
  Sending& state = sending_[static_cast<size_t>(boundary.channel)];
  const int place = boundary.message % to.buffers;
  if (WorkHandle work = std::move(state.works[static_cast<size_t>(place)])) {
    work->wait(stream_);
    --held_.messages;
  }
  hold_message();
  return boundary_buffers_.buffer(state.first_buffer + place);
}

void Executor::send(const PipelineProgram::Boundary& boundary) {
  const PipelineProgram::Outgoing& to = program_->outgoing[static_cast<size_t>(boundary.channel)];
  if (to.local >= 0) return;
  Sending& state = sending_[static_cast<size_t>(boundary.channel)];
  const int place = boundary.message % to.buffers;
  state.works[static_cast<size_t>(place)] =
      channels_.send(boundary_buffers_.buffer(state.first_buffer + place), to.to, stream_);
}

// A graph capture must join all forked streams.
void Executor::finish() {
  for (Sending& state : sending_)
    for (WorkHandle& each : state.works)
      if (WorkHandle work = std::move(each)) work->wait(stream_);
}

// ---- actions

void Executor::run_action(const Action& action, const View& out, const View& in) {
  const TraceRange range(stages_.size() > 1 ? trace_ : nullptr, "chunk", action.chunk);
  Stage& stage = *stages_[static_cast<size_t>(action.chunk)];
  const int buffer =
      is_forward(action.kind) ? take_activation_buffer(action) : find_activation_buffer(action);
  switch (action.kind) {
    case ActionKind::forward:
    case ActionKind::evaluate: stage.forward(action.microbatch, buffer, out, in); break;
    case ActionKind::backward: stage.backward(action.microbatch, buffer, out, in); break;
    case ActionKind::backward_input:
      stage.backward_input(action.microbatch, buffer, out, in);
      break;
    case ActionKind::backward_weight: stage.backward_weight(action.microbatch, buffer); break;
  }
  if (ends_microbatch(action.kind)) free_activation_buffer(action);
}

int Executor::take_activation_buffer(const Action& action) {
  const auto free = std::ranges::find(holders_, Holder{});
  check(free != holders_.end(),
        "the schedule holds more microbatches than its {} activation buffers", holders_.size());
  *free = {action.microbatch, action.chunk};
  peak_.activation_buffers = std::max(peak_.activation_buffers, ++held_.activation_buffers);
  return static_cast<int>(free - holders_.begin());
}

int Executor::find_activation_buffer(const Action& action) const {
  const auto found = std::ranges::find(holders_, Holder{action.microbatch, action.chunk});
  check(found != holders_.end(), "the schedule runs backward of microbatch {} before its forward",
        action.microbatch);
  return static_cast<int>(found - holders_.begin());
}

void Executor::free_activation_buffer(const Action& action) {
  holders_[static_cast<size_t>(find_activation_buffer(action))] = {};
  --held_.activation_buffers;
}

}  // namespace tessera
