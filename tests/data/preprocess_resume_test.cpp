// Runs that are killed and started again, and outputs that are there already.
#include <signal.h>
#include <sys/wait.h>

#include <thread>

#include "tessera/base/folder_lock.h"
#include "tests/data/preprocess_case.h"
#include "tests/support/in_a_process.h"

namespace tessera {
namespace {

using test::gzip;
using test::made_up_lines;
using test::zstd;

class PreprocessResume : public test::PreprocessCase {
 protected:
  // Inputs of every kind, with some bad lines.
  void make_inputs() {
    std::string bad = made_up_lines(1000, 1);
    for (std::size_t at = 40000; at < bad.size(); at += 60000) bad[bad.find('{', at)] = '!';
    input("a.jsonl", bad);
    add_input("b.jsonl.gz", gzip(made_up_lines(1000, 2)));
    add_input("c.txt", "text");
    add_input("d.jsonl.zst", zstd(made_up_lines(1000, 3)));
    add_input("e.jsonl", made_up_lines(200, 4, 9000));
    options_.json_keys = {"text", "title"};
    options_.on_error = OnError::skip;
    options_.save_errors = true;
    options_.commit_bytes = 250000;
    options_.inputs.erase(options_.inputs.begin() + 2);  // a plain text has no keys
  }

  // In a process of its own, which SIGKILL ends after some time. True when all is done.
  bool run_and_kill(std::chrono::microseconds after) const {
    const pid_t child = test::in_a_process([this] {
      preprocess(options_);
      return true;
    });
    std::this_thread::sleep_for(after);
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    // Killed between its last word and its end, a run has nothing left to do, and reports that.
    const bool was_done = !fs::exists(path("out.partial/state.json")) && outputs().size() >= 5;
    EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0 || was_done);
    if (was_done) fs::remove_all(path("out.partial"));
    return was_done;
  }

  // A run that stops by itself behind its first durable points: the end of the last file is
  // damaged.
  void run_until_damage() {
    input("a.jsonl", made_up_lines(3000, 1));
    add_input("b.jsonl.gz", gzip(made_up_lines(3000, 2)).substr(0, 300000));
    options_.commit_bytes = 300000;
    test::expect_input_error([&] { preprocess(options_); },
                             {"b.jsonl.gz' is cut off", "is kept in", "out.partial", "--restart"});
    ASSERT_TRUE(fs::exists(path("out.partial/state.json")));
    EXPECT_EQ(outputs().size(), 1u) << "nothing under the real names";
  }
};

TEST_F(PreprocessResume, KilledAtAnyTimeItGoesOnToTheSameBytes) {
  make_inputs();
  const auto undisturbed = outputs_of(options_, "undisturbed");
  ASSERT_EQ(undisturbed.size(), 5u);
  const auto start = std::chrono::steady_clock::now();
  outputs_of(options_, "timed");
  const auto time = std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::steady_clock::now() - start);
  std::mt19937 random(7);
  int resumed = 0;
  const auto enough = [&](int round) {
    return (round >= (test::full() ? 200 : 2) && resumed > 0) || round >= 300;
  };
  for (int round = 0; !enough(round); ++round) {
    bool done = false;
    for (int i = 0; i < 50 && !done; ++i) {
      options_.workers = static_cast<int>(1 + random() % 3);
      done = run_and_kill(std::chrono::microseconds(
          random() % static_cast<unsigned>(std::max<std::int64_t>(1, time.count()))));
      resumed += fs::exists(path("out.partial/state.json")) ? 1 : 0;
      EXPECT_TRUE(!fs::exists(path("out_text_document.idx")) ||
                  outputs().at("_text_document.idx") == undisturbed.at("_text_document.idx"))
          << "an index that is not complete";
    }
    if (!done) preprocess(options_);
    ASSERT_EQ(outputs(), undisturbed) << "round " << round;
    for (const auto& [name, bytes] : undisturbed) fs::remove(path("out" + name));
  }
  EXPECT_GT(resumed, 0) << "no run was taken up";
}

TEST_F(PreprocessResume, GoesOnBehindTheDamageOnceItIsFixed) {
  run_until_damage();
  // Fixed, the file is another one: the run is not taken up in silence.
  test::write_bytes(path("b.jsonl.gz"), gzip(made_up_lines(3000, 2)));
  test::expect_input_error(
      [&] { preprocess(options_); },
      {"differs from this one", "b.jsonl.gz", "was changed: it had 300000 bytes", "--restart"});
  options_.restart = true;
  preprocess(options_);
  options_.restart = false;
  const auto restarted = outputs();
  EXPECT_EQ(restarted.size(), 2u);
  EXPECT_EQ(outputs_of(options_, "fresh"), restarted);
}

TEST_F(PreprocessResume, TellsWhatChanged) {
  run_until_damage();
  const PreprocessOptions before = options_;
  const auto expect_differs = [&](std::initializer_list<const char*> parts) {
    test::expect_input_error([&] { preprocess(options_); }, parts);
    options_ = before;
  };
  options_.append_eod = false;
  expect_differs({"--append-eod was true, is false", "--restart"});
  options_.json_keys = {"title"};
  expect_differs({"--json-keys was [\"text\"], is [\"title\"]"});
  options_.max_line_bytes = 5000;
  expect_differs({"--max-line-size was 67108864, is 5000"});
  options_.tokenizer.kind = TokenizerKind::null;
  options_.tokenizer.vocab_size = 256;
  expect_differs({"the tokenizer's kind", "the tokenizer's sample"});
  options_.inputs.pop_back();
  expect_differs({"there were 2 inputs, there are 1"});
  std::swap(options_.inputs[0], options_.inputs[1]);
  expect_differs({"input 1 was", "a.jsonl", "b.jsonl.gz"});
  fs::last_write_time(path("a.jsonl"), fs::file_time_type::clock::now());
  expect_differs({"a.jsonl", "was changed", "another time"});
  EXPECT_TRUE(fs::exists(path("out.partial/state.json"))) << "refusing must not drop it";
}

