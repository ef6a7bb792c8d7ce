// Bad input as a user meets it: one clear error, exit code 2, nothing written.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <map>
#include <set>

#include "tessera/checkpoint/format/safetensors_writer.h"
#include "tests/support/run_program.h"

namespace tessera {
namespace {

using Arguments = std::vector<std::string>;

struct Case {
  Arguments args;
  std::vector<std::string> message;  // parts that the error must hold
};

void write(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }

// Everything below a folder, files with their contents.
std::map<std::string, std::string> listing(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    files[entry.path().string()] = entry.is_regular_file() ? read_text_file(entry.path()) : "";
  return files;
}

// A folder with good and bad files of every kind.
class BadInput : public testing::Test {
 protected:
  void SetUp() override {
    write(temp_ / "good.jsonl", "{\"text\": \"hello world, hello stories, hello once more\"}\n");
    ASSERT_EQ(
        run({"preprocess", "--input", "good.jsonl", "--output-prefix", "good", "--append-eod"})
            .exit_code,
        0);
    make_bad_data();
    make_bad_models();
    make_bad_configs();
    make_bad_checkpoints();
  }

  test::ProgramResult run(const Arguments& args) {
    return test::run_program(TESSERA_PROGRAM, args, temp_.path());
  }

  void expect_refused(const Case& bad) {
    std::string line;
    for (const std::string& arg : bad.args) line += arg + " ";
    SCOPED_TRACE(line);
    const auto before = listing(temp_.path());
    const test::ProgramResult result = run(bad.args);
    EXPECT_EQ(result.exit_code, 2) << result.error;
    EXPECT_TRUE(result.out.empty()) << result.out;
    for (const std::string& part : bad.message)
      EXPECT_NE(result.error.find(part), std::string::npos)
          << "lacks '" << part << "': " << result.error;
    std::size_t errors = 0;
    for (std::size_t at = 0; (at = result.error.find("tessera: ", at)) != std::string::npos; ++at)
      ++errors;
    EXPECT_EQ(errors, 1u) << result.error;
    EXPECT_EQ(listing(temp_.path()), before) << "something was written";
  }

  void make_bad_data() {
    const std::string index = read_text_file(temp_ / "good_text_document.idx");
    const std::string tokens = read_text_file(temp_ / "good_text_document.bin");
    const auto pair = [&](const std::string& name, const std::string& idx, const std::string& bin) {
      write(temp_ / (name + ".idx"), idx);
      write(temp_ / (name + ".bin"), bin);
    };
    pair("magic", "XX" + index.substr(2), tokens);
    pair("short", index.substr(0, index.size() - 3), tokens);
    pair("empty", "", "");
    std::string version = index;
    version[9] = 9;
    pair("version", version, tokens);
    std::string dtype = index;
    dtype[17] = 77;
    pair("dtype", dtype, tokens);
    std::string count = index;
    count[25] = 0x7f;
    pair("count", count, tokens);
    pair("nobin", index, "");
    const auto changed = [&](std::size_t at, auto value) {
      std::string text = index;
      std::memcpy(text.data() + at, &value, sizeof(value));
      return text;
    };
    pair("negative", changed(34, std::int32_t{-1}), tokens);
    pair("beyond", changed(38, std::int64_t{2}), tokens);
    pair("misaligned", changed(38, std::int64_t{1}), tokens + "xx");
    pair("documents", changed(54, std::int64_t{7}), tokens);
    pair("longer", index, tokens + "xxx");
    write(temp_ / "notes.md", "# Notes\n");
    write(temp_ / "broken.jsonl", "{\"text\": \"fine\"}\n{\"text\": \"torn\n");
    write(temp_ / "nokey.jsonl", "{\"other\": \"x\"}\n");
    write(temp_ / "number.jsonl", "{\"text\": 5}\n");
    write(temp_ / "words.jsonl", "{\"text\": \"1 2 three\"}\n");
    write(temp_ / "tokens_bad.jsonl", "{\"tokens\": [1, 9999]}\n");
    write(temp_ / "tokens_short.jsonl", "{\"tokens\": [1]}\n");
    write(temp_ / "tokens_junk.jsonl", "not json\n");
  }

