#include "tessera/tokenizer/split/splitter.h"

#include "tessera/tokenizer/split/known_patterns.h"

namespace tessera {

std::unique_ptr<Splitter> make_splitter(std::string_view pattern) {
  std::unique_ptr<Splitter> known = make_known_splitter(pattern);
  return known ? std::move(known) : make_regex_splitter(pattern);
}

}  // namespace tessera
