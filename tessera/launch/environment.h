// Who started this process, read from the variables that launchers set.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

namespace tessera {

enum class Launcher { none, mpirun, srun, torchrun };
std::string to_string(Launcher launcher);

/// The value of an environment variable, if it is set. Tests give their own.
using Variables = std::function<std::optional<std::string>(const char* name)>;
/// The variables of this process.
std::optional<std::string> process_variable(const char* name);

struct Environment {
  Launcher launcher = Launcher::none;
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 0;  ///< ranks of this machine; 0 when the launcher does not say

  // Where the ranks of torchrun meet, since nothing else connects them.
  std::string address;
  int port = 0;
  std::string secret;           ///< what all of them know
  bool secret_is_weak = false;  ///< others could guess it
};

/// Recognises a launch. torchrun inside of another launcher wins over it, since it is the one that
/// started this process; then come mpirun and srun. A batch script of SLURM that calls the program
/// without srun is no launch, whatever its variables say, and neither is a launch of one rank by
/// srun or torchrun. Throws InputError for variables that are missing or contradict each other.
Environment recognise_environment(const Variables& variables);

/// When SLURM will end the job that this process belongs to, where it says so.
std::optional<std::chrono::system_clock::time_point> job_end(const Variables& variables);

}  // namespace tessera
