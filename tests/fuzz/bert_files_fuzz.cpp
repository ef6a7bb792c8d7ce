// Any text as BERT's vocab.txt: it is refused with an InputError, or every text can be encoded, and
// its tokens decoded.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/tokenizer/hf/bert_files.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const auto tokenizer = tessera::parse_bert_tokenizer(bytes, "vocab", {size % 2 == 0, true});
    for (const std::string_view sample :
         {std::string_view(" Hello, the king's\n\n  12 日本\xFF[SEP]<extra_id_7>"),
          bytes.substr(0, 200)}) {
      const std::vector<std::int32_t> tokens = tokenizer->encode(sample);
      for (const std::int32_t token : tokens)
        if (token < 0 || token >= tokenizer->vocab_size()) std::abort();
      (void)tokenizer->decode(tokens);
    }
  } catch (const tessera::InputError&) {
    return 0;  // refused, as most inputs must be
  }
  return 0;
}
