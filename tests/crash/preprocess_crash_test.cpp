// Preprocessing that is killed at any call that changes a file, loses its power there, or meets a
// disk that fails: the same command ends it, with the bytes of an undisturbed run.
#include <gtest/gtest.h>

#include <cerrno>
#include <fstream>
#include <map>

#include "tests/crash/training.h"

namespace tessera {
namespace {

using test::Process;
using Files = std::map<std::string, std::string>;

class PreprocessCrash : public testing::Test {
 protected:
  PreprocessCrash() {
    fs::create_directory(folder());
    std::ofstream a(temp_ / "a.jsonl");
    for (int i = 0; i < 2000; ++i) {
      if (i % 500 == 77) a << "bad\n";
      a << "{\"text\": \"" << std::string(static_cast<std::size_t>(i % 701), 'x') << i
        << "\", \"title\": \"" << i << "\"}\n";
    }
    fs::copy_file(temp_ / "a.jsonl", temp_ / "b.jsonl");
  }

  fs::path folder() const { return temp_ / "out"; }

  int run(long at = 0, const std::string& action = "") {
    const std::vector<std::string> args{"preprocess",
                                        "--input",
                                        (temp_ / "[ab].jsonl").string(),
                                        "--output-prefix",
                                        (folder() / "data").string(),
                                        "--json-keys",
                                        "text",
                                        "title",
                                        "--append-eod",
                                        "--workers",
                                        "2",
                                        "--on-error",
                                        "skip",
                                        "--save-errors",
                                        "--commit-interval",
                                        "400000"};
    std::vector<std::string> environment;
    if (!action.empty() || at < 0)
      environment = {std::string("LD_PRELOAD=") + TESSERA_IO_SHIM,
                     "IO_SHIM_FOLDER=" + folder().string(),
                     "IO_SHIM_BEGIN=" + folder().string(),
                     "IO_SHIM_AT=" + std::to_string(std::max(0L, at)),
                     "IO_SHIM_ACTION=" + action,
                     "IO_SHIM_COUNT=" + (temp_ / "count").string()};
    Process process(TESSERA_PROGRAM, args, environment);
    const int code = process.wait();
    log_ = process.output();
    return code;
  }

  Files files() const {
    Files all;
    for (const auto& entry : fs::directory_iterator(folder()))
      all[entry.path().filename().string()] =
          entry.is_directory() ? "folder" : read_text_file(entry.path());
    return all;
  }

  void start_anew() {
    fs::remove_all(folder());
    fs::create_directory(folder());
  }

  test::TempFolder temp_;
  std::string log_;
};

TEST_F(PreprocessCrash, AtAnyCallTheSameCommandEndsIt) {
  ASSERT_EQ(run(-1), 0) << log_;
  const long calls = std::atol(read_text_file(temp_ / "count").c_str());
  const Files undisturbed = files();
  ASSERT_EQ(undisturbed.size(), 5u);
  EXPECT_GT(calls, 60);
  const std::vector<std::string> actions{
      "kill", "killed", "power", "short", std::to_string(ENOSPC), std::to_string(EIO)};
  long number = 0;
  for (const std::string& action : actions)
    for (long at = 1; at <= calls; ++at) {
      if (++number % (test::full() ? 1 : 101) != 0) continue;
      SCOPED_TRACE(fmt::format("{} at call {} of {}", action, at, calls));
      start_anew();
      const int code = run(at, action);
      if (action == "short") {
        EXPECT_EQ(code, 0) << log_;
      } else {
        const int again = run();
        // All was done but for the removal of the folder: then the output is there already.
        const bool was_done = code == 0 || log_.find("is there already") != std::string::npos;
        EXPECT_TRUE(again == 0 || was_done) << log_;
        if (again != 0) fs::remove_all(folder() / "data.partial");
      }
      ASSERT_EQ(files(), undisturbed);
    }
}

}  // namespace
}  // namespace tessera
