// Runs the programs of all ranks as their executors do, without data, where a send is over only
// when it is received. Knows nothing of how room for messages was counted.
#pragma once

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "tessera/pipeline/program.h"

namespace tessera::test {

class ProgramRun {
 public:
  /// `early`: messages are asked for before they are needed, where a program allows it.
  ProgramRun(const std::vector<PipelineProgram>& programs, bool early)
      : programs_(programs), early_(early), ranks_(programs.size()) {
    for (std::size_t r = 0; r < programs.size(); ++r)
      for (const PipelineProgram::Incoming& channel : programs[r].incoming)
        ranks_[r].used.emplace_back(static_cast<std::size_t>(channel.messages));
  }

  /// Whether all ranks come to their end.
  bool ends() {
    for (bool moved = true; std::exchange(moved, false);)
      for (std::size_t r = 0; r < ranks_.size(); ++r)
        while (advance(static_cast<int>(r))) moved = true;
    for (std::size_t r = 0; r < ranks_.size(); ++r)
      if (ranks_[r].next < programs_[r].steps.size()) return false;
    return true;
  }

 private:
  using Boundary = PipelineProgram::Boundary;
  struct RankState {
    std::size_t next = 0;
    std::vector<std::vector<bool>> used;  ///< by incoming channel and message
  };
  struct ChannelState {
    int asked = 0, sent = 0;
    int received() const { return std::min(asked, sent); }
  };

  bool advance(int rank) {
    RankState& state = ranks_[static_cast<std::size_t>(rank)];
    const PipelineProgram& program = programs_[static_cast<std::size_t>(rank)];
    if (state.next == program.steps.size()) return false;
    const PipelineProgram::Step& step = program.steps[state.next];
    for (const Boundary& boundary : step.early)
      if (early_) ask(rank, boundary);
    if (step.in && !has_input(rank, step.in)) return false;
    if (step.out && !has_room(rank, step.out)) return false;
    if (step.out) channel(rank, outgoing(rank, step.out).to).sent = step.out.message + 1;
    if (step.in)
      state.used[static_cast<std::size_t>(step.in.channel)]
                [static_cast<std::size_t>(step.in.message)] = true;
    ++state.next;
    return true;
  }

  ChannelState& channel(int from, int to) { return channels_[{from, to}]; }
  const PipelineProgram::Incoming& incoming(int rank, const Boundary& boundary) const {
    return programs_[static_cast<std::size_t>(rank)]
        .incoming[static_cast<std::size_t>(boundary.channel)];
  }
  const PipelineProgram::Outgoing& outgoing(int rank, const Boundary& boundary) const {
    return programs_[static_cast<std::size_t>(rank)]
        .outgoing[static_cast<std::size_t>(boundary.channel)];
  }

  // Up to this message, as far as there is room.
  void ask(int rank, const Boundary& boundary) {
    const PipelineProgram::Incoming& from = incoming(rank, boundary);
    const std::vector<bool>& used =
        ranks_[static_cast<std::size_t>(rank)].used[static_cast<std::size_t>(boundary.channel)];
    int& asked = channel(from.from, rank).asked;
    while (asked <= boundary.message &&
           (asked < from.window || used[static_cast<std::size_t>(asked - from.window)]))
      ++asked;
  }
  bool has_input(int rank, const Boundary& boundary) {
    const int from = incoming(rank, boundary).from;
    ask(rank, boundary);
    return channel(from, rank).received() > boundary.message;
  }
  bool has_room(int rank, const Boundary& boundary) {
    const PipelineProgram::Outgoing& to = outgoing(rank, boundary);
    return to.local >= 0 || channel(rank, to.to).received() > boundary.message - to.buffers;
  }

  const std::vector<PipelineProgram>& programs_;
  bool early_;
  std::vector<RankState> ranks_;
  std::map<std::pair<int, int>, ChannelState> channels_;
};

}  // namespace tessera::test
