#include "tessera/launch/mpirun.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <sstream>
#include <thread>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/launch/environment.h"
#include "tessera/launch/mpirun_output.h"
#include "tessera/launch/signal_watch.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

// What shells and mpirun return for a process that a signal ended.
constexpr int kSignalBase = 128;

std::string find_program(const std::string& name) {
  std::istringstream folders(process_variable("PATH").value_or(""));
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string path = (std::filesystem::path(folder) / name).string();
    if (::access(path.c_str(), X_OK) == 0) return path;
  }
  return "";
}

// Signals that this thread waits for instead of being ended by them, while this object lives.
class AwaitedSignals {
 public:
  AwaitedSignals() {
    sigemptyset(&awaited_);
    for (const int signal : SignalWatch::stopping()) sigaddset(&awaited_, signal);
    sigaddset(&awaited_, SIGCHLD);
    pthread_sigmask(SIG_BLOCK, &awaited_, &before_);
  }
  ~AwaitedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  AwaitedSignals(const AwaitedSignals&) = delete;
  AwaitedSignals& operator=(const AwaitedSignals&) = delete;

  void restore_in_child() const { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  /// The next one, or 0 when there is none for a second.
  int wait(siginfo_t& info) const {
    const timespec second{1, 0};
    const int signal = sigtimedwait(&awaited_, &info, &second);
    return signal > 0 ? signal : 0;
  }

 private:
  sigset_t awaited_, before_;
};

// What the ranks know as a wish to stop, of the signals that mpirun passes on: at others it ends
// them before they can save.
constexpr int kPassedOn = SIGUSR2;

// Its standard error goes to `error`.
pid_t start(const std::vector<std::string>& command, const AwaitedSignals& signals, int error,
            bool gentle) {
  std::vector<char*> argv;
  for (const std::string& part : command) argv.push_back(const_cast<char*>(part.c_str()));
  argv.push_back(nullptr);
  std::fflush(nullptr);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  check(child >= 0, "cannot start mpirun: {}", std::strerror(errno));
  if (child > 0) return child;
  signals.restore_in_child();
  ::dup2(error, STDERR_FILENO);
  if (gentle) {
    // A terminal's signals go to its processes in front, of which mpirun must not be one: it would
    // end the ranks. Behind them nobody can read what is typed.
    ::setpgid(0, 0);
    ::signal(kPassedOn, SIG_IGN);  // until mpirun and the ranks watch for it
    const int nothing = ::open("/dev/null", O_RDONLY);
    if (nothing >= 0) ::dup2(nothing, STDIN_FILENO);
  }
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // the ranks must not outlive this process
  if (::getppid() == parent) ::execv(argv[0], argv.data());
  ::_exit(kSignalBase - 1);
}

// With `gentle`, the first signal is passed on as a wish, and `wished` is set to it; a second one,
// `last`, ends the ranks.
int wait_for_child(pid_t child, const AwaitedSignals& signals, bool gentle, int& wished,
                   int& last) {
  int status = 0;
  Clock::time_point first;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    siginfo_t info{};
    const int signal = signals.wait(info);
    if (signal == 0 && wished != 0) ::kill(child, kPassedOn);  // ranks that just start may miss one
    if (signal == 0 || signal == SIGCHLD) continue;
    if (gentle && wished == 0) {
      wished = signal;
      first = Clock::now();
      ::kill(child, kPassedOn);
    } else if (gentle) {
      const std::chrono::duration<double> since = Clock::now() - first;
      if (SignalWatch::is_echo(signal, wished, since.count())) continue;
      last = signal;
      ::kill(child, SIGTERM);
    } else if (info.si_code <= 0) {
      // What a terminal sends has otherwise reached mpirun already: it goes to all processes in
      // front.
      ::kill(child, signal);
    }
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : kSignalBase + WTERMSIG(status);
}

// Shows what comes from the descriptor until it ends, or until mpirun has and no more is there:
// processes that it left behind may hold the other end.
void show(int from, MpirunOutput& output, const std::atomic<bool>& ended) {
  constexpr int kPatience = 200;  // milliseconds
  const auto print = [](const std::string& text) { std::fputs(text.c_str(), stderr); };
  std::string line;
  for (;;) {
    pollfd ready{from, POLLIN, 0};
    const bool last = ended;
    if (::poll(&ready, 1, kPatience) <= 0) {
      if (last) break;
      continue;
    }
    char bytes[4096];
    const ssize_t n = ::read(from, bytes, sizeof(bytes));
    if (n <= 0) break;
    for (ssize_t i = 0; i < n; ++i) {
      if (bytes[i] != '\n')
        line += bytes[i];
      else
        print(output.pass(std::exchange(line, "")));
    }
  }
  if (!line.empty()) print(output.pass(line));
  print(output.rest());
  ::close(from);
}

}  // namespace

std::vector<std::string> mpirun_command(const std::string& mpirun, int ranks, bool as_root,
                                        const std::string& program,
                                        const std::vector<std::string>& arguments) {
  // Cores are dealt out by the ranks themselves.
  std::vector<std::string> command{mpirun, "--bind-to",          "none", "--oversubscribe",
                                   "-n",   std::to_string(ranks)};
  if (as_root) command.emplace_back("--allow-run-as-root");
  command.push_back(program);
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

int run_with_mpirun(int ranks, const std::vector<std::string>& arguments, bool gentle) {
  const std::string mpirun = find_program("mpirun");
  check_input(!mpirun.empty(),
              "starting ranks as processes needs mpirun, which is not in PATH: install Open MPI "
              "(the package openmpi-bin of Debian), or start them as threads");
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  const AwaitedSignals signals;
  int ends[2];
  const bool piped = ::pipe2(ends, O_CLOEXEC) == 0;
  check(piped, "cannot make a pipe: {}", std::strerror(errno));
  const pid_t child = start(mpirun_command(mpirun, ranks, ::geteuid() == 0, program, arguments),
                            signals, ends[1], gentle);
  ::close(ends[1]);
  MpirunOutput output;
  std::atomic<bool> ended = false;
  std::thread reader([&] { show(ends[0], output, ended); });
  int wished = 0, last = 0;
  const int code = wait_for_child(child, signals, gentle, wished, last);
  ended = true;
  reader.join();
  if (last != 0) return SignalWatch::exit_code_at_once(last);
  if (wished != 0 && code == SignalWatch::exit_code_saved(kPassedOn))
    return SignalWatch::exit_code_saved(wished);
  if (code > kSignalBase)
    fmt::print(stderr, "tessera: {} was ended by signal {} ({})\n",
               output.killed() ? fmt::format("rank {}", *output.killed()) : "a rank",
               code - kSignalBase, ::strsignal(code - kSignalBase));
  check(code != kSignalBase - 1, "{} could not be started", mpirun);
  return code;
}

}  // namespace tessera
