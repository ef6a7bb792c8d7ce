// Files of conversations with their masks, and what the samples of them hold.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tessera/data/build_datasets.h"
#include "tessera/data/indexed/indexed_dataset_writer.h"
#include "tests/support/temp_folder.h"

namespace tessera::test {

/// A folder with conversations. Conversation d has tokens 100 d, 100 d + 1, ...
class ChatSamples : public testing::Test {
 protected:
  using Tokens = std::vector<std::int32_t>;
  static constexpr std::size_t kLength = 24;

  ChatSamples() {
    options_.seq_length = kLength;
    options_.sft = true;
    options_.split = "1,0,0";
    options_.data_path = {prefix("a")};
    options_.tokenizer.kind = TokenizerKind::null;
    options_.tokenizer.vocab_size = 60000;
    tokenizer_ = make_tokenizer(options_.tokenizer);
    write("a", 50);
  }

  std::string prefix(const std::string& name) const {
    return (folder_ / (name + "_document")).string();
  }

  /// Conversations from number `first` on, as long as their masks.
  void write_masks(const std::string& name, const std::vector<Tokens>& masks,
                   std::int32_t first) const {
    IndexedDatasetWriter tokens(prefix(name), TokenType::u16);
    IndexedDatasetWriter mask((folder_ / (name + "_mask")).string(), TokenType::u16);
    for (const Tokens& learned : masks) {
      Tokens each(learned.size());
      std::iota(each.begin(), each.end(), 100 * first++);
      tokens.add_document(each);
      mask.add_document(learned);
    }
    tokens.finish();
    mask.finish();
  }

  /// Of each, the tokens from the fourth on are learned.
  void write(const std::string& name, std::int32_t count, std::int32_t first = 0) const {
    std::vector<Tokens> masks;
    for (std::int32_t d = 0; d < count; ++d) {
      masks.emplace_back(static_cast<std::size_t>(4 + d * 7 % 20), 1);
      std::fill_n(masks.back().begin(), 3, 0);
    }
    write_masks(name, masks, first);
  }

  std::shared_ptr<const Dataset> build(std::optional<std::int64_t> samples) const {
    return DatasetBuilder(options_, *tokenizer_).build(Split::train, samples).front().dataset;
  }

  struct Sample {
    Tokens tokens = Tokens(kLength), labels = tokens, positions = tokens, documents = tokens;
    std::vector<float> mask = std::vector<float>(kLength);
    bool operator==(const Sample&) const = default;
  };

  static Sample sample(const Dataset& data, std::int64_t i) {
    Sample got;
    data.get(i, {got.tokens, got.labels, got.mask, got.positions, got.documents});
    return got;
  }

  /// Checks a sample token by token and adds the conversations that it holds.
  static void take(const Sample& got, std::multiset<std::int32_t>& seen) {
    std::size_t next = 0, begin = 0;
    for (std::size_t t = 0; t < kLength; ++t) {
      const auto at = static_cast<std::int32_t>(t);
      if (next < kLength && got.documents[next] == at) {
        begin = t;
        ++next;
        if (got.mask[t] + static_cast<float>(got.labels[t]) > 0) seen.insert(got.tokens[t] / 100);
      }
      ASSERT_EQ(got.positions[t], at - static_cast<std::int32_t>(begin));
      if (got.labels[t] == 0) {  // behind the last
        ASSERT_EQ(got.tokens[t], 0);
        ASSERT_EQ(got.mask[t], 0.0f);
        continue;
      }
      ASSERT_EQ(got.labels[t], got.tokens[t] + 1);
      ASSERT_EQ(got.tokens[t] % 100, got.positions[t]) << "it starts at its beginning";
      ASSERT_EQ(got.mask[t], got.labels[t] % 100 >= 3 ? 1.0f : 0.0f);
    }
    for (; next < kLength; ++next)
      ASSERT_EQ(got.documents[next], static_cast<std::int32_t>(kLength));
  }

  TempFolder folder_;
  DataOptions options_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

}  // namespace tessera::test
