#include "tessera/data/indexed/merge_data.h"

#include "tessera/base/folder_lock.h"
#include "tessera/data/indexed/indexed_dataset_writer.h"
#include "tests/data/index_bytes.h"
#include "tests/data/preprocess_case.h"

namespace tessera {
namespace {

class MergeData : public test::PreprocessCase {
 protected:
  // A pair of made-up documents, with the two files' bytes.
  std::string pair(const std::string& name, int documents, unsigned seed,
                   TokenType type = TokenType::u16) {
    std::mt19937 random(seed);
    IndexedDatasetWriter writer(path(name), type);
    for (int d = 0; d < documents; ++d) {
      for (unsigned s = random() % 4; s > 0; --s) {
        std::vector<std::int32_t> tokens(1 + random() % 50);
        for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(random() % 60000);
        writer.add_sequence(tokens);
      }
      writer.end_document();
    }
    writer.finish();
    return path(name);
  }
};

TEST_F(MergeData, JoinsAsMegatronDoes) {
  using Ids = std::vector<std::int32_t>;
  for (const char* name : {"a", "b"}) {
    IndexedDatasetWriter writer(path(name), TokenType::u16);
    writer.add_document(Ids{1, 2, 3});
    writer.add_document(Ids{});
    writer.add_sequence(Ids{4});
    writer.add_sequence(Ids{5, 6});
    writer.end_document();
    writer.finish();
  }
  const DataCounts counts = merge_data({path("a"), path("b.idx")}, path("out"), false);
  EXPECT_EQ(counts.documents, 6);
  EXPECT_EQ(counts.sequences, 6);
  EXPECT_EQ(counts.tokens, 12);
  const auto files = outputs();
  const std::string bin = read_text_file(path("a.bin"));
  EXPECT_EQ(files.at(".bin"), bin + bin);
  const auto idx =
      test::index_bytes(8, {3, 1, 2, 3, 1, 2}, {0, 6, 8, 12, 18, 20}, {0, 1, 1, 3, 4, 4, 6});
  EXPECT_EQ(files.at(".idx"), std::string(reinterpret_cast<const char*>(idx.data()), idx.size()));
  EXPECT_EQ(files.size(), 2u);
}

TEST_F(MergeData, SplitAndMergedAgainThePairHasItsBytes) {
  for (const TokenType type : {TokenType::u16, TokenType::i32}) {
    const std::string whole = pair("whole", 103, 3, type);
    for (const std::int64_t partitions : {1, 2, 7, 11, 103}) {
      const auto parts = split_data(whole, partitions, path("part"), true);
      ASSERT_EQ(parts.size(), static_cast<std::size_t>(partitions));
      EXPECT_TRUE(std::is_sorted(parts.begin(), parts.end()));
      std::int64_t most = 0, fewest = 103;
      for (const std::string& part : parts) {
        const std::int64_t documents = IndexedDataset(part).table().documents();
        most = std::max(most, documents);
        fewest = std::min(fewest, documents);
      }
      EXPECT_LE(most - fewest, 1);
      merge_data(parts, path("merged"), true);
      EXPECT_EQ(outputs("merged"), outputs("whole")) << partitions;
      for (const std::string& part : parts) {
        fs::remove(part + ".bin");
        fs::remove(part + ".idx");
      }
    }
  }
}

TEST_F(MergeData, MergingPartsOfATextIsPreprocessingAllOfIt) {
  const std::string a = test::made_up_lines(300, 1), b = test::made_up_lines(200, 2);
  input("a.jsonl", a);
  outputs_of(options_, "a");
  input("b.jsonl", b);
  outputs_of(options_, "b");
  input("ab.jsonl", a + b);
  const auto all = outputs_of(options_, "all");
  merge_data({path("a_text_document"), path("b_text_document")}, path("m_text_document"), false);
  EXPECT_EQ(outputs("m"), all);
}

TEST_F(MergeData, RefusesWhatCannotBe) {
  const std::string a = pair("a", 5, 1), b = pair("b", 5, 2, TokenType::i32);
  const auto refused = [](auto call, std::initializer_list<const char*> parts) {
    test::expect_input_error(call, parts);
  };
  const std::string out = path("out");
  refused([&] { merge_data({}, out, false); }, {"--input"});
  refused([&] { merge_data({a, b}, out, false); }, {"b' holds tokens of type i32", "u16"});
  refused([&] { merge_data({a, path("none")}, out, false); }, {"none.idx"});
  refused([&] { merge_data({a, b}, a, true); }, {"is an input, too"});
  refused([&] { merge_data({a}, b, false); }, {"b.bin' is there already", "--overwrite"});
  refused([&] { merge_data({a}, path("none/out"), false); }, {"none", "does not exist"});
  split_data(a, 3, path("s"), false);
  refused([&] { split_data(a, 2, path("s"), true); }, {"s_2.idx' is there from another split"});
  for (int i = 0; i < 3; ++i)
    for (const char* ending : {".bin", ".idx"}) fs::remove(path("s_" + std::to_string(i)) + ending);
  // What says what a pair holds stays at the end.
  const auto parts = split_data(a, 2, path("t_document"), false);
  EXPECT_EQ(parts, (std::vector<std::string>{path("t_0_document"), path("t_1_document")}));
  EXPECT_EQ(split_data(a, 2, path("t_mask"), false).back(), path("t_1_mask"));
  refused([&] { split_data(a, 1, path("t_document"), true); },
          {"t_1_document.idx' is there from another split"});
  refused([&] { split_data(a, 6, out, false); }, {"--partitions 6", "5 documents"});
  refused([&] { split_data(a, 0, out, false); }, {"--partitions", "0"});
  refused([&] { split_data(path("none"), 2, out, false); }, {"none.idx"});
  {
    fs::create_directory(out + ".partial");
    const FolderLock other(out + ".partial");
    refused([&] { merge_data({a}, out, false); }, {"out.partial"});
    refused([&] { split_data(a, 2, out, false); }, {"out.partial"});
  }
  fs::remove_all(out + ".partial");
  fs::resize_file(a + ".bin", 1);
  refused([&] { merge_data({b, a}, out, true); }, {"a.idx"});
  EXPECT_TRUE(outputs().empty());
}

}  // namespace
}  // namespace tessera
