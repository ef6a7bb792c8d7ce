// The launcher that started this process, recognised by its environment variables.
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
  int local_size = 0;  ///< ranks on this machine; 0 if the launcher does not set it

  // The address at which the ranks of torchrun meet, since nothing else connects them.
  std::string address;
  int port = 0;
  std::string secret;           ///< shared by all ranks
  bool secret_is_weak = false;  ///< it could be guessed
};

/// Recognises a launcher. torchrun takes precedence over an outer launcher, since it started this
/// process; then come mpirun and srun. A SLURM batch script that calls the program without srun is
/// not a launcher, whatever its variables are, and neither is a launch of one rank by srun or
/// torchrun. Throws InputError for missing or contradictory variables.
Environment recognise_environment(const Variables& variables);

/// When SLURM will end this process's job, if that is known.
std::optional<std::chrono::system_clock::time_point> job_end(const Variables& variables);

}  // namespace tessera
