#include "tessera/data/datasets/mock_tokens.h"

#include <bit>

namespace tessera {
namespace {

constexpr std::size_t kDocuments = 100000;
constexpr std::uint32_t kMaxLength = 4095;

__extension__ using Wide = unsigned __int128;

constexpr Wide wide(std::uint64_t high, std::uint64_t low) { return Wide{high} << 64 | low; }

// NumPy's default_rng(0): PCG64 (a 128-bit congruential generator with an XSL-RR output), in the
// state that NumPy's seeding gives it for the seed 0. Each 64-bit output serves two 32-bit draws,
// the lower half first.
class NumpyGenerator {
 public:
  // Uniform in [0, count): Lemire's multiplication, with the draws refused that would bias it.
  std::uint32_t below(std::uint32_t count) {
    const std::uint32_t threshold = (0u - count) % count;
    for (;;) {
      const std::uint64_t product = std::uint64_t{next32()} * count;
      if (static_cast<std::uint32_t>(product) >= threshold)
        return static_cast<std::uint32_t>(product >> 32);
    }
  }

 private:
  std::uint32_t next32() {
    has_half_ = !has_half_;
    if (!has_half_) return static_cast<std::uint32_t>(last_ >> 32);
    state_ = state_ * wide(0x2360ed051fc65da4, 0x4385df649fccf645) + increment_;
    const auto folded =
        static_cast<std::uint64_t>(state_ >> 64) ^ static_cast<std::uint64_t>(state_);
    last_ = std::rotr(folded, static_cast<int>(state_ >> 122));
    return static_cast<std::uint32_t>(last_);
  }

  Wide state_ = wide(0x1aa1b5345996452d, 0x09585eb7a69561e3);
  Wide increment_ = wide(0x418ddadb3af71a82, 0x588133bc447873a9);
  std::uint64_t last_ = 0;
  bool has_half_ = false;
};

}  // namespace

MockTokens::MockTokens(const Tokenizer& tokenizer)
    : vocab_size_(tokenizer.vocab_size()), eod_(tokenizer.eod()), lengths_(kDocuments) {
  NumpyGenerator generator;
  for (std::int32_t& length : lengths_)
    length = static_cast<std::int32_t>(1 + generator.below(kMaxLength));
}

void MockTokens::tokens(std::int64_t i, std::int64_t offset, std::span<std::int32_t> out) const {
  check_token_range(*this, i, offset, out.size());
  const std::int64_t last = length(i) - 1;
  for (std::int32_t& token : out) {
    token = offset == last ? eod_ : static_cast<std::int32_t>((offset + 1) % vocab_size_);
    ++offset;
  }
}

}  // namespace tessera
