// BERT's vocab.txt. That tokens equal the original's is in golden_test.cpp.
#include "tessera/tokenizer/hf/bert_files.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"

namespace tessera {
namespace {

using Tokens = std::vector<std::int32_t>;

constexpr const char* kVocabulary =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nhello\nHello\n##s\n!\nworld\n";

TEST(BertFiles, TextStandsBetweenClsAndSepUnlessLeftOut) {
  const auto around = parse_bert_tokenizer(kVocabulary, "v", {});
  EXPECT_EQ(around->encode("H\u00E9llos, world!"), (Tokens{2, 5, 7, 1, 9, 8, 3}));
  const auto plain = parse_bert_tokenizer(kVocabulary, "v", {true, false});
  EXPECT_EQ(plain->encode("hello [SEP] HELLO"), (Tokens{5, 3, 5}));
  EXPECT_EQ(plain->decode(Tokens{5, 7, 8}), "hellos!");
}

TEST(BertFiles, SepEndsADocumentAndTheCasedOneHasExtraTokens) {
  const auto lower = parse_bert_tokenizer(kVocabulary, "v", {true, false});
  EXPECT_EQ(lower->eod(), 3);
  EXPECT_EQ(lower->vocab_size(), 10);
  const auto cased = parse_bert_tokenizer(kVocabulary, "v", {false, false});
  EXPECT_EQ(cased->eod(), 3);
  EXPECT_EQ(cased->vocab_size(), 110);
  EXPECT_EQ(cased->encode("Hello hello <extra_id_99>"), (Tokens{6, 5, 109}));
}

TEST(BertFiles, LinesMayEndAsOnWindows) {
  const auto tokenizer = parse_bert_tokenizer("[UNK]\r\n[CLS]\r\n[SEP] \r\n\r\na", "v", {});
  EXPECT_EQ(tokenizer->encode("a"), (Tokens{1, 4, 2}));
  EXPECT_EQ(tokenizer->vocab_size(), 5) << "an empty line has a number, too";
}

TEST(BertFiles, RefusesWhatIsNoVocabulary) {
  const auto refused = [](const char* text, std::initializer_list<const char*> parts) {
    test::expect_input_error([&] { parse_bert_tokenizer(text, "v.txt", {}); }, parts);
  };
  refused("", {"'v.txt' has no token [UNK]"});
  refused("[UNK]\n[SEP]\n", {"'v.txt' has no token [CLS]"});
  refused("[UNK]\n[CLS]\n[SEP]\na\nb\na\n", {"v.txt:6:", "'a' is there twice, first in line 4"});
  refused("[UNK]\n[CLS]\n[SEP]\n\xFF\n", {"'v.txt' is no UTF-8"});
  test::expect_input_error([] { read_bert_tokenizer("/no/vocab.txt", {}); }, {"/no/vocab.txt"});
}

}  // namespace
}  // namespace tessera
