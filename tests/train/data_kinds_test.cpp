// Conversations and texts with a middle to fill in: whole runs on them are the same on any ranks,
// and when they are resumed on others.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "tessera/data/preprocess/preprocess.h"
#include "tessera/data/preprocess/train_tokenizer.h"
#include "tessera/tokenizer/tokenizer.h"
#include "tests/train/trainer_run.h"

namespace tessera {
namespace {

constexpr std::int64_t kKindSteps = 6;

class DataKinds : public testing::Test {
 protected:
  DataKinds() : options_(test::ranks_options(folder_ / "one", kKindSteps)) {
    options_.model.num_layers = 3;
    options_.model.vocab_size = 0;  // that of the tokenizer
    options_.data.seq_length = 32;
    options_.train.eval_interval = options_.train.save_interval = kKindSteps / 2;
  }

  std::vector<double> losses(const std::string& name) const {
    return test::losses_of(folder_ / name);
  }
  Json state(const std::string& name) const {
    return Json::parse(Checkpoint::open(folder_ / name, std::nullopt).manifest().state);
  }

  struct RanksOf {
    int data = 1;
    int pipeline = 1;
    int context = 1;
  };
  void run_as(const std::string& name, const RanksOf& ranks, bool half = false) {
    Options options = options_;
    options.parallel.data = ranks.data;
    options.parallel.pipeline = ranks.pipeline;
    options.parallel.context = ranks.context;
    options.train.save = options.train.load = (folder_ / name).string();
    if (half) options.train.exit_interval = kKindSteps / 2;
    test::run(options);
  }

  void expect_like_one(const std::string& name) const {
    const std::vector<double> want = losses("one"), got = losses(name);
    ASSERT_EQ(got.size(), want.size()) << name;
    for (std::size_t i = 0; i < want.size(); ++i)
      EXPECT_NEAR(got[i], want[i], 1e-5 * want[i]) << name << " " << i;
    EXPECT_EQ(state(name)["iteration"], kKindSteps);
    EXPECT_EQ(state(name)["consumed_samples"], state("one")["consumed_samples"]) << name;
    EXPECT_EQ(state(name)["order_digest"], state("one")["order_digest"]) << name;
  }

  void expect_same_on_all_ranks() {
    run_as("one", {});
    ASSERT_GT(losses("one").size(), static_cast<std::size_t>(kKindSteps)) << "evaluations, too";
    run_as("data", {.data = 2});
    expect_like_one("data");
    run_as("stages", {.pipeline = 3});
    expect_like_one("stages");
    run_as("context", {.context = 2});
    expect_like_one("context");
    run_as("resumed", {.data = 2, .context = 2}, true);
    EXPECT_EQ(state("resumed")["iteration"], kKindSteps / 2);
    run_as("resumed", {.data = 2});
    expect_like_one("resumed");
  }

  test::TempFolder folder_;
  Options options_;
};

// Conversations of 9 to 51 tokens: several to a sample, and some that are cut.
TEST_F(DataKinds, ConversationsAreTheSameOnAllRanks) {
  std::ofstream(folder_ / "t.json") << R"({"special_tokens": ["<|endoftext|>"], "roles": {
      "user": {"prefix": "Q:", "suffix": "\n"},
      "assistant": {"prefix": "A:", "suffix": "<|endoftext|>\n"}}})";
  std::ofstream chats(folder_ / "chats.jsonl");
  for (int i = 0; i < 120; ++i) {
    const auto message = [](const char* role, int size, int first) {
      std::string text;
      for (int c = 0; c < size; ++c) text += static_cast<char>('a' + (first + c * c) % 26);
      return Json{{"role", role}, {"content", text}};
    };
    const Json both = {message("user", 2 + i * 5 % 13, i), message("assistant", i * 7 % 31, 3 * i)};
    chats << Json{{"messages", both}} << '\n';
  }
  chats.close();
  PreprocessOptions made;
  made.inputs = {(folder_ / "chats.jsonl").string()};
  made.output_prefix = (folder_ / "chats").string();
  made.chat_template = (folder_ / "t.json").string();
  made.workers = 1;
  ASSERT_EQ(preprocess(made).documents, 120);

  options_.data.sft = true;
  options_.data.tokenizer = made.tokenizer;
  options_.data.data_path = {made.output_prefix + "_messages_document"};
  resolve(options_);
  expect_same_on_all_ranks();
}

