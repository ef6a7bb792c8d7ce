#include "tessera/pipeline/program.h"

#include "tessera/pipeline/progress.h"
#include "tessera/pipeline/schedules.h"
#include "tessera/pipeline/stage_boundary.h"

namespace tessera {
namespace {

using Boundary = PipelineProgram::Boundary;

PipelineProgram::Step& step_of(PipelineProgram& program, int step) {
  return program.steps[static_cast<std::size_t>(step)];
}

int add_outgoing(PipelineProgram& program, const BoundaryChannel& channel) {
  const int number = static_cast<int>(program.outgoing.size());
  program.outgoing.push_back({channel.to, -1, channel.is_local() ? 0 : channel.outgoing});
  for (std::size_t n = 0; n < channel.messages.size(); ++n)
    step_of(program, channel.messages[n].made).out = Boundary{number, static_cast<int>(n)};
  return number;
}

int add_incoming(PipelineProgram& program, const BoundaryChannel& channel) {
  const int number = static_cast<int>(program.incoming.size());
  program.incoming.push_back(
      {channel.from, static_cast<int>(channel.messages.size()), channel.window});
  for (std::size_t n = 0; n < channel.messages.size(); ++n)
    step_of(program, channel.messages[n].used).in = Boundary{number, static_cast<int>(n)};
  return number;
}

// Posts a recv one step before its message is needed, if that is safe. `waits_for` holds, by rank
// and step, the last step of the receiver that it waits for.
void add_early(PipelineProgram& program, const std::vector<std::vector<int>>& waits_for,
               const BoundaryChannel& channel) {
  const std::vector<int>& maker = waits_for[static_cast<std::size_t>(channel.from)];
  for (const BoundaryMessage& message : channel.messages) {
    const int before = message.used - 1;
    if (before >= 0 && maker[static_cast<std::size_t>(message.made)] < before)
      step_of(program, before).early.push_back(step_of(program, message.used).in);
  }
}

}  // namespace

int PipelineProgram::buffers() const {
  int count = 0;
  for (const Incoming& channel : incoming) count += channel.window;
  for (const Outgoing& channel : outgoing) count += channel.buffers;
  return count;
}

PipelineProgram compile(const PipelineShape& shape, const std::vector<Schedule>& schedules,
                        int rank) {
  PipelineProgram program;
  const Schedule& own = schedules[static_cast<std::size_t>(rank)];
  for (const Action& action : own) program.steps.push_back({action, {}, {}, {}});
  program.activation_buffers = activation_buffers_needed(own);
  const std::vector<BoundaryChannel> channels = boundary_channels(shape, schedules);
  for (const BoundaryChannel& channel : channels) {
    const int out = channel.from == rank ? add_outgoing(program, channel) : -1;
    const int in = channel.to == rank ? add_incoming(program, channel) : -1;
    if (out >= 0 && in >= 0) program.outgoing[static_cast<std::size_t>(out)].local = in;
  }
  const std::vector<std::vector<int>> waits_for = last_waited_for(schedules, channels, rank);
  for (const BoundaryChannel& channel : channels)
    if (channel.to == rank && !channel.is_local()) add_early(program, waits_for, channel);
  return program;
}

}  // namespace tessera
