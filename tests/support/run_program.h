// Runs a program as a user does: arguments in, exit code and both outputs back.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sstream>
#include <string>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/base/files.h"
#include "tests/support/temp_folder.h"

namespace tessera::test {

struct ProgramResult {
  int exit_code = -1;  ///< 128 + signal when a signal ended it
  std::string out;
  std::string error;
};

inline ProgramResult run_program(const std::string& program, const std::vector<std::string>& args,
                                 const fs::path& folder) {
  const TempFolder outputs;
  const std::string out = (outputs / "out").string();
  const std::string error = (outputs / "error").string();
  std::vector<char*> argv{const_cast<char*>(program.c_str())};
  for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);
  const pid_t child = ::fork();
  check(child >= 0, "cannot fork");
  if (child == 0) {
    const int to = ::open(out.c_str(), O_WRONLY | O_CREAT, 0600);
    const int bad = ::open(error.c_str(), O_WRONLY | O_CREAT, 0600);
    if (::chdir(folder.c_str()) != 0 || ::dup2(to, 1) < 0 || ::dup2(bad, 2) < 0) ::_exit(125);
    ::execv(program.c_str(), argv.data());
    ::_exit(126);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read_text_file(out),
          read_text_file(error)};
}

/// With the words of a line as its arguments.
inline ProgramResult run_line(const std::string& program, const std::string& line,
                              const fs::path& folder) {
  std::istringstream words(line);
  std::vector<std::string> args;
  for (std::string word; words >> word;) args.push_back(word);
  return run_program(program, args, folder);
}

}  // namespace tessera::test
