// Data-parallel ranks of a benchmark and their flags, which are spelt as train spells them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/program.h"
#include "tessera/launch/rank.h"
#include "tessera/options/parallel_options.h"

namespace tessera::bench {

/// --nproc, what ranks share, and what goes on beside what.
std::vector<FlagInfo> data_parallel_flags();

/// What they say. Throws InputError where a flag has no effect without another.
ParallelOptions data_parallel_options(const Flags& flags);

/// "2 ranks of 1 thread(s)" and what they share, or "2 thread(s)" of one rank.
std::string described(const ParallelOptions& parallel, const Rank& rank);

/// Runs `body` on --nproc ranks, threads of this process that are tied to cores. Each has its share
/// of --threads, one at least.
void on_ranks(const Flags& flags, Device device, const std::function<void(Rank&)>& body);

}  // namespace tessera::bench
