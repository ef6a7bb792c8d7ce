#include "tessera/base/folder_lock.h"

#include <gtest/gtest.h>

#include <optional>

#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace tessera {
namespace {

TEST(FolderLock, OneAtATime) {
  const test::TempFolder temp;
  fs::create_directories(temp / "run");
  std::optional<FolderLock> first(temp / "run");
  test::expect_input_error([&] { const FolderLock second(temp / "run"); },
                           {"another run is writing into"});
  first.reset();
  const FolderLock again(temp / "run");
}

}  // namespace
}  // namespace tessera
