// The files that this process's code was loaded from.
#pragma once

#include <string>
#include <vector>

namespace tessera {

struct LoadedFile {
  std::string name;  ///< without folder and with symbolic links resolved: libmpi.so.40.30.4
  std::string id;    ///< the linker's build id, in hexadecimal; empty: none
};

/// The program, and then the libraries by name.
std::vector<LoadedFile> loaded_files();

}  // namespace tessera
