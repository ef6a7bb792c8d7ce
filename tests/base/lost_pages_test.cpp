#include "tessera/base/lost_pages.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "tessera/base/files.h"
#include "tests/support/temp_folder.h"

namespace tessera {
namespace {

constexpr std::size_t kBytes = 100'000;
constexpr std::size_t kAt = 70'000;

// A sanitizer that handles the signal itself is not to come first.
void read_what_is_gone(const fs::path& path) {
  const MappedFile other(path), file(path);
  report_lost_pages();
  [[maybe_unused]] const int cut = ::truncate(path.c_str(), 0);
  const volatile std::byte* lost = &file.bytes()[kAt];
  std::exit(static_cast<int>(*lost));
}

TEST(LostPages, AFileThatIsCutOffWhileItIsReadIsNamed) {
  const test::TempFolder folder;
  write_file_atomically(folder / "tokens.bin", std::string(kBytes, 'x'));
  EXPECT_EXIT(read_what_is_gone(folder / "tokens.bin"), testing::ExitedWithCode(1),
              "cannot read '.*tokens.bin' at byte 70000: it was cut off");
}

void fault_elsewhere(const fs::path& path) {
  { const MappedFile forgotten(path); }
  report_lost_pages();
  ::raise(SIGBUS);
  ::raise(SIGBUS);
  std::exit(0);
}

TEST(LostPages, OtherFaultsEndTheProgramAsEver) {
  const test::TempFolder folder;
  write_file_atomically(folder / "tokens.bin", std::string(kBytes, 'x'));
  EXPECT_EXIT(fault_elsewhere(folder / "tokens.bin"), testing::KilledBySignal(SIGBUS), "");
}

}  // namespace
}  // namespace tessera
