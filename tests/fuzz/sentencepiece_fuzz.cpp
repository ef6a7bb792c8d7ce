// Any bytes as a SentencePiece model: they are refused with an InputError, or encode and decode
// without leaving their vocabulary.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/tokenizer/sentencepiece/sentencepiece_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const tessera::SentencePieceTokenizer tokenizer(tessera::parse_sentencepiece(bytes, "fuzz"),
                                                    "fuzz");
    for (const std::string_view sample :
         {std::string_view(" Hello, the fox  12\n\xEF\xAC\x81 <x> 日本\xFF"),
          bytes.substr(0, 200)}) {
      const std::vector<std::int32_t> tokens = tokenizer.encode(sample);
      for (const std::int32_t token : tokens)
        if (token < 0 || token >= tokenizer.vocab_size()) std::abort();
      tokenizer.decode(tokens);
    }
  } catch (const tessera::InputError&) {
    return 0;  // refused, as most inputs must be
  }
  return 0;
}
