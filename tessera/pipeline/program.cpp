#include "tessera/pipeline/program.h"

#include <algorithm>
#include <map>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/pipeline/schedules.h"

namespace tessera {
namespace {

using Border = PipelineProgram::Border;

// The step that an action is.
PipelineProgram::Step& step_of(PipelineProgram& program, const Action& action) {
  const auto found = std::ranges::find(program.steps, action, &PipelineProgram::Step::action);
  check(found != program.steps.end(), "no action for a message");
  return *found;
}

int add_outgoing(PipelineProgram& program, const BorderLink& link) {
  const int number = static_cast<int>(program.outgoing.size());
  program.outgoing.push_back({link.to});
  for (std::size_t n = 0; n < link.messages.size(); ++n)
    step_of(program, link.messages[n].action).out = Border{number, static_cast<int>(n)};
  return number;
}

int add_incoming(PipelineProgram& program, const BorderLink& link) {
  const int number = static_cast<int>(program.incoming.size());
  program.incoming.push_back({link.from, static_cast<int>(link.messages.size()), link.window});
  for (std::size_t n = 0; n < link.messages.size(); ++n)
    step_of(program, link.messages[n].use).in = Border{number, static_cast<int>(n)};
  return number;
}

// For every action, which of each rank's steps it waits for: the last one, by its place; -1: none.
class Ancestors {
 public:
  Ancestors(const PipelineShape& shape, const std::vector<Schedule>& schedules,
            const std::vector<BorderLink>& links)
      : schedules_(schedules), last_(schedules.size()) {
    for (const BorderLink& link : links)
      for (const BorderMessage& message : link.messages)
        maker_[{message.to, place(message.to, message.use)}] = {
            message.from, place(message.from, message.action)};
    for (bool moved = true; std::exchange(moved, false);)
      for (int rank = 0; rank < shape.ranks; ++rank)
        while (advance(rank)) moved = true;
  }

  int last(int of_rank, int place, int on_rank) const {
    return last_[static_cast<std::size_t>(of_rank)][static_cast<std::size_t>(place)]
                [static_cast<std::size_t>(on_rank)];
  }
  int place(int rank, const Action& action) const {
    const Schedule& list = schedules_[static_cast<std::size_t>(rank)];
    return static_cast<int>(std::ranges::find(list, action) - list.begin());
  }

 private:
  bool advance(int rank) {
    auto& done = last_[static_cast<std::size_t>(rank)];
    const int next = static_cast<int>(done.size());
    if (next == std::ssize(schedules_[static_cast<std::size_t>(rank)])) return false;
    std::vector<int> all = done.empty() ? std::vector<int>(schedules_.size(), -1) : done.back();
    if (const auto found = maker_.find({rank, next}); found != maker_.end()) {
      const auto [from, at] = found->second;
      const auto& others = last_[static_cast<std::size_t>(from)];
      if (at >= std::ssize(others)) return false;
      for (std::size_t r = 0; r < all.size(); ++r)
        all[r] = std::max(all[r], others[static_cast<std::size_t>(at)][r]);
    }
    all[static_cast<std::size_t>(rank)] = next;
    done.push_back(std::move(all));
    return true;
  }

  const std::vector<Schedule>& schedules_;
  std::map<std::pair<int, int>, std::pair<int, int>> maker_;  ///< of what a (rank, step) needs
  std::vector<std::vector<std::vector<int>>> last_;           ///< [rank][step][on rank]
};

// One action before it is needed, or as soon as that is safe.
void add_early(PipelineProgram& program, const Ancestors& ancestors, const BorderLink& link) {
  for (std::size_t n = 0; n < link.messages.size(); ++n) {
    const BorderMessage& message = link.messages[n];
    const int needed = ancestors.place(link.to, message.use);
    const int waits_for =
        ancestors.last(link.from, ancestors.place(link.from, message.action), link.to);
    const int at = std::max(waits_for + 1, needed - 1);
    if (at < needed && at >= 0)
      program.steps[static_cast<std::size_t>(at)].early.push_back(
          program.steps[static_cast<std::size_t>(needed)].in);
  }
}

}  // namespace

int PipelineProgram::buffers() const {
  int count = 0;
  for (const Incoming& link : incoming) count += link.window;
  for (const Outgoing& link : outgoing) count += link.local < 0 ? kOutgoingBuffers : 0;
  return count;
}

PipelineProgram compile(const PipelineShape& shape, const std::vector<Schedule>& schedules,
                        int rank) {
  PipelineProgram program;
  const Schedule& own = schedules[static_cast<std::size_t>(rank)];
  for (const Action& action : own) program.steps.push_back({action, {}, {}, {}});
  program.slots = slots_needed(own);
  const std::vector<BorderLink> links = border_links(shape, schedules);
  for (const BorderLink& link : links) {
    const int out = link.from == rank ? add_outgoing(program, link) : -1;
    const int in = link.to == rank ? add_incoming(program, link) : -1;
    if (out >= 0 && in >= 0) program.outgoing[static_cast<std::size_t>(out)].local = in;
  }
  const Ancestors ancestors(shape, schedules, links);
  for (const BorderLink& link : links)
    if (link.to == rank && link.from != rank) add_early(program, ancestors, link);
  return program;
}

}  // namespace tessera
