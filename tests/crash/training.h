// Trainings as processes that are killed, told to stop, or meet a disk that fails.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "tessera/checkpoint/checkpoint.h"
#include "tests/support/small_data.h"
#include "tests/support/temp_folder.h"

namespace tessera::test {

/// A tiny run that evaluates and saves often.
inline std::vector<std::string> tiny_training(const std::string& folder, std::int64_t iterations,
                                              std::int64_t save_interval) {
  const std::string data = small_data();
  return {"train",
          "--num-layers",
          "2",
          "--hidden-size",
          "16",
          "--num-attention-heads",
          "2",
          "--seq-length",
          "16",
          "--max-position-embeddings",
          "16",
          "--micro-batch-size",
          "2",
          "--global-batch-size",
          "4",
          "--lr",
          "1e-3",
          "--tokenizer-type",
          "NullTokenizer",
          "--vocab-size",
          "60",
          "--split",
          "80,10,10",
          "--data-path",
          data,
          "--eval-iters",
          "2",
          "--eval-interval",
          "3",
          "--log-interval",
          "1",
          "--threads",
          "1",
          "--train-iters",
          std::to_string(iterations),
          "--save-interval",
          std::to_string(save_interval),
          "--save",
          folder,
          "--load",
          folder};
}

/// A program under way, whose standard error is read.
class Process {
 public:
  Process(const std::string& program, const std::vector<std::string>& args,
          const std::vector<std::string>& environment = {}) {
    int ends[2];
    check(::pipe2(ends, O_CLOEXEC) == 0, "cannot make a pipe");
    child_ = ::fork();
    check(child_ >= 0, "cannot fork");
    if (child_ == 0) {
      ::dup2(ends[1], STDERR_FILENO);
      const int nothing = ::open("/dev/null", O_WRONLY);
      ::dup2(nothing, STDOUT_FILENO);
      ::signal(SIGHUP, SIG_DFL);  // whoever runs the tests may have it ignored (nohup)
      for (const std::string& each : environment) ::putenv(const_cast<char*>(each.c_str()));
      ::putenv(const_cast<char*>("OMP_WAIT_POLICY=passive"));
      std::vector<char*> argv{const_cast<char*>(program.c_str())};
      for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
      argv.push_back(nullptr);
      ::execv(program.c_str(), argv.data());
      ::_exit(126);
    }
    ::close(ends[1]);
    error_ = ends[0];
  }
  ~Process() {
    if (child_ > 0) {
      ::kill(child_, SIGKILL);
      wait();
    }
    ::close(error_);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  /// Reads until the text has come; false when the program ends before.
  bool wait_for_text(const std::string& text) {
    while (output_.find(text) == std::string::npos)
      if (!read_some()) return false;
    return true;
  }
  void send(int signal) const { ::kill(child_, signal); }
  /// The exit code, or 128 + the signal that ended it.
  int wait() {
    while (read_some()) {
    }
    int status = 0;
    ::waitpid(child_, &status, 0);
    child_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  const std::string& output() const { return output_; }

 private:
  bool read_some() {
    char bytes[4096];
    const ssize_t n = ::read(error_, bytes, sizeof(bytes));
    if (n > 0) output_.append(bytes, static_cast<std::size_t>(n));
    return n > 0;
  }

  pid_t child_ = 0;
  int error_ = -1;
  std::string output_;
};

/// The newest iteration that the log calls saved; -1: none.
inline std::int64_t last_saved(const std::string& log) {
  const std::string before = "saved checkpoint of iteration ";
  const std::size_t found = log.rfind(before);
  return found == std::string::npos ? -1 : std::atoll(log.c_str() + found + before.size());
}

/// Opens the newest checkpoint and reads all of it; -1: there is none.
inline std::int64_t verified_iteration(const fs::path& folder) {
  std::optional<Checkpoint> checkpoint = Checkpoint::find(folder);
  if (!checkpoint) return -1;
  checkpoint->verify();
  return checkpoint->iteration();
}

inline bool full() { return std::getenv("TESSERA_FULL") != nullptr; }

}  // namespace tessera::test
