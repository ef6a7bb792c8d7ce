// Tokenize and train-tokenizer as a user runs them, and a model with a tokenizer of its own.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <fstream>

#include "tessera/base/json.h"
#include "tests/support/run_program.h"

namespace tessera {
namespace {

constexpr const char* kMine = " --tokenizer-type HuggingFaceTokenizer --tokenizer-model t.json ";

class TokenizerProgram : public testing::Test {
 protected:
  TokenizerProgram() {
    std::string text;
    for (int i = 0; i < 60; ++i) text += "the quick brown fox jumps over the lazy dog\n";
    write("text.txt", text);
    write("short.txt", "the fox, naïve\n");
  }
  void write(const char* name, const std::string& text) { std::ofstream(temp_ / name) << text; }
  test::ProgramResult run(const std::string& line) {
    return test::run_line(TESSERA_PROGRAM, line, temp_.path());
  }
  std::string good(const std::string& line) {
    const test::ProgramResult result = run(line);
    EXPECT_EQ(result.exit_code, 0) << line << "\n" << result.error;
    return result.out;
  }
  void expect_refused(const std::string& line, std::initializer_list<const char*> parts) {
    const test::ProgramResult result = run(line);
    EXPECT_EQ(result.exit_code, 2) << line << "\n" << result.out << result.error;
    for (const char* part : parts)
      EXPECT_NE(result.error.find(part), std::string::npos) << part << "\n" << result.error;
  }
  // What nobody can open, whatever their rights.
  void make_socket() {
    sockaddr_un address{AF_UNIX, {}};
    const std::string name = (temp_ / "socket").string();
    ASSERT_LT(name.size(), sizeof(address.sun_path));
    name.copy(address.sun_path, name.size());
    const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
    EXPECT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    ::close(fd);
  }
  void train_tokenizer() {
    EXPECT_EQ(good("train-tokenizer --input text.txt --vocab-size 285 --output t.json"),
              "'t.json': 285 tokens from 2640 bytes of text (10 different pre-tokens)\n");
  }

