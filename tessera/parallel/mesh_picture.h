// The mesh as text. Pure functions: nothing is started and nothing communicates.
#pragma once

#include <string>
#include <string_view>

#include "tessera/options/parallel_options.h"

namespace tessera {

/// The parallel sizes in one line: "8 ranks: tensor 2 (sequence parallel) x data 1 x pipeline 4
/// (1F1B)". `schedule` is the name of the pipeline schedule, if it is to be printed. Experts add a
/// second line. No newline at the end.
std::string mesh_banner(const ParallelOptions& options, int ranks, std::string_view schedule = {});

/// Every rank at its place: one line per pp and dp, one column per cp, the ranks of a tensor group
/// in brackets (q lines of q ranks for a q x q grid), with the experts' grid beside it. Then the
/// groups of every axis. Long axes are abbreviated.
std::string mesh_picture(const ParallelOptions& options, int ranks, std::string_view schedule = {});

}  // namespace tessera