  void make_bad_models() {
    const auto folder = [&](const std::string& name, const std::string& config,
                            const std::string& weights) {
      fs::create_directories(temp_ / name);
      write(temp_ / name / "config.json", config);
      if (!weights.empty()) write(temp_ / name / "model.safetensors", weights);
    };
    const std::string llama =
        R"({"model_type":"llama","hidden_size":8,"intermediate_size":16,"num_hidden_layers":1,)"
        R"("num_attention_heads":2,"num_key_value_heads":1,"vocab_size":300,"max_position_embeddings":64})";
    folder("hf_junk", "this is not json", "x");
    folder("hf_family", R"({"model_type":"mamba"})", "x");
    folder("hf_noweights", llama, "");
    folder("hf_torn", llama, std::string("\x40\0\0\0\0\0\0\0{\"a\"", 12));
    folder("hf_hole", llama, std::string("\xff\xff\xff\xff\xff\xff\xff\x7f", 8));
    const float value = 1;
    fs::create_directories(temp_ / "hf_missing");
    write(temp_ / "hf_missing/config.json", llama);
    const std::vector<NamedView> one{{"model.norm.weight", ConstView(&value, DType::f32, {1})}};
    write_safetensors(temp_ / "hf_missing/model.safetensors", one);
    folder("hf_zero", R"({"model_type":"llama","hidden_size":0})", "x");
    folder("hf_negative", R"({"model_type":"llama","num_hidden_layers":-3})", "x");
  }

  void make_bad_configs() {
    write(temp_ / "unknown.yaml", "num-layer: 2\n");
    write(temp_ / "nested.yaml", "model:\n  num-layers: 2\n");
    write(temp_ / "twice.yaml", "lr: 1\nlr: 2\n");
    write(temp_ / "junk.yaml", std::string("\x01\x02\xff\xfe: [", 7));
    write(temp_ / "type.yaml", "min-lr: many\n");
    write(temp_ / "list.yaml", "- a\n- b\n");
  }

  void make_bad_checkpoints() {
    fs::create_directories(temp_ / "ck_text");
    write(temp_ / "ck_text/latest_checkpointed_iteration.txt", "release the hounds");
    fs::create_directories(temp_ / "ck_torn/iter_0000003");
    write(temp_ / "ck_torn/iter_0000003/manifest.json", "{\"iteration\": 3");
    fs::create_directories(temp_ / "ck_empty");
    fs::create_directories(temp_ / "ck_lost/iter_0000012");
    fs::create_directories(temp_ / "ck_lost/iter_0000024");
  }

