// A pipeline's timeline as text and as an SVG image, for a plan or for a recorded run. Both are
// drawn in the same way, so that they can be compared.
#pragma once

#include <string>

#include "tessera/pipeline/check.h"

namespace tessera {

struct PictureOptions {
  std::string title;
  int chunks = 1;
  std::string unit;  ///< of time, behind numbers: " ms"
};

/// One line per rank: F3 is the forward of microbatch 3, B its backward, I and W the halves of a
/// split backward; a letter marks the chunk; dots are idle time. Long lines are cut.
std::string timeline_text(const Timeline& timeline, const PictureOptions& options);

/// One row per rank and one box per action. Idle time is grey, and a mark shows when a rank first
/// holds its peak of microbatches. The picture is at most about 850 units wide: a longer timeline
/// is cut into bands of equal time, one below the other.
std::string timeline_svg(const Timeline& timeline, const PictureOptions& options);

}  // namespace tessera
