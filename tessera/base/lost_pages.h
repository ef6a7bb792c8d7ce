// Files that are mapped into memory can be lost under a running program: cut off by somebody, or on
// a disk that fails. Reading them then raises SIGBUS, which would end the program without a word.
#pragma once

#include <cstddef>
#include <string>

namespace tessera {

/// From now on the program says which file was lost, and ends with exit code 1.
void report_lost_pages();

/// A file that is mapped, and one that no longer is. Safe from several threads. Very many files may
/// be too many to be named.
void remember_mapping(const std::string& path, const void* data, std::size_t bytes);
void forget_mapping(const void* data);

}  // namespace tessera
