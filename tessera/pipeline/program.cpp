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

int add_outgoing(PipelineProgram& program, const BoundaryLink& link) {
  const int number = static_cast<int>(program.outgoing.size());
  program.outgoing.push_back({link.to, -1, link.is_local() ? 0 : link.outgoing});
  for (std::size_t n = 0; n < link.messages.size(); ++n)
    step_of(program, link.messages[n].made).out = Boundary{number, static_cast<int>(n)};
  return number;
}

int add_incoming(PipelineProgram& program, const BoundaryLink& link) {
  const int number = static_cast<int>(program.incoming.size());
  program.incoming.push_back({link.from, static_cast<int>(link.messages.size()), link.window});
  for (std::size_t n = 0; n < link.messages.size(); ++n)
    step_of(program, link.messages[n].used).in = Boundary{number, static_cast<int>(n)};
  return number;
}

// One step before it is needed, where that is safe: `waits_for` has, by rank and step, the last
// step of the receiver that it waits for.
void add_early(PipelineProgram& program, const std::vector<std::vector<int>>& waits_for,
               const BoundaryLink& link) {
  const std::vector<int>& maker = waits_for[static_cast<std::size_t>(link.from)];
  for (const BoundaryMessage& message : link.messages) {
    const int before = message.used - 1;
    if (before >= 0 && maker[static_cast<std::size_t>(message.made)] < before)
      step_of(program, before).early.push_back(step_of(program, message.used).in);
  }
}

}  // namespace

int PipelineProgram::buffers() const {
  int count = 0;
  for (const Incoming& link : incoming) count += link.window;
  for (const Outgoing& link : outgoing) count += link.buffers;
  return count;
}

PipelineProgram compile(const PipelineShape& shape, const std::vector<Schedule>& schedules,
                        int rank) {
  PipelineProgram program;
  const Schedule& own = schedules[static_cast<std::size_t>(rank)];
  for (const Action& action : own) program.steps.push_back({action, {}, {}, {}});
  program.activation_buffers = activation_buffers_needed(own);
  const std::vector<BoundaryLink> links = boundary_links(shape, schedules);
  for (const BoundaryLink& link : links) {
    const int out = link.from == rank ? add_outgoing(program, link) : -1;
    const int in = link.to == rank ? add_incoming(program, link) : -1;
    if (out >= 0 && in >= 0) program.outgoing[static_cast<std::size_t>(out)].local = in;
  }
  const std::vector<std::vector<int>> waits_for = last_waited_for(schedules, links, rank);
  for (const BoundaryLink& link : links)
    if (link.to == rank && !link.is_local()) add_early(program, waits_for, link);
  return program;
}

}  // namespace tessera
