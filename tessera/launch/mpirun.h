// Starts ranks as child processes with mpirun.
#pragma once

#include <string>
#include <vector>

namespace tessera {

/// The command that starts `ranks` copies of `program` on this machine.
std::vector<std::string> mpirun_command(const std::string& mpirun, int ranks, bool as_root,
                                        const std::string& program,
                                        const std::vector<std::string>& arguments);

/// Starts this program again, with `arguments`, as `ranks` ranks, and waits for them. Signals that
/// ask this process to end are passed on; with `gentle` the first one is passed as a request to
/// stop, which the ranks watch for (signal_watch.h). Returns the exit code of the first rank that
/// failed, or 0. Throws InputError if there is no mpirun.
int run_with_mpirun(int ranks, const std::vector<std::string>& arguments, bool gentle);

}  // namespace tessera
