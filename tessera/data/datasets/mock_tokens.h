// Megatron's mock data: 100000 documents of 1 to 4095 tokens that count 1, 2, 3, ... and end with
// EOD. Nothing is stored but the lengths.
#pragma once

#include <vector>

#include "tessera/data/indexed/token_source.h"
#include "tessera/tokenizer/tokenizer.h"

namespace tessera {

class MockTokens : public TokenSource {
 public:
  explicit MockTokens(const Tokenizer& tokenizer);

  std::int64_t size() const override { return static_cast<std::int64_t>(lengths_.size()); }
  std::int32_t length(std::int64_t i) const override {
    return lengths_[static_cast<std::size_t>(i)];
  }
  void tokens(std::int64_t i, std::int64_t offset, std::span<std::int32_t> out) const override;
  const std::string& name() const override { return name_; }

 private:
  std::string name_ = "mock data";
  std::int64_t vocab_size_;
  std::int32_t eod_;
  std::vector<std::int32_t> lengths_;
};

}  // namespace tessera
