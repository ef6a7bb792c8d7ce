// Any text as a tokenizer.json: it is refused with an InputError, or encodes and decodes without
// leaving its vocabulary.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/tokenizer/hf/hf_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    tessera::HfOptions options;
    options.add_special_tokens = true;
    const tessera::HfTokenizer tokenizer(text, "fuzz", options);
    for (const std::string_view sample :
         {std::string_view(" Hello, wörld! don't 12\n\n<x> 日本\xFF"), text.substr(0, 200)}) {
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