  test::TempFolder temp_;
};

TEST_F(TokenizerProgram, TextComesBack) {
  train_tokenizer();
  const std::string tokens = good(std::string("tokenize --input short.txt") + kMine);
  write("tokens.txt", tokens);
  EXPECT_EQ(good(std::string("tokenize --decode --input tokens.txt") + kMine), "the fox, naïve\n");
  EXPECT_EQ(good(std::string("tokenize --input short.txt --output ids.txt") + kMine), "");
  EXPECT_EQ(read_text_file(temp_ / "ids.txt"), tokens);
  expect_refused(std::string("tokenize --input short.txt --output ids.txt") + kMine,
                 {"'ids.txt' is there already", "--overwrite"});
  write("bad.txt", "1 99999");
  expect_refused(std::string("tokenize --decode --input bad.txt --output new.txt") + kMine,
                 {"bad.txt: token 99999"});
  EXPECT_FALSE(fs::exists(temp_ / "new.txt"));

  const std::string pieces = good(std::string("tokenize --show-pieces --input short.txt") + kMine);
  EXPECT_NE(pieces.find("\t\"the\"\n"), std::string::npos) << pieces;
  EXPECT_NE(pieces.find("\t\" fox\"\n"), std::string::npos) << pieces;
  EXPECT_EQ(good(std::string("tokenize --decode --show-pieces --input tokens.txt") + kMine),
            pieces);
}

TEST_F(TokenizerProgram, LinesOfJson) {
  train_tokenizer();
  write("lines.jsonl", "\"the fox\"\n\"\"\n\"<|endoftext|> \\u00e9\"\n");
  const std::string lists =
      good(std::string("tokenize --format jsonl --input lines.jsonl") + kMine);
  EXPECT_EQ(std::count(lists.begin(), lists.end(), '\n'), 3);
  EXPECT_NE(lists.find("]\n[]\n[0,"), std::string::npos) << lists;
  write("lists.jsonl", lists);
  EXPECT_EQ(good(std::string("tokenize --decode --format jsonl --input lists.jsonl") + kMine),
            "\"the fox\"\n\"\"\n\"<|endoftext|> é\"\n");
}

TEST_F(TokenizerProgram, BertsVocabularyByMegatronsNames) {
  write("vocab.txt", "[UNK]\n[CLS]\n[SEP]\nthe\nfox\n,\nnaive\nThe\n");
  const auto tokens = [&](const std::string& flags) {
    return good("tokenize --input short.txt --vocab-file vocab.txt --tokenizer-type " + flags);
  };
  EXPECT_EQ(tokens("BertWordPieceLowerCase"), "1 3 4 5 6 2\n");
  EXPECT_EQ(tokens("BertWordPieceLowerCase --tokenizer-hf-no-include-special-tokens"), "3 4 5 6\n");
  EXPECT_EQ(tokens("BertWordPieceCase"), "1 3 4 5 0 2\n");
}

TEST_F(TokenizerProgram, TokenizeRefusesWhatItCannotRead) {
  train_tokenizer();
  const auto tokenize = [&](const std::string& flags) { return "tokenize " + flags + kMine; };
  write("bad.jsonl", "\"a\"\n[1]\n");
  expect_refused(tokenize("--format jsonl --input bad.jsonl"), {"bad.jsonl:2", "double quotes"});
  write("broken.jsonl", "\"a\n");
  expect_refused(tokenize("--format jsonl --input broken.jsonl"), {"broken.jsonl:1"});
  write("words.txt", "5 six 7");
  expect_refused(tokenize("--decode --input words.txt"), {"words.txt", "'six' at byte 2"});
  write("large.txt", "5 285");
  expect_refused(tokenize("--decode --input large.txt"), {"token 285", "position 1"});
  expect_refused(tokenize("--input nowhere.txt"), {"there is no file 'nowhere.txt'"});
  expect_refused(tokenize("--input " + std::string(300, 'x')), {"xxx", "File name too long"});
  make_socket();
  expect_refused(tokenize("--input socket"),
                 {"'socket' cannot be read: No such device or address"});
  expect_refused(tokenize("--input ."), {"is a folder"});
  expect_refused(tokenize("--input short.txt --output no/ids.txt"),
                 {"the folder 'no' of --output does not exist"});
  fs::create_directory(temp_ / "ids.txt.tmp");
  expect_refused(tokenize("--input short.txt --output ids.txt"),
                 {"'ids.txt.tmp' cannot be written: Is a directory"});
  expect_refused(tokenize("--input short.txt --output short.txt"), {"is an input, too"});
  expect_refused(
      "tokenize --input short.txt --tokenizer-type HuggingFaceTokenizer --tokenizer-model no.json",
      {"no.json"});
}

TEST_F(TokenizerProgram, TrainTokenizerRefusesBeforeItReads) {
  train_tokenizer();
  const std::string file = read_text_file(temp_ / "t.json");
  const std::string train = "train-tokenizer --input text.txt --vocab-size ";
  expect_refused(train + "285 --output t.json", {"'t.json' is there already", "--overwrite"});
  expect_refused(train + "256 --output new.json", {"--vocab-size 256 is too small"});
  expect_refused(train + "285 --output no/new.json", {"the folder 'no' of --output"});
  expect_refused(train + "285 --output new.json --special-tokens END", {"'END'", "<|END|>"});
  expect_refused("train-tokenizer --input no.txt --vocab-size 285 --output new.json", {"no.txt"});
  EXPECT_EQ(read_text_file(temp_ / "t.json"), file);
  EXPECT_FALSE(fs::exists(temp_ / "new.json"));
  good(train + "280 --output t.json --overwrite");
  EXPECT_NE(read_text_file(temp_ / "t.json"), file);
}

TEST_F(TokenizerProgram, FromTextToAModel) {
  train_tokenizer();
  const std::string made =
      good(std::string("preprocess --input text.txt --output-prefix data --append-eod") + kMine);
  EXPECT_EQ(made.rfind("1 documents, ", 0), 0u) << made;
  const std::string train =
      "train --data-path data_text_document --split 1,0,0 --num-layers 1 --hidden-size 32 "
      "--num-attention-heads 2 --seq-length 16 --micro-batch-size 4 --global-batch-size 8 --lr "
      "2e-2 "
      "--eval-iters 0 --threads 1 --save run --save-interval 30 ";
  good(train + "--train-iters 20 --lr-decay-iters 30" + kMine);
  // The run goes on with the same tokenizer wherever it lies, and with no other.
  const std::string on = train + "--load run --train-iters 30 --lr-decay-iters 30 ";
  fs::rename(temp_ / "t.json", temp_ / "moved.json");
  write("other.txt", "pack my box with five dozen liquor jugs, quick brown foxes\n");
  good("train-tokenizer --input other.txt --vocab-size 285 --output t.json");
  expect_refused(on + kMine, {"'t.json' is not the tokenizer", "--finetune"});
  fs::rename(temp_ / "moved.json", temp_ / "t.json");
  fs::create_directory(temp_ / "there");
  fs::copy(temp_ / "t.json", temp_ / "there");
  good(on + "--tokenizer-type HuggingFaceTokenizer --tokenizer-model there/t.json");
  fs::remove_all(temp_ / "there");
  // From here on there is only the copy that the checkpoint carries.
  const std::string tokenizer = read_text_file(temp_ / "t.json");
  fs::remove(temp_ / "t.json");
  const std::string ask = " --prompt the --max-new-tokens 6 --greedy";
  const std::string text = good("generate --load run" + ask);
  EXPECT_EQ(text.rfind("the quick brown fox", 0), 0u) << text;
  const std::string loss =
      good("evaluate --load run --data-path data_text_document --eval-iters 2");
  EXPECT_LT(parse_json(loss, "loss")["loss"], 1.0) << loss;

  good("convert --load run --to-hf hf");
  fs::remove_all(temp_ / "run");
  ASSERT_TRUE(fs::exists(temp_ / "hf" / "tokenizer.json"));
  EXPECT_EQ(read_text_file(temp_ / "hf" / "tokenizer.json"), tokenizer);
  EXPECT_EQ(good("generate --load-hf hf" + ask), text);
  good("convert --from-hf hf --save back");
  fs::remove_all(temp_ / "hf");
  EXPECT_EQ(good("generate --load back" + ask), text);
  EXPECT_EQ(
      good("evaluate --load back --data-path data_text_document --eval-iters 2 --seq-length 16"),
      loss);
}

}  // namespace
}  // namespace tessera
