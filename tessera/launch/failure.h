// How a failing rank reports its error, once for all ranks.
#pragma once

#include <exception>
#include <string>

#include "tessera/launch/environment.h"

namespace tessera {

/// 2 for an InputError, 1 for anything else.
int exit_code_of(const std::exception& error);

/// An input error occurs on all ranks at the same moment. They report it in rank order, so that the
/// launcher ends the others after the first report.
void wait_for_lower_ranks(int rank);

/// The error report that torchrun reads, in its own format.
std::string torchrun_error(const std::string& message, long long seconds);

}  // namespace tessera
