#include <fmt/core.h>

#include <algorithm>
#include <cstdio>

#include "apps/commands.h"
#include "apps/model_source.h"
#include "tessera/base/check.h"
#include "tessera/config/print.h"
#include "tessera/data/tokenizer.h"
#include "tessera/train/generate.h"

namespace tessera {

void generate_command(ParsedCommand& parsed) {
  const ModelSource source(parsed);
  if (parsed.print_config) return fmt::print("{}", print_config(parsed));
  const Options& options = parsed.options;
  const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(options.data);
  check_input(tokenizer->vocab_size() <= options.model.vocab_size,
              "the tokenizer has {} tokens, the model {}: choose the tokenizer that the model was "
              "trained with",
              tokenizer->vocab_size(), options.model.vocab_size);
  std::vector<std::vector<std::int32_t>> prompts;
  std::size_t longest = 1;
  for (const std::string& prompt : parsed.generate.prompts) {
    prompts.push_back(tokenizer->encode(prompt));
    longest = std::max(longest, prompts.back().size());
  }

  SessionOptions session_options;
  session_options.model = options.model;
  session_options.shape = {static_cast<std::int64_t>(longest), 1};
  session_options.training = false;
  session_options.device = device_of(options.train);
  session_options.memory_budget_gib = options.train.gpu_memory_budget_gib;
  session_options.cuda = cuda_of(options.train);
  Session session(session_options, only_rank(options.train));
  source.load(session);
  Generator generator(session, parsed.generate, options.train.seed, tokenizer->vocab_size());
  for (const auto& prompt : prompts) generator.check_prompt(prompt);  // before anything is printed
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    fmt::print("{}", parsed.generate.prompts[i]);
    generator.run(prompts[i], tokenizer->eod(), [&](std::int32_t token) {
      // The null tokenizer's text is numbers, which need a space between them.
      if (options.data.tokenizer == TokenizerKind::null) fmt::print(" ");
      fmt::print("{}", tokenizer->decode({&token, 1}));
      std::fflush(stdout);
    });
    fmt::print("\n");
  }
}

}  // namespace tessera
