// Mapped files can disappear under a running program, by truncation or on a failing disk. Reading
// them then raises SIGBUS, which would end the program without a message.
#pragma once

#include <cstddef>
#include <string>

namespace tessera {

/// Installs a handler that prints the name of the lost file and exits with code 1.
void report_lost_pages();

/// Registers and unregisters a mapped file. Thread-safe. The number of registered files is limited.
void remember_mapping(const std::string& path, const void* data, std::size_t bytes);
void forget_mapping(const void* data);

}  // namespace tessera
