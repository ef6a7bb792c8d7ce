// A little data to train on.
#pragma once

#include <string>
#include <vector>

#include "tessera/data/indexed/indexed_dataset_writer.h"
#include "tests/support/temp_folder.h"

namespace tessera::test {

constexpr std::int32_t kVocabulary = 60;

/// Where a program's runs find their tokens: few, since the order of Megatron's made-up data, which
/// are many, takes longer to shuffle than a short run takes.
inline std::string small_data() {
  static const TempFolder folder;
  static const std::string prefix = [] {
    std::string path = (folder / "tokens").string();
    IndexedDatasetWriter writer(path, TokenType::u16);
    for (std::int32_t document = 0; document < 200; ++document) {
      std::vector<std::int32_t> tokens;
      for (std::int32_t i = 0; i < 20 + document * 7 % 50; ++i)
        tokens.push_back((document * 11 + i * i) % kVocabulary);
      writer.add_document(tokens);
    }
    writer.finish();
    return path;
  }();
  return prefix;
}

}  // namespace tessera::test
