// Whether files can go where a command is to write them: asked before work that may take long.
#pragma once

#include "tessera/base/files.h"

namespace tessera {

/// InputError when something is there already that may not be replaced. `flag` named it.
void check_may_write(const fs::path& path, bool overwrite, const char* flag);

/// InputError when the output is an input, under whatever name: it would be lost.
void check_is_no_input(const fs::path& output, const fs::path& input, const char* flag);

/// InputError unless the folder of an output exists. `what` the output is.
void check_output_folder(const fs::path& output, const char* what);

}  // namespace tessera