std::vector<std::string> made_up_texts() {
  std::vector<std::string> texts(200);
  for (std::size_t i = 0; i < texts.size(); ++i)
    for (std::size_t word = 0; word < 4 + i * 7 % 19; ++word)
      texts[i] += (word * word + i) % 3 ? "the shared größe " : "stories, ";
  return texts;
}

// Every other text is stored in single bytes, so that samples become shorter and are padded.
void write_texts(const fs::path& prefix, const Tokenizer& tokenizer) {
  IndexedDatasetWriter writer(prefix.string(), TokenType::u16);
  bool bytes = false;
  for (const std::string& text : made_up_texts()) {
    std::vector<std::int32_t> tokens = tokenizer.encode(text);
    bytes = !bytes;
    if (bytes) tokens.clear();
    for (std::size_t i = 0; bytes && i < text.size(); ++i)
      tokens.push_back(tokenizer.encode({&text[i], 1}).at(0));
    tokens.push_back(tokenizer.eod());
    writer.add_document(tokens);
  }
  writer.finish();
}

// A tokenizer.json with the tokens that fill in the middle needs.
TokenizerOptions learned_tokenizer(const fs::path& folder) {
  std::ofstream text(folder / "text.txt");
  for (const std::string& each : made_up_texts()) text << each << "\n";
  text.close();
  TrainTokenizerOptions options;
  options.inputs = {(folder / "text.txt").string()};
  options.output = (folder / "tokenizer.json").string();
  options.vocab_size = 280;
  options.special_tokens = {"<|endoftext|>", "<fim_prefix>", "<fim_middle>", "<fim_suffix>",
                            "<fim_pad>"};
  train_tokenizer(options);
  TokenizerOptions learned;
  learned.kind = TokenizerKind::hugging_face;
  learned.model = options.output;
  read_vocabulary(learned);
  return learned;
}

TEST_F(DataKinds, MiddlesToFillInAreTheSameOnAllRanks) {
  options_.data.tokenizer = learned_tokenizer(folder_.path());
  write_texts(folder_ / "texts", *make_tokenizer(options_.data.tokenizer));
  options_.data.data_path = {(folder_ / "texts").string()};
  options_.data.fim.enabled = true;
  options_.train.calculate_per_token_loss = true;  // ranks have more or less padding
  resolve(options_);
  expect_same_on_all_ranks();
  options_.data.fim.enabled = false;
  run_as("plain", {});
  EXPECT_EQ(state("plain")["order_digest"], state("one")["order_digest"]);
  const std::vector<double> plain = losses("plain"), one = losses("one");
  ASSERT_EQ(plain.size(), one.size());
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_GT(std::abs(plain[i] - one[i]), 1e-3) << i;
}

// --reset-attention-mask and --reset-position-ids, from the flags to the loss.
TEST_F(DataKinds, DocumentsKeptApartAreTheSameOnAllRanks) {
  options_.data.tokenizer = learned_tokenizer(folder_.path());
  write_texts(folder_ / "texts", *make_tokenizer(options_.data.tokenizer));
  options_.data.data_path = {(folder_ / "texts").string()};
  options_.data.reset_attention_mask = options_.data.reset_position_ids = true;
  options_.data.eod_mask_loss = true;
  options_.train.calculate_per_token_loss = true;
  resolve(options_);
  expect_same_on_all_ranks();
  for (const Json& entry : test::metrics_of(folder_ / "context"))
    if (entry.contains("lm_loss")) {
      EXPECT_GT(entry.at("context_imbalance").get<double>(), 1.0);
    }
  const std::vector<double> one = losses("one");
  const auto expect_others = [&](const std::string& name) {
    run_as(name, {});
    const std::vector<double> others = losses(name);
    ASSERT_EQ(others.size(), one.size());
    for (std::size_t i = 0; i < one.size(); ++i)
      EXPECT_GT(std::abs(others[i] - one[i]), 1e-6) << name << " " << i;
  };
  options_.data.reset_attention_mask = false;
  expect_others("one document");
  options_.data.reset_attention_mask = true;
  options_.data.reset_position_ids = false;
  expect_others("positions go on");
}

}  // namespace
}  // namespace tessera
