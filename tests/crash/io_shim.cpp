// Loaded in front of a program (LD_PRELOAD), this counts its calls that change files under one
// folder, and makes one of them fail or be the last.
//
//   IO_SHIM_FOLDER   paths that contain this count
//   IO_SHIM_BEGIN    counting begins with the first call on a path that contains this
//   IO_SHIM_AT       the number of the call to spoil, from 1; 0: none
//   IO_SHIM_ACTION   kill (before the call), killed (after it), short (writes one byte), or the
//   number
//                    of an errno
//   IO_SHIM_COUNT    file that gets the number of calls when the program ends
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

namespace {

// A library that stands in front of another has no place but these for what it knows.
// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables)
std::atomic<long> calls = 0;
std::atomic<bool> begun = false;
constexpr int kFiles = 1024;
std::atomic<bool> ours[kFiles];  // by descriptor
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)

const char* setting(const char* name) {
  const char* value = getenv(name);
  return value == nullptr ? "" : value;
}

template <class F>
F* next(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

bool is_ours(const char* path) {
  static const char* folder = setting("IO_SHIM_FOLDER");
  static const char* begin = setting("IO_SHIM_BEGIN");
  if (path == nullptr || *folder == 0 || strstr(path, folder) == nullptr) return false;
  if (strstr(path, begin) != nullptr) begun = true;
  return begun;
}

bool is_ours(int fd) { return fd >= 0 && fd < kFiles && ours[fd] && begun; }

enum class Fate { go_on, fail, once_short, last };

// What becomes of this call.
Fate count() {
  static const long at = atol(setting("IO_SHIM_AT"));
  static const char* action = setting("IO_SHIM_ACTION");
  if (++calls != at) return Fate::go_on;
  if (strcmp(action, "kill") == 0) kill(getpid(), SIGKILL);
  if (strcmp(action, "killed") == 0) return Fate::last;
  if (strcmp(action, "short") == 0) return Fate::once_short;
  errno = atoi(action);
  return Fate::fail;
}

template <class Result, class Call>
Result spoiled(bool counts, const Call& call) {
  const Fate fate = counts ? count() : Fate::go_on;
  if (fate == Fate::fail) return -1;
  const Result result = call();
  if (fate == Fate::last) kill(getpid(), SIGKILL);
  return result;
}

int opened(int fd, bool counts) {
  if (fd >= 0 && fd < kFiles) ours[fd] = counts;
  return fd;
}

[[gnu::destructor]] void at_exit() {
  const char* file = setting("IO_SHIM_COUNT");
  if (*file == 0) return;
  if (FILE* out = fopen(file, "w")) {
    fprintf(out, "%ld\n", calls.load());
    fclose(out);
  }
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  const bool counts = is_ours(path) && (flags & (O_WRONLY | O_RDWR)) != 0;
  const bool follows = is_ours(path);
  return opened(
      spoiled<int>(counts,
                   [&] { return next<int(const char*, int, ...)>("open")(path, flags, mode); }),
      follows);
}

int close(int fd) {
  const bool counts = is_ours(fd);
  if (fd >= 0 && fd < kFiles) ours[fd] = false;
  const Fate fate = counts ? count() : Fate::go_on;
  const int result = next<int(int)>("close")(fd);  // it is closed, whatever it says
  if (fate == Fate::last) kill(getpid(), SIGKILL);
  return fate == Fate::fail ? -1 : result;
}

ssize_t write(int fd, const void* data, size_t bytes) {
  const auto real = next<ssize_t(int, const void*, size_t)>("write");
  const Fate fate = is_ours(fd) ? count() : Fate::go_on;
  if (fate == Fate::fail) return -1;
  if (fate == Fate::once_short) return real(fd, data, bytes > 0 ? 1 : 0);
  const ssize_t result = real(fd, data, bytes);
  if (fate == Fate::last) kill(getpid(), SIGKILL);
  return result;
}

int fsync(int fd) {
  return spoiled<int>(is_ours(fd), [&] { return next<int(int)>("fsync")(fd); });
}

int rename(const char* from, const char* to) {
  return spoiled<int>(is_ours(from),
                      [&] { return next<int(const char*, const char*)>("rename")(from, to); });
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  return spoiled<int>(is_ours(from), [&] {
    return next<int(int, const char*, int, const char*, unsigned)>("renameat2")(
        from_folder, from, to_folder, to, flags);
  });
}

int mkdir(const char* path, mode_t mode) {
  return spoiled<int>(is_ours(path),
                      [&] { return next<int(const char*, mode_t)>("mkdir")(path, mode); });
}

}  // extern "C"
