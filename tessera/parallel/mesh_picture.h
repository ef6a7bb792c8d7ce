// The mesh as text, for people. Pure: nothing is started and nothing communicates.
#pragma once

#include <string>
#include <string_view>

#include "tessera/options/parallel_options.h"

namespace tessera {

/// The degrees in a line: "8 ranks: tensor 2 (sequence parallel) x data 1 x pipeline 4 (1F1B)".
/// `schedule` is the pipeline's, if it is to be printed. Experts take a second one. No newline at
/// the end.
std::string mesh_banner(const ParallelOptions& options, int ranks, std::string_view schedule = {});

/// Every rank at its place: a line for each pp and dp, a column for each cp, the ranks of a tensor
/// group in brackets (q lines of q ranks for a q x q grid), beside it the experts' grid. Then the
/// groups of every axis. Long axes are shortened to their ends.
std::string mesh_picture(const ParallelOptions& options, int ranks, std::string_view schedule = {});

}  // namespace tessera
