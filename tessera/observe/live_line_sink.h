// The progress line of a run on a terminal.
#pragma once

#include <string>

#include "tessera/observe/metrics.h"

namespace tessera {

/// "[###...] step 10/100  loss 2.5130  lr 3.00e-03  grad 0.420  51.3k tok/s  ETA 0:42", within
/// `width` columns.
std::string format_live_line(const StepMetrics& step, int width);

}  // namespace tessera
