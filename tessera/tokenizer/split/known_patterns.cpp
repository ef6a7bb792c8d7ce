#include "tessera/tokenizer/split/known_patterns.h"

#include "tessera/tokenizer/split/known_splitter.h"

namespace tessera {

const std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

const std::string_view kCl100kPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

const std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

const std::string_view kO200kPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

const std::string_view kTekkenPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
    R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

namespace {

using Contractions = PatternTraits::Contractions;
using Words = PatternTraits::Words;

PatternTraits gpt2() { return {Contractions::lower_case, Words::after_space, 0, "", false}; }

PatternTraits gpt4(std::size_t digits) {
  return {Contractions::any_case, Words::after_any, digits, "\r\n"};
}

PatternTraits gpt4o(Contractions contractions, std::size_t digits) {
  return {contractions, Words::by_letter_case, digits, "\r\n/"};
}

}  // namespace

std::unique_ptr<Splitter> make_known_splitter(std::string_view pattern) {
  const struct {
    std::string_view pattern;
    PatternTraits traits;
  } known[] = {
      {kGpt2Pattern, gpt2()},
      {kCl100kPattern, gpt4(3)},
      {kQwen2Pattern, gpt4(1)},
      {kO200kPattern, gpt4o(Contractions::after_words, 3)},
      {kTekkenPattern, gpt4o(Contractions::none, 1)},
  };
  for (const auto& each : known)
    if (each.pattern == pattern) return std::make_unique<KnownSplitter>(each.traits);
  return nullptr;
}

std::unique_ptr<Splitter> make_tiktoken_splitter(TiktokenPattern pattern) {
  PatternTraits traits;
  switch (pattern) {
    case TiktokenPattern::v1: traits = {Contractions::none, Words::after_any, 1, "\r\n"}; break;
    case TiktokenPattern::v2: traits = gpt4o(Contractions::none, 1); break;
    case TiktokenPattern::gpt2: traits = gpt2(); break;
    case TiktokenPattern::cl100k:
      traits = gpt4(3);
      traits.whole_tail = true;
      break;
    case TiktokenPattern::o200k: traits = gpt4o(Contractions::after_words, 3); break;
  }
  return std::make_unique<KnownSplitter>(traits);
}

}  // namespace tessera