  // A small run that is good as it stands; `more` makes it bad.
  static Arguments train(const Arguments& more) {
    Arguments args{"train", "--num-layers",
                   "1",     "--hidden-size",
                   "8",     "--num-attention-heads",
                   "2",     "--seq-length",
                   "8",     "--max-position-embeddings",
                   "8",     "--micro-batch-size",
                   "2",     "--train-iters",
                   "1",     "--lr",
                   "1e-3",  "--eval-iters",
                   "0"};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  static Arguments with_data(const Arguments& more) {
    Arguments args = train({"--data-path", "good_text_document", "--split", "1,0,0"});
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }

  test::TempFolder temp_;
};

TEST_F(BadInput, TheGoodRunIsGood) {
  const test::ProgramResult result = run(with_data({"--save", "out", "--save-interval", "1"}));
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_TRUE(fs::exists(temp_ / "out/iter_0000001/model-00000.safetensors"));
}

// As in Megatron; one of the ranks says so.
TEST_F(BadInput, BytesThatNoSequenceHasAreAWarning) {
  const test::ProgramResult result =
      run(train({"--data-path", "longer", "--split", "1,0,0", "--nproc", "2", "--threads", "1"}));
  EXPECT_EQ(result.exit_code, 0) << result.error;
  const std::size_t at = result.error.find("longer.idx': its sequences have");
  EXPECT_NE(at, std::string::npos) << result.error;
  EXPECT_EQ(result.error.find("longer.idx", at + 1), std::string::npos) << result.error;
}

TEST_F(BadInput, Flags) {
  const std::vector<Case> cases{
      {{"fly"}, {"unknown command", "train"}},
      {{"trian"}, {"unknown command", "train"}},
      {with_data({"--num-layer", "2"}), {"--num-layer", "--num-layers"}},
      {with_data({"--zzz"}), {"--zzz", "unknown"}},
      {with_data({"-lr", "1"}), {"'-lr'", "two dashes", "--lr"}},
      {with_data({"--load", "ck_torn", "--finetune", "--no-load-optim"}), {"--no-load-optim"}},
      {with_data({"--strict-flags", "--transformer-impl", "local"}),
       {"--transformer-impl", "without need"}},
      {{"bench"}, {"tessera bench train"}},
      {{"bench", "train", "--zzz", "1"}, {"--zzz", "--micro-batch-size"}},
      {with_data({"--swiglu", "false"}), {"'false'", "--swiglu", "leave it out"}},
      {with_data({"--strict-flags", "--use-sharp"}), {"--use-sharp", "without need"}},
      {with_data({"--strict-flags", "--num-layers", "2"}), {"--num-layers"}},
      {with_data({"--min-lr"}), {"--min-lr"}},
      {with_data({"--min-lr", "abc"}), {"--min-lr", "abc"}},
      {with_data({"--min-lr", "1"}), {"--min-lr"}},
      {with_data({"--weight-decay", "-1"}), {"--weight-decay"}},
      {with_data({"--adam-beta1", "1.5"}), {"--adam-beta1"}},
      {with_data({"--hidden-dropout", "1"}), {"--hidden-dropout"}},
      {with_data({"--lr-decay-style", "zigzag"}), {"--lr-decay-style", "zigzag", "cosine"}},
      {with_data({"--position-embedding-type", "spiral"}), {"spiral"}},
      {with_data({"--normalization", "BatchNorm"}), {"BatchNorm", "RMSNorm"}},
      {with_data({"--global-batch-size", "3"}), {"global-batch-size", "3"}},
      {with_data({"--tensor-model-parallel-size", "2"}), {"tensor-model-parallel-size"}},
      {with_data({"--pipeline-model-parallel-size", "2"}), {"pipeline-model-parallel-size"}},
      {with_data({"--nproc", "3", "--global-batch-size", "4"}), {"--global-batch-size 4"}},
      {with_data({"--freeze-parameters", "layer.*"}), {"'layer.*' fits no tensor"}},
      {with_data({"--freeze-parameters", "*"}), {"leaves nothing to train"}},
      {with_data({"--freeze-parameters", "layers.0.attention.q.weight"}),
       {"1 of the tensors layers.0.attention.q.weight, layers.0.attention.k.weight"}},
      {with_data({"--strict-flags", "--loss-scale", "8"}), {"--loss-scale", "--fp16"}},
      {with_data({"--fp16", "--min-loss-scale", "-1"}), {"--min-loss-scale"}},
      {with_data({"--params-dtype", "f8"}), {"--params-dtype", "f8", "bf16"}},
      {with_data({"--strict-flags", "--save-interval", "5"}), {"--save"}},
      {with_data({"--kv-channels", "0"}), {"--kv-channels"}},
      {with_data({"--strict-flags", "--recompute-method", "block"}), {"recompute"}},
      {with_data({"--window-size", "4"}), {"--window-size"}},
      {with_data({"--strict-flags", "--num-query-groups", "2"}), {"group-query-attention"}},
      {with_data({"--train-samples", "10"}), {"train-samples", "train-iters"}},
      {with_data({"--lr-warmup-iters", "9"}), {"warmup"}},
      {with_data({"--mock-data"}), {"--mock-data"}},
      {train({}), {"--data-path"}},
      {{"train"}, {"--num-layers"}},
      {{"generate", "--prompt", "x"}, {"--load"}},
      {{"generate", "--load", "ck_empty", "--prompt", "x"}, {"ck_empty", "no checkpoint"}},
      {{"preprocess", "--output-prefix", "p"}, {"--input"}},
      {{"evaluate", "--load", "ck_empty"}, {"no checkpoint"}},
  };
  for (const Case& bad : cases) expect_refused(bad);
}

TEST_F(BadInput, Configurations) {
  const std::vector<Case> cases{
      {with_data({"--config", "missing.yaml"}), {"missing.yaml"}},
      {with_data({"--config", "unknown.yaml"}), {"unknown.yaml", "num-layer", "num-layers"}},
      {with_data({"--config", "nested.yaml"}), {"nested.yaml"}},
      {with_data({"--config", "twice.yaml"}), {"twice.yaml", "lr"}},
      {with_data({"--config", "junk.yaml"}), {"junk.yaml"}},
      {with_data({"--config", "type.yaml"}), {"type.yaml", "min-lr", "many"}},
      {with_data({"--config", "list.yaml"}), {"list.yaml"}},
      {with_data({"--config", "."}), {"."}},
  };
  for (const Case& bad : cases) expect_refused(bad);
}

TEST_F(BadInput, DataFiles) {
  std::vector<Case> cases{
      {train({"--data-path", "nowhere"}), {"nowhere.idx", "tessera preprocess"}},
      {train({"--data-path", "good_text_document.bin"}), {"prefix"}},
      {{"preprocess", "--input", "absent.jsonl", "--output-prefix", "p"}, {"absent.jsonl"}},
      {{"preprocess", "--input", "notes.md", "--output-prefix", "p"}, {"notes.md", ".txt"}},
      {{"preprocess", "--input", "broken.jsonl", "--output-prefix", "p"}, {"broken.jsonl", "2"}},
      {{"preprocess", "--input", "nokey.jsonl", "--output-prefix", "p"}, {"nokey.jsonl", "text"}},
      {{"preprocess", "--input", "number.jsonl", "--output-prefix", "p"}, {"number.jsonl", "text"}},
      {{"preprocess", "--input", "words.jsonl", "--output-prefix", "p", "--tokenizer-type",
        "NullTokenizer", "--vocab-size", "10"},
       {"words.jsonl", "three"}},
      {{"preprocess", "--input", "good.jsonl", "--output-prefix", "no/such/folder/p"},
       {"no/such/folder"}},
      {train({"--data-path", "good_text_document", "--split", "0,0,0"}), {"split"}},
      {train({"--data-path", "good_text_document", "--split", "a,b"}), {"split"}},
      {train({"--data-path", "good_text_document", "--tokenizer-type", "NullTokenizer",
              "--vocab-size", "20"}),
       {"token", "good_text_document"}},
  };
  for (const char* name : {"magic", "short", "empty", "version", "dtype", "count", "nobin",
                           "negative", "beyond", "misaligned", "documents"})
    cases.push_back({train({"--data-path", name, "--split", "1,0,0"}), {name}});
  for (const Case& bad : cases) expect_refused(bad);
}

TEST_F(BadInput, WeightsAndCheckpoints) {
  const auto load_hf = [](const std::string& folder) {
    return Arguments{"generate", "--load-hf", folder, "--prompt", "x", "--max-new-tokens", "2"};
  };
  std::vector<Case> cases{
      {load_hf("absent"), {"absent"}},
      {load_hf("hf_junk"), {"config.json"}},
      {load_hf("hf_family"), {"mamba", "llama"}},
      {load_hf("hf_noweights"), {"hf_noweights", "safetensors"}},
      {load_hf("hf_torn"), {"model.safetensors"}},
      {load_hf("hf_hole"), {"model.safetensors"}},
      {load_hf("hf_missing"), {"model.safetensors", "model."}},
      {load_hf("hf_zero"), {"hidden_size"}},
      {load_hf("hf_negative"), {"num_hidden_layers", "-3"}},
      {with_data({"--load", "ck_torn"}), {"manifest.json", "cut short"}},
      {with_data({"--load", "ck_torn", "--ckpt-step", "3"}), {"manifest.json", "cut short"}},
      {with_data({"--load", "ck_torn", "--ckpt-step", "7"}), {"iteration 7", "it has 3"}},
      {with_data({"--load", "ck_torn/iter_0000003"}), {"one checkpoint", "lies in"}},
      {with_data({"--load", "ck_lost"}), {"none of its 2 checkpoints", "manifest.json"}},
      {with_data({"--save", "ck_lost", "--save-interval", "1"}), {"another run", "--load"}},
      {load_hf("ck_torn"), {"--load"}},
      {with_data({"--load", "ck_empty", "--exit-on-missing-checkpoint"}), {"ck_empty"}},
      {with_data({"--load", "ck_empty", "--finetune"}), {"ck_empty", "--finetune"}},
      {{"generate", "--load", "ck_torn", "--prompt", "x"}, {"manifest.json"}},
      {with_data({"--dump-step", "ck_text", "--attention-dropout", "0", "--hidden-dropout", "0"}),
       {"--dump-step", "not empty"}},
      {with_data({"--dump-step", "new"}), {"--dump-step", "dropout"}},
      {with_data(
           {"--dump-step", "good.jsonl", "--attention-dropout", "0", "--hidden-dropout", "0"}),
       {"--dump-step", "good.jsonl", "not one"}},
      {with_data(
           {"--dump-step", "good.jsonl/x", "--attention-dropout", "0", "--hidden-dropout", "0"}),
       {"--dump-step", "good.jsonl", "not one"}},
      {with_data({"--save", "good.jsonl", "--save-interval", "1"}), {"--save", "not one"}},
      {with_data({"--save", "good.jsonl/x", "--save-interval", "1"}), {"--save", "not one"}},
      {with_data({"--save", std::string(300, 'x'), "--save-interval", "1"}), {"--save", "xxx"}},
      {with_data({"--save", "new", "--save-interval", "1", "--metrics-file", "good.jsonl"}),
       {"--metrics-file", "something else than metrics"}},
      {with_data({"--metrics-file", "good.jsonl/m.jsonl"}), {"--metrics-file", "not one"}},
      {with_data({"--load", "good.jsonl"}), {"--load", "not a folder"}},
  };
  for (const char* name : {"tokens_bad", "tokens_short", "tokens_junk", "tokens_absent"})
    cases.push_back(
        {{"evaluate", "--load", "model", "--tokens", std::string(name) + ".jsonl"}, {name}});
  // A good checkpoint for the token files above.
  ASSERT_EQ(run(with_data({"--save", "model", "--save-interval", "1"})).exit_code, 0);
  for (const Case& bad : cases) expect_refused(bad);

  expect_refused(
      {{"generate", "--load", "model", "--prompt", "a long prompt", "--max-new-tokens", "99"},
       {"--max-new-tokens 99", "8 positions"}});
  expect_refused({{"generate", "--load", "model", "--prompt", "a long prompt"},
                  {"prompt of 13 tokens", "8 positions"}});

  // Damaged weights: torn, and of another shape.
  const fs::path weights = temp_ / "model/iter_0000001/model-00000.safetensors";
  expect_refused({with_data({"--load", "model", "--add-qkv-bias", "--disable-bias-linear"}),
                  {"differs", "disable-bias-linear", "--finetune"}});
  expect_refused(
      {with_data({"--load", "model", "--finetune", "--add-qkv-bias", "--disable-bias-linear"}),
       {"holds", "tensors of weights"}});
  fs::resize_file(weights, fs::file_size(weights) - 5);
  expect_refused({with_data({"--load", "model"}), {"model-00000.safetensors", "damaged"}});
}

}  // namespace
}  // namespace tessera
