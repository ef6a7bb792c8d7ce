#include <fmt/core.h>

#include <algorithm>
#include <cstdio>

#include "apps/commands.h"
#include "tessera/base/check.h"
#include "tessera/config/print.h"
#include "tessera/engine/session_options.h"
#include "tessera/infer/generate.h"
#include "tessera/run/model_source.h"
#include "tessera/run/rank_start.h"
#include "tessera/tokenizer/tokenizer.h"

namespace tessera {
namespace {

std::vector<std::int32_t> stops_of(const Tokenizer& tokenizer, const GenerateOptions& options) {
  std::vector<std::int32_t> stops;
  if (tokenizer.has_eod()) stops.push_back(tokenizer.eod());
  for (const std::string& text : options.stop_tokens)
    stops.push_back(named_token(tokenizer, "stop-tokens", text));
  return stops;
}

// What each token adds to a text. Tokens are decoded together: a space may depend on the token
// before, and a character may take several.
class SpokenText {
 public:
  SpokenText(const Tokenizer& tokenizer, std::vector<std::int32_t> prompt)
      : tokenizer_(tokenizer), tokens_(std::move(prompt)), said_(tokenizer.decode(tokens_)) {}

  std::string add(std::int32_t token) {
    tokens_.push_back(token);
    const std::string now = tokenizer_.decode(tokens_);
    return now.ends_with(kHalfCharacter) ? "" : say(now);
  }
  /// What was held back.
  std::string rest() { return say(tokenizer_.decode(tokens_)); }

 private:
  static constexpr std::string_view kHalfCharacter = "\xef\xbf\xbd";  // U+FFFD

  std::string say(const std::string& now) {
    std::string more = now.substr(std::min(said_.size(), now.size()));
    said_ = now;
    return more;
  }

  const Tokenizer& tokenizer_;
  std::vector<std::int32_t> tokens_;
  std::string said_;
};

}  // namespace

int generate_command(ParsedCommand& parsed, const std::vector<std::string>& arguments) {
  const ModelSource source(
      parsed, apply_launcher_environment(parsed, recognise_environment(process_variable)));
  if (parsed.print_config) {
    fmt::print("{}", print_config(parsed));
    return 0;
  }
  const Options& options = parsed.options;
  const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(options.data.tokenizer);
  check_input(tokenizer->vocab_size() <= options.model.vocab_size,
              "the tokenizer has {} tokens, the model {}: choose the tokenizer that the model was "
              "trained with",
              tokenizer->vocab_size(), options.model.vocab_size);
  const std::vector<std::int32_t> stops = stops_of(*tokenizer, parsed.generate);
  std::vector<std::vector<std::int32_t>> prompts;
  std::size_t longest = 1;
  for (const std::string& prompt : parsed.generate.prompts) {
    prompts.push_back(tokenizer->encode(prompt));
    // What does not fit is refused before a rank starts.
    static_cast<void>(most_new_tokens(prompts.back(), parsed.generate, options.model));
    longest = std::max(longest, prompts.back().size());
  }
  return run_on_ranks(options, print_config(parsed), arguments, [&](Rank& rank) {
    Session session(inference_options(options, {static_cast<std::int64_t>(longest), 1}, rank),
                    rank);
    source.load(session);
    Generator generator(session, parsed.generate, options.train.seed, tokenizer->vocab_size());
    const bool speaks = rank.rank == 0;
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      SpokenText text(*tokenizer, prompts[i]);
      if (speaks) fmt::print("{}", parsed.generate.prompts[i]);
      generator.run(prompts[i], stops, [&](std::int32_t token) {
        if (!speaks) return;
        fmt::print("{}", text.add(token));
        std::fflush(stdout);
      });
      if (speaks) fmt::print("{}\n", text.rest());
    }
  });
}

}  // namespace tessera
