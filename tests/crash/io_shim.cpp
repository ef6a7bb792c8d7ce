// Loaded in front of a program (LD_PRELOAD), this counts its calls that change files under one
// folder, and makes one of them fail or be the last.
//
//   IO_SHIM_FOLDER   paths that contain this count
//   IO_SHIM_BEGIN    counting begins with the first call on a path that contains this
//   IO_SHIM_AT       the number of the call to spoil, from 1; 0: none
//   IO_SHIM_ACTION   kill (before the call), killed (after it), power (as kill, and what was not
//                    synced is lost), short (writes one byte), or the number of an errno
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

#include "tests/crash/power_cut.h"

namespace {

using tessera::test::path_of;

// A library that stands in front of another has no place but these for what it knows.
// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables)
std::atomic<long> calls = 0;
std::atomic<bool> begun = false;
std::atomic<bool> dark = false;  // the power is off
constexpr int kFiles = 1024;
enum Use : char { other, read_only, written };
std::atomic<Use> ours[kFiles];  // by descriptor
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)

// Never destroyed: threads may still write when the program ends.
tessera::test::UnsyncedChanges& changes() {
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
  static auto* const all = new tessera::test::UnsyncedChanges;
  return *all;
}

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
  if (dark || path == nullptr || *folder == 0 || strstr(path, folder) == nullptr) return false;
  if (strstr(path, begin) != nullptr) begun = true;
  return begun;
}

bool is_ours(int fd) { return !dark && fd >= 0 && fd < kFiles && ours[fd] != other && begun; }

// A path beside an open folder.
bool is_ours(int folder, const char* path) { return is_ours(folder) || is_ours(path); }

enum class Fate { go_on, fail, once_short, last };

// What becomes of this call.
Fate count() {
  static const long at = atol(setting("IO_SHIM_AT"));
  static const char* action = setting("IO_SHIM_ACTION");
  if (++calls != at) return Fate::go_on;
  if (strcmp(action, "kill") == 0) kill(getpid(), SIGKILL);
  if (strcmp(action, "power") == 0) {
    dark = true;
    changes().forget();
    kill(getpid(), SIGKILL);
  }
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

int opened(int fd, Use use) {
  if (fd >= 0 && fd < kFiles) ours[fd] = use;
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
  const auto real = next<int(const char*, int, ...)>("open");
  if (!is_ours(path)) return opened(real(path, flags, mode), other);
  if ((flags & (O_WRONLY | O_RDWR)) == 0) return opened(real(path, flags, mode), read_only);
  const bool was_there = access(path, F_OK) == 0;
  const int fd = spoiled<int>(true, [&] { return real(path, flags, mode); });
  if (fd >= 0 && !was_there) changes().made(path);
  return opened(fd, written);
}

int openat(int folder, const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  const auto real = next<int(int, const char*, int, ...)>("openat");
  return opened(real(folder, path, flags, mode), is_ours(folder, path) ? read_only : other);
}

int close(int fd) {
  const bool counts = is_ours(fd) && ours[fd] == written;
  opened(fd, other);
  const Fate fate = counts ? count() : Fate::go_on;
  const int result = next<int(int)>("close")(fd);  // it is closed, whatever it says
  if (fate == Fate::last) kill(getpid(), SIGKILL);
  return fate == Fate::fail ? -1 : result;
}

ssize_t write(int fd, const void* data, size_t bytes) {
  const auto real = next<ssize_t(int, const void*, size_t)>("write");
  const bool counts = is_ours(fd);
  const Fate fate = counts ? count() : Fate::go_on;
  if (fate == Fate::fail) return -1;
  if (counts) changes().wrote(path_of(fd));
  if (fate == Fate::once_short) return real(fd, data, bytes > 0 ? 1 : 0);
  const ssize_t result = real(fd, data, bytes);
  if (fate == Fate::last) kill(getpid(), SIGKILL);
  return result;
}

int fsync(int fd) {
  const bool counts = is_ours(fd);
  const int result = spoiled<int>(counts, [&] { return next<int(int)>("fsync")(fd); });
  if (counts && result == 0) changes().synced(path_of(fd));
  return result;
}

int rename(const char* from, const char* to) {
  const bool counts = is_ours(from);
  const auto real = next<int(const char*, const char*)>("rename");
  const int result = spoiled<int>(counts, [&] { return real(from, to); });
  if (counts && result == 0) changes().renamed(from, to);
  return result;
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  const bool counts = is_ours(from);
  const auto real = next<int(int, const char*, int, const char*, unsigned)>("renameat2");
  const int result =
      spoiled<int>(counts, [&] { return real(from_folder, from, to_folder, to, flags); });
  if (counts && result == 0) changes().exchanged(from, to);
  return result;
}

int mkdir(const char* path, mode_t mode) {
  const bool counts = is_ours(path) && access(path, F_OK) != 0;  // else it changes nothing
  const auto real = next<int(const char*, mode_t)>("mkdir");
  const int result = spoiled<int>(counts, [&] { return real(path, mode); });
  if (counts && result == 0) changes().made(path);
  return result;
}

// What is removed stays so.
int unlinkat(int folder, const char* path, int flags) {
  const auto real = next<int(int, const char*, int)>("unlinkat");
  return spoiled<int>(is_ours(folder, path), [&] { return real(folder, path, flags); });
}

}  // extern "C"
