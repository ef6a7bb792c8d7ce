// How a rank that fails says so, once for all ranks.
#pragma once

#include <exception>
#include <string>

#include "tessera/launch/environment.h"

namespace tessera {

/// 2 for an InputError, 1 for anything else.
int exit_code_of(const std::exception& error);

/// A mistake in the input comes to all ranks at the same moment. They speak in turn, so that the
/// launcher ends the others when the first has spoken and ended.
void wait_for_lower_ranks(int rank);

/// What torchrun reads to say what went wrong first, in its own form.
std::string torchrun_error(const std::string& message, long long seconds);

}  // namespace tessera
