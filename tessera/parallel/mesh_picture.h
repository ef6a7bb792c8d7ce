// The mesh as text, for people. Pure: nothing is started and nothing communicates.
#pragma once

#include <string>

#include "tessera/parallel/parallel_options.h"

namespace tessera {

/// The degrees in a line: "4 ranks: tensor 4 (sequence parallel) x data 1". Experts take a second
/// one. No newline at the end.
std::string mesh_banner(const ParallelOptions& options, int ranks);

/// Every rank at its place: a line for each pp and dp, a column for each cp, the ranks of a tensor
/// group in brackets (q lines of q ranks for a q x q grid), beside it the experts' grid. Then the
/// groups of every axis. Long axes are shortened to their ends.
std::string mesh_picture(const ParallelOptions& options, int ranks);

}  // namespace tessera
