// The files that this process's code was loaded from.
#pragma once

#include <string>
#include <vector>

namespace tessera {

struct LoadedFile {
  std::string name;  ///< without folder, and behind symbolic links: libmpi.so.40.30.4
  std::string id;    ///< what its linker called its contents, in hexadecimal; empty: nothing
};

/// The program, and then the libraries by name.
std::vector<LoadedFile> loaded_files();

}  // namespace tessera
