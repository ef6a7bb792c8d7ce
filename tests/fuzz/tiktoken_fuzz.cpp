// Any text as a file of tiktoken's, after a byte that says which: lines or Megatron's list (the
// lowest bit), and the pattern. It is refused with an InputError, or every text that is encoded
// comes back.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/tokenizer/bpe/byte_bpe_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  tessera::TokenizerOptions options;
  options.kind = tessera::TokenizerKind::tiktoken;
  options.model = data[0] % 2 == 0 ? "lines.tiktoken" : "list.json";
  options.tiktoken_pattern = static_cast<tessera::TiktokenPattern>(data[0] / 2 % 5);
  try {
    const auto tokenizer = tessera::parse_tiktoken_tokenizer(text, options);
    for (const std::string_view sample :
         {std::string_view(" Hello, the king's\n\n  12 日本\xFF<|endoftext|></s>"),
          text.substr(0, 200)}) {
      const std::vector<std::int32_t> tokens = tokenizer->encode(sample);
      for (const std::int32_t token : tokens)
        if (token < 0 || token >= tokenizer->vocab_size()) std::abort();
      if (tokenizer->decode(tokens) != sample) std::abort();
    }
  } catch (const tessera::InputError&) {
    return 0;  // refused, as most inputs must be
  }
  return 0;
}
