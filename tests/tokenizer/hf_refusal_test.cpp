// What a tokenizer.json or a .model may not say: each refusal names the file and the place.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/base/json.h"
#include "tessera/tokenizer/hf/hf_tokenizer.h"
#include "tessera/tokenizer/sentencepiece/sentencepiece_tokenizer.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace tessera {
namespace {

const char* const kSmall = R"({"version": "1.0", "truncation": null, "padding": null,
  "added_tokens": [{"id": 3, "content": "<x>", "single_word": false, "lstrip": false,
                    "rstrip": false, "normalized": false, "special": true}],
  "normalizer": null, "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": null,
  "decoder": null, "model": {"type": "BPE", "dropout": null, "unk_token": null,
  "fuse_unk": false, "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}})";

std::string refusal(const std::string& text) {
  try {
    HfTokenizer(text, "t.json");
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

struct Change {
  std::string path;   // a JSON pointer
  std::string value;  // "" takes the member away
  std::string words;  // of the refusal, at least
};

TEST(HfRefusal, TheSmallOneIsGood) {
  const HfTokenizer tokenizer(kSmall, "t.json");
  EXPECT_EQ(tokenizer.encode("ab a<x>b"), (std::vector<std::int32_t>{2, 0, 3, 1}));
  EXPECT_EQ(tokenizer.vocab_size(), 4);
  test::expect_input_error([&] { (void)tokenizer.eod(); },
                           {"</s>, <eos>, <｜end▁of▁sentence｜> is in", "--append-eod (preprocess)",
                            "--reset-position-ids (train)"});
  HfOptions named;
  named.eos_token = "<x>";
  EXPECT_EQ(HfTokenizer(kSmall, "t.json", named).eod(), 3);
}

TEST(HfRefusal, EveryPlaceIsNamed) {
  const std::vector<Change> changes = {
      {"/model", "", "t.json: $: 'model' is missing"},
      {"/model", "3", "$.model: an object was expected"},
      {"/version", "\"2.0\"", "$.version"},
      {"/surprise", "1", "'surprise' is not known"},
      {"/model/type", "\"WordLevel\"", "$.model: the model 'WordLevel' is not supported"},
      {"/model/surprise", "1", "$.model: 'surprise'"},
      {"/model/vocab", "", "$.model: 'vocab' is missing"},
      {"/model/vocab", "[]", "$.model.vocab"},
      {"/model/vocab/a", "-1", "$.model.vocab: the number of 'a' is -1"},
      {"/model/vocab/a", "1", "$.model.vocab: the number 1 belongs to"},
      {"/model/vocab/a", "1.5", "$.model.vocab: the number of 'a' is 1.5"},
      {"/model/vocab/a", "4000000000", "$.model.vocab: the number of 'a'"},
      {"/model/vocab/a", "99999999999999999999999", "$.model.vocab: the number of 'a'"},
      {"/model/vocab/a", "\"0\"", "$.model.vocab: the number of 'a'"},
      {"/model/merges", "", "$.model: 'merges' is missing"},
      {"/model/merges/0", "\"ab\"", "$.model.merges[0]: two tokens"},
      {"/model/merges/0", "\"a b c\"", "$.model.merges[0]: two tokens"},
      {"/model/merges/0", "[\"a\"]", "$.model.merges[0]: two tokens"},
      {"/model/merges/0", "\"a c\"", "$.model"},
      {"/model/dropout", "0.1", "$.model.dropout"},
      {"/model/unk_token", "\"<unk>\"", "$.model.unk_token: '<unk>' is not in the vocabulary"},
      {"/added_tokens/0/id", "7", "$.added_tokens[0].id: '<x>' says 7"},
      {"/added_tokens/0/id", "-7", "$.added_tokens[0].id: -7 is not within"},
      {"/added_tokens/0/content", "\"\"", "$.added_tokens[0]: an added token has no text"},
      {"/added_tokens/0/lstrip", "", "$.added_tokens[0]: 'lstrip' is missing"},
      {"/added_tokens/0/lstrip", "1", "$.added_tokens[0].lstrip: true or false"},
      {"/normalizer", R"({"type": "Sequence", "normalizers": [{"type": "X"}]})",
       "$.normalizer.normalizers[0]: the normalizer 'X' is not supported"},
      {"/normalizer", R"({"type": "Precompiled", "precompiled_charsmap": "?"})",
       "$.normalizer.precompiled_charsmap"},
      {"/normalizer", R"({"type": "Replace", "pattern": {"Regex": "("}, "content": ""})",
       "$.normalizer.pattern.Regex"},
      {"/pre_tokenizer/type", "\"X\"", "$.pre_tokenizer: the pre-tokenizer 'X' is not supported"},
      {"/pre_tokenizer/type", "\"Split\"", "$.pre_tokenizer: 'pattern' is missing"},
      {"/decoder", R"({"type": "CTC"})", "$.decoder: the decoder 'CTC' is not supported"},
      {"/post_processor", R"({"type": "X"})", "$.post_processor"},
      {"/post_processor", R"({"type": "BertProcessing", "sep": ["a", 9], "cls": ["a", 0]})",
       "$.post_processor.sep[1]: 9 is not within"},
  };
  for (const Change& change : changes) {
    Json document = parse_json(kSmall, "small");
    const Json::json_pointer place(change.path);
    if (change.value.empty())
      document[place.parent_pointer()].erase(place.back());
    else
      document[place] = Json::parse(change.value);
    const std::string text = refusal(document.dump());
    EXPECT_NE(text.find(change.words), std::string::npos)
        << change.path << " = " << change.value << "\n  " << text;
    EXPECT_EQ(text.rfind("t.json: $", 0), 0u) << text;
  }
  EXPECT_NE(refusal(R"({"model": 1, "model": 2})").find("occurs twice"), std::string::npos);
}

TEST(HfRefusal, FilesOfOtherTokenizersAreRecognised) {
  const test::TempFolder folder;
  const auto refuse = [&](const std::string& text, std::initializer_list<const char*> parts) {
    write_file_atomically(folder / "file", text);
    test::expect_input_error([&] { read_hf_tokenizer(folder / "file"); }, parts);
  };
  refuse(std::string("\n\x0e\n\x05<unk>\x15\0\0\0\0\x18\x02", 16),
         {"file' is no tokenizer.json", "SentencePieceTokenizer", "Llama2Tokenizer"});
  refuse("IQ== 0\nIg== 1\n", {"file' is no tokenizer.json", "TikTokenizer"});
  refuse("", {"file' is no tokenizer.json"});
  refuse(R"({"!": 0, "\"": 1, "<|endoftext|>": 2})",
         {"file: $: this is a vocabulary alone", "GPT2BPETokenizer", "--merge-file"});
  write_file_atomically(folder / "file", std::string("\xEF\xBB\xBF \n") + kSmall);
  EXPECT_EQ(read_hf_tokenizer(folder / "file")->vocab_size(), 4);
}

// A message of protocol buffers, by hand.
std::string field(int number, const std::string& bytes) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} + bytes;
}
std::string piece(const std::string& text, int type) {
  return field(1, field(1, text) + std::string{3 << 3, static_cast<char>(type)});
}
std::string refused_model(const std::string& bytes) {
  try {
    parse_sentencepiece(bytes, "m.model");
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(SentencePieceRefusal, EveryKind) {
  const std::string good = piece("<unk>", 2) + piece("a", 1);
  EXPECT_EQ(refused_model(good), "accepted");
  test::expect_input_error(
      [&] { (void)SentencePieceTokenizer(parse_sentencepiece(good, "m"), "m").eod(); },
      {"no control piece", "--append-eod (preprocess)"});
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "no pieces"},
      {good.substr(0, good.size() - 1), "m.model: field 1 at byte"},
      {std::string("\x0A\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 11), "a number of more than 10"},
      {"\x0B", "wire type 3"},
      {good + piece("a", 1), "pieces 1 and 2 are both 'a'"},
      {good + piece("b", 9), "piece 2 has type 9"},
      {good + piece("", 1), "piece 2 has 0 bytes"},
      {good + piece("c", 2), "both the unknown piece"},
      {piece("a", 1), "no piece is of the type 'unknown'"},
      {piece("<unk>", 2), "no piece that text can be made of"},
      {good + field(2, "\x18\x04"), "model type 4 (char) is not supported"},
      {good + field(2, "\x98\x02\x01"), "with byte_fallback true there should be 256"},
      {good + piece("<0x41>", 6), "with byte_fallback false there should be 0"},
  };
  for (const auto& [bytes, words] : cases)
    EXPECT_NE(refused_model(bytes).find(words), std::string::npos)
        << words << "\n  " << refused_model(bytes);
  const std::string broken = good + field(3, field(2, std::string("\xFF\xFF\0\0xyz", 7)));
  EXPECT_THROW(SentencePieceTokenizer(parse_sentencepiece(broken, "m"), "m"), InputError);
}

}  // namespace
}  // namespace tessera
