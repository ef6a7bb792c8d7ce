// Any text as GPT-2's vocab.json and merges.txt, with a zero byte between them: they are refused
// with an InputError, or every text that is encoded comes back.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/tokenizer/bpe/byte_bpe_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::size_t vocab = std::min(bytes.find('\0'), size);
  const std::string_view merges = bytes.substr(std::min(vocab + 1, size));
  try {
    const auto tokenizer =
        tessera::parse_gpt2_tokenizer(bytes.substr(0, vocab), "vocab", merges, "merges");
    for (const std::string_view sample :
         {std::string_view(" Hello, the king's\n\n  12 日本\xFF<|endoftext|>"),
          merges.substr(0, 200)}) {
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
