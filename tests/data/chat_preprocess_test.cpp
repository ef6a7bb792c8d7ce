// Conversations to token files with their masks: what is accepted, what is refused, and that
// stopped runs go on to the same bytes.
#include <algorithm>

#include "tessera/base/json.h"
#include "tests/data/preprocess_case.h"

namespace tessera {
namespace {

constexpr const char* kTemplate = R"({"special_tokens": ["<|endoftext|>"],
  "roles": {"user": {"prefix": "U:", "suffix": "\n"},
            "assistant": {"prefix": "A:", "suffix": "<|endoftext|>\n"}}})";

std::string chat_line(const std::string& question, const std::string& answer) {
  const Json messages = Json::array(
      {{{"role", "user"}, {"content", question}}, {{"role", "assistant"}, {"content", answer}}});
  return Json{{"messages", messages}}.dump() + "\n";
}

class ChatPreprocess : public test::PreprocessCase {
 protected:
  ChatPreprocess() {
    test::write_bytes(folder_ / "t.json", kTemplate);
    options_.append_eod = false;
    options_.chat_template = path("t.json");
  }

  static std::string many_lines(int lines, unsigned seed) {
    std::mt19937 random(seed);
    std::string all;
    for (int i = 0; i < lines; ++i)
      all += chat_line(std::string(random() % 200, 'q'), std::string(random() % 200, 'a'));
    return all;
  }

  std::vector<std::int32_t> sequence(const std::string& name, std::int64_t i) const {
    const IndexedDataset data(path("out_messages_" + name));
    std::vector<std::int32_t> values(static_cast<std::size_t>(data.length(i)));
    data.tokens(i, 0, values);
    return values;
  }

  void refuses(const std::string& line, std::initializer_list<const char*> parts) {
    input("a.jsonl", chat_line("fine", "fine") + line + "\n");
    test::expect_input_error([&] { preprocess(options_); }, {"a.jsonl' line 2"});
    test::expect_input_error([&] { preprocess(options_); }, parts);
    EXPECT_TRUE(outputs().empty());
  }
};

TEST_F(ChatPreprocess, TokensAndTheirMask) {
  input("a.jsonl",
        chat_line("hi", "yo") +
            R"({"conversations": [{"from": "human", "value": "hi"}, )"
            R"({"from": "gpt", "value": "yo"}], "id": 7})"
            "\n"
            R"({"messages": [{"role": "assistant", "content": "x", "weight": 0}, )"
            R"({"role": "assistant", "content": "<|endoftext|>", "tool_calls": null}]})");
  const PreprocessStats stats = preprocess(options_);
  EXPECT_EQ(stats.documents, 3);
  EXPECT_EQ(outputs().size(), 4u);
  const std::vector<std::int32_t> tokens{'U', ':', 'h', 'i', '\n', 'A', ':', 'y', 'o', 256, '\n'};
  const std::vector<std::int32_t> mask{0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0};
  for (const std::int64_t i : {0, 1}) {
    EXPECT_EQ(sequence("document", i), tokens);
    EXPECT_EQ(sequence("mask", i), mask);
  }
  // A content that spells the end of a turn is thirteen bytes, and learned as such.
  const std::vector<std::int32_t> last = sequence("mask", 2);
  EXPECT_EQ(last.size(), 5u + 2 + 13 + 2);
  EXPECT_EQ(std::count(last.begin(), last.end(), 1), 13 + 1);
  EXPECT_EQ(stats.tokens, 11 + 11 + 22);
  EXPECT_EQ(IndexedDataset(path("out_messages_mask")).table().type(), TokenType::u8);
}

TEST_F(ChatPreprocess, BadLinesAreNamed) {
  refuses("[]", {"expected a JSON object"});
  refuses("{}", {"either 'messages' or 'conversations'"});
  refuses(R"({"messages": [], "conversations": []})", {"either 'messages' or 'conversations'"});
  refuses(R"({"messages": "hi"})", {"'messages': expected an array of messages, got string"});
  refuses(R"({"messages": [5]})", {"message 1: expected an object, got number"});
  refuses(R"({"messages": [{"role": "user", "content": "x"}, {"role": "assistant"}]})",
          {"message 2 has no 'content'"});
  refuses(R"({"messages": [{"role": "assistant", "content": null}]})",
          {"message 1, 'content': expected a string, got null"});
  refuses(R"({"messages": [{"role": "assistant", "content": "x", "tool_calls": [1]}]})",
          {"message 1 has 'tool_calls'", "leave the conversation out"});
  refuses(R"({"messages": [{"role": "assistant", "content": "x", "weight": 2}]})",
          {"message 1, 'weight': expected 0 or 1, got 2"});
  refuses(R"({"messages": [{"role": "system", "content": "x"}]})",
          {"has no role 'system', only assistant, user"});
  refuses(R"({"messages": [{"role": "user", "content": "x"}]})", {"nothing to learn"});
  input("a.jsonl", "{}\n" + chat_line("a", "b") + "[]\n");
  options_.on_error = OnError::skip;
  const PreprocessStats stats = preprocess(options_);
  EXPECT_EQ(stats.documents, 1);
  EXPECT_EQ(stats.skipped, 2);
}

TEST_F(ChatPreprocess, TheSameBytesForAnyWorkersAndAfterAStop) {
  const std::string good = many_lines(2000, 1);
  input("a.jsonl", good + "{}\n" + many_lines(10, 2));
  options_.on_error = OnError::skip;
  const auto once = outputs_of(options_, "once");
  ASSERT_EQ(once.size(), 4u);
  options_.workers = 3;
  options_.commit_bytes = 100000;
  EXPECT_EQ(outputs_of(options_, "parallel"), once);
  options_.on_error = OnError::fail;
  test::expect_input_error([&] { preprocess(options_); }, {"line 2001", "is kept in"});
  ASSERT_TRUE(fs::exists(path("out.partial/state.json")));
  options_.on_error = OnError::skip;
  // What would give other files is not taken up.
  const PreprocessOptions before = options_;
  options_.chat_template.clear();
  test::expect_input_error([&] { preprocess(options_); }, {"--json-keys was null, is [\"text\"]"});
  options_ = before;
  std::string other = kTemplate;
  other.replace(other.find("U:"), 2, "Q:");
  test::write_bytes(path("t.json"), other);
  test::expect_input_error([&] { preprocess(options_); }, {"--chat-template was", "--restart"});
  test::write_bytes(path("t.json"), kTemplate);
  preprocess(options_);
  EXPECT_EQ(outputs(), once);
}

TEST_F(ChatPreprocess, RefusedBeforeAnythingIsRead) {
  const auto refused = [&](std::initializer_list<const char*> parts) {
    test::expect_input_error([&] { preprocess(options_); }, parts);
    EXPECT_TRUE(outputs().empty());
  };
  input("a.jsonl", chat_line("a", "b"));
  options_.append_eod = true;
  refused({"--append-eod and --chat-template exclude each other"});
  options_.append_eod = false;
  options_.chat_template = "chatml";
  refused({"'chatml' needs '<|im_start|>'", "no special token of this tokenizer"});
  options_.chat_template = "no-such";
  refused({"neither a known template", "chatml"});
  options_.chat_template = path("t.json");
  add_input("b.txt", "text");
  refused({"b.txt' is one plain document", "JSON lines"});
}

}  // namespace
}  // namespace tessera
