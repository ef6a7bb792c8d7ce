#include "tessera/base/files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <string>
#include <utility>

#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace tessera {
namespace {

class Files : public ::testing::Test {
 protected:
  std::size_t entries() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()));
  }
  test::TempFolder folder_;
};

std::string text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

TEST_F(Files, WritesAndReadsAnyBytes) {
  std::string bytes(100'000, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7);
  write_file_atomically(folder_ / "a", bytes);
  EXPECT_EQ(read_text_file(folder_ / "a"), bytes);
  write_file_atomically(folder_ / "a", "");
  EXPECT_EQ(read_text_file(folder_ / "a"), "");
}

TEST_F(Files, FoldersAreMadeWhereTheFileSystemMeans) {
  make_folders(folder_ / "a/b/c");
  make_folders(folder_ / "a/b/c");
  EXPECT_TRUE(fs::is_directory(folder_ / "a/b/c"));
  // Behind a link ".." is the parent of what the link points to.
  fs::create_directory_symlink(folder_ / "a/b", folder_ / "link");
  make_folders(folder_ / "link/../d");
  EXPECT_TRUE(fs::is_directory(folder_ / "a/d"));
  EXPECT_FALSE(fs::exists(folder_ / "d"));
}

TEST_F(Files, NoFolderWhereSomethingElseIs) {
  write_file_atomically(folder_ / "file", "x");
  for (const std::string& name :
       {std::string("file"), std::string("file/a"), "b/" + std::string(300, 'x')}) {
    test::expect_input_error([&] { make_folders(folder_ / name); }, {"cannot make the folder"});
  }
  test::expect_input_error([&] { check_folder_can_be(folder_ / "file"); }, {"is not one"});
  test::expect_input_error([&] { check_folder_can_be(folder_ / "file/a/b"); }, {"is not one"});
  check_folder_can_be(folder_ / "new/a/b");
  EXPECT_FALSE(fs::exists(folder_ / "new"));
}

TEST_F(Files, AnAtomicWriteLeavesOnlyTheFile) {
  write_file_atomically(folder_ / "a", "old");
  write_file_atomically(folder_ / "a", "new");
  EXPECT_EQ(read_text_file(folder_ / "a"), "new");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(Files, AFailedAtomicWriteLeavesNoTemporary) {
  fs::create_directory(folder_ / "taken");
  test::expect_error([&] { write_file_atomically(folder_ / "taken", "text"); },
                     {"taken", "irectory"});
  EXPECT_TRUE(fs::is_directory(folder_ / "taken"));
  EXPECT_EQ(entries(), 1u);
}

TEST_F(Files, ErrorsNameThePathAndTheReason) {
  const auto missing = folder_ / "missing";
  const std::string name = missing.string();
  test::expect_input_error([&] { read_text_file(missing); }, {name.c_str(), "No such file"});
  test::expect_input_error([&] { MappedFile{missing}; }, {name.c_str(), "No such file"});
  test::expect_error([&] { sync_path(missing); }, {name.c_str(), "No such file"});
  test::expect_error([&] { write_file_atomically(missing / "x", "t"); },
                     {name.c_str(), "No such file"});
  const std::string folder = folder_.path().string();
  test::expect_input_error([&] { read_text_file(folder_.path()); },
                           {folder.c_str(), "not a regular file"});
  test::expect_input_error([&] { MappedFile{folder_.path()}; },
                           {folder.c_str(), "not a regular file"});
}

TEST_F(Files, APipeIsRefusedInsteadOfWaitedFor) {
  const auto pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  test::expect_input_error([&] { read_text_file(pipe); }, {"pipe", "not a regular file"});
  test::expect_input_error([&] { MappedFile{pipe}; }, {"pipe", "not a regular file"});
}

TEST_F(Files, ALimitKeepsBigFilesOut) {
  write_file_atomically(folder_ / "a", "12345");
  EXPECT_EQ(read_text_file(folder_ / "a", 5), "12345");
  test::expect_input_error([&] { read_text_file(folder_ / "a", 4); }, {"5 bytes", "4"});
}

TEST_F(Files, AWriterAppendsInOrder) {
  FileWriter writer(folder_ / "a");
  writer.write("one ", 4);
  writer.write("", 0);
  writer.write("two", 3);
  writer.close();
  EXPECT_EQ(read_text_file(folder_ / "a"), "one two");
  test::expect_error([&] { writer.write("x", 1); }, {"cannot write"});
}

TEST_F(Files, AMapShowsTheFileAndMoves) {
  write_file_atomically(folder_ / "a", "mapped");
  write_file_atomically(folder_ / "empty", "");
  MappedFile file(folder_ / "a");
  EXPECT_EQ(text_of(file), "mapped");
  MappedFile other(std::move(file));
  EXPECT_EQ(text_of(other), "mapped");
  EXPECT_EQ(other.path(), folder_ / "a");
  other = MappedFile(folder_ / "empty");
  EXPECT_TRUE(other.bytes().empty());
}

}  // namespace
}  // namespace tessera