TEST_F(PreprocessResume, ABadLineCanBeSkippedAfterwards) {
  std::string text = made_up_lines(3000, 1);
  text[text.find('{', text.size() / 2)] = '!';
  input("a.jsonl", text);
  options_.commit_bytes = 200000;
  test::expect_input_error([&] { preprocess(options_); }, {"not valid JSON", "is kept"});
  options_.on_error = OnError::skip;
  EXPECT_EQ(preprocess(options_).skipped, 1);
  const auto resumed = outputs();
  EXPECT_EQ(outputs_of(options_, "fresh"), resumed);
}

TEST_F(PreprocessResume, ARunThatSkippedDoesNotGoOnWithoutSkipping) {
  input("a.jsonl", "!\n" + made_up_lines(3000, 1));
  add_input("b.jsonl.gz", "damaged");
  options_.on_error = OnError::skip;
  options_.commit_bytes = 300000;
  test::expect_input_error([&] { preprocess(options_); }, {"b.jsonl.gz", "is kept"});
  options_.on_error = OnError::fail;
  test::expect_input_error([&] { preprocess(options_); },
                           {"skipped 1 bad", "--on-error skip", "--restart"});
}

TEST_F(PreprocessResume, DamagedWorkIsRefused) {
  run_until_damage();
  const std::string state = read_text_file(path("out.partial/state.json"));
  for (const char* bad : {"", "{", "[]", "{\"at\": [0, 0]}", "{\"at\": [-1, 0, 0]}"}) {
    test::write_bytes(path("out.partial/state.json"), bad);
    test::expect_input_error([&] { preprocess(options_); }, {"state.json", "with --restart"});
  }
  std::string far = state;
  far.replace(far.find("[", far.find("\"at\"")), 2, "[9");
  test::write_bytes(path("out.partial/state.json"), far);
  test::expect_input_error([&] { preprocess(options_); }, {"do not fit together", "--restart"});
  test::write_bytes(path("out.partial/state.json"), state);
  fs::resize_file(path("out.partial/text.bin"), 10);
  test::expect_input_error([&] { preprocess(options_); },
                           {"text.bin' has 10 bytes", "cannot go on: drop it with --restart"});
  test::write_bytes(path("out.partial/run.json"), "{");
  test::expect_input_error([&] { preprocess(options_); }, {"run.json", "with --restart"});
  EXPECT_TRUE(fs::exists(path("out.partial/state.json"))) << "refusing must not drop it";
  // As it says, a new start helps: to the damage that is in the input.
  options_.restart = true;
  test::expect_input_error([&] { preprocess(options_); }, {"b.jsonl.gz' is cut off"});
}

TEST_F(PreprocessResume, AFinishedOutputIsNotReplacedUnasked) {
  input("a.jsonl", "{\"text\": \"old\"}\n");
  preprocess(options_);
  const auto old = outputs();
  input("a.jsonl", "{\"text\": \"newer\"}\n");
  test::expect_input_error([&] { preprocess(options_); },
                           {"out_text_document.bin' is there already", "--overwrite"});
  options_.restart = true;
  test::expect_input_error([&] { preprocess(options_); }, {"is there already", "--overwrite"});
  EXPECT_EQ(outputs(), old);
  options_.restart = false;
  options_.overwrite = true;
  preprocess(options_);
  EXPECT_NE(outputs(), old);
  EXPECT_EQ(outputs().size(), 2u);
}

TEST_F(PreprocessResume, AnOldListOfErrorsDoesNotStayBesideANewPair) {
  input("a.jsonl", "{\"text\": \"old\"}\nbad\n");
  options_.on_error = OnError::skip;
  options_.save_errors = true;
  preprocess(options_);
  ASSERT_EQ(outputs().count(".errors.jsonl"), 1u);
  options_.save_errors = false;
  test::expect_input_error([&] { preprocess(options_); }, {"is there already", "--overwrite"});
  ASSERT_EQ(outputs().count(".errors.jsonl"), 1u);
  options_.overwrite = true;
  preprocess(options_);
  EXPECT_EQ(outputs().size(), 2u);
  EXPECT_EQ(outputs().count(".errors.jsonl"), 0u);
}

TEST_F(PreprocessResume, AFolderOfSomebodyElseIsLeftAlone) {
  input("a.jsonl", "{\"text\": \"a\"}\n");
  fs::create_directory(folder_ / "out.partial");
  test::write_bytes(path("out.partial/notes"), "mine");
  test::expect_input_error([&] { preprocess(options_); }, {"out.partial' is in the way", "notes"});
  EXPECT_EQ(read_text_file(path("out.partial/notes")), "mine");
  fs::remove_all(folder_ / "out.partial");
  test::write_bytes(path("out.partial"), "mine");
  test::expect_input_error([&] { preprocess(options_); }, {"out.partial' is in the way"});
}

TEST_F(PreprocessResume, TwoRunsDoNotShareAnOutput) {
  run_until_damage();
  const FolderLock lock(path("out.partial"));
  test::expect_input_error([&] { preprocess(options_); }, {"another run", "out.partial"});
}

}  // namespace
}  // namespace tessera
