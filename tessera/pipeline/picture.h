// A pipeline's timeline for people: as text, and as a picture (SVG). Of a plan or of a run: what
// they show alike can be compared.
#pragma once

#include <string>

#include "tessera/pipeline/check.h"

namespace tessera {

struct PictureOptions {
  std::string title;
  int chunks = 1;
  std::string unit;  ///< of time, behind numbers: " ms"
};

/// A line for each rank: F3 forward of microbatch 3, B backward, I and W its halves; a letter says
/// which chunk; dots are idle time. Long ones are cut.
std::string timeline_text(const Timeline& timeline, const PictureOptions& options);

/// A row for each rank, a box for each action, with idle time in grey and the moment at which a
/// rank holds most microbatches marked.
std::string timeline_svg(const Timeline& timeline, const PictureOptions& options);

}  // namespace tessera
