#include "tessera/checkpoint/saving/tokenizer_copy.h"

#include <algorithm>

#include "tessera/base/check.h"
#include "tessera/base/log.h"
#include "tessera/tokenizer/tokenizer.h"
#include "tessera/tokenizer/tokenizer_files.h"

namespace tessera {

namespace {

const std::string* find_carried(const CarriedFiles& files, const std::string& name) {
  const auto same = std::find_if(files.begin(), files.end(),
                                 [&](const auto& file) { return file.first == name; });
  return same == files.end() ? nullptr : &same->second;
}

}  // namespace

// What belongs to the same tokenizer stays: files beside it that we do not read, as chat templates.
void carry_tokenizer(const TokenizerOptions& tokenizer, CarriedFiles& files) {
  CarriedFiles own;
  for (const auto& [name, path] : tokenizer_files(tokenizer))
    own.emplace_back(name, read_text_file(path));
  if (own.empty()) return;
  const std::string* before = find_carried(files, own.front().first);
  if (!before || *before != own.front().second)
    std::erase_if(files, [](const auto& file) { return is_of_tokenizer(file.first); });
  for (auto& [name, text] : own)
    if (!find_carried(files, name)) files.emplace_back(name, std::move(text));
}

void check_same_tokenizer(const Checkpoint& checkpoint, const CarriedFiles& carried,
                          const TokenizerOptions& tokenizer) {
  const std::vector<TokenizerFile> files = tokenizer_files(tokenizer);
  if (files.empty()) return;
  const auto& [name, path] = files.front();
  const std::string* before = find_carried(carried, name);
  check_input(!before || *before == read_text_file(path),
              "'{}' is not the tokenizer that this run has used: its copy is '{}'. Give that one, "
              "or start a new run from the weights with --finetune",
              path.string(), (checkpoint.path() / name).string());
}

void use_carried_tokenizer(Checkpoint& checkpoint, TokenizerOptions& tokenizer) {
  const TokenizerOptions own = tokenizer_in(checkpoint.path(), tokenizer);
  for (const TokenizerFile& file : tokenizer_files(own))
    if (!checkpoint.read_file(file.name)) return;
  tokenizer = own;
}

std::optional<TokenizerOptions> tokenizer_of(const HfFolder& folder) {
  TokenizerOptions options;
  for (const TokenizerKind kind : {TokenizerKind::hugging_face, TokenizerKind::sentencepiece}) {
    options.kind = kind;
    options = tokenizer_in(folder.path(), options);
    if (fs::exists(options.model)) break;
  }
  if (!fs::exists(options.model)) return std::nullopt;
  try {
    const std::int64_t size = make_tokenizer(options)->vocab_size();
    const std::int64_t room = folder.model().options.vocab_size;
    check_input(size <= room, "'{}' has {} tokens, but the model only {}", options.model, size,
                room);
    return options;
  } catch (const InputError& error) {
    log_warning(
        "the model's own tokenizer is not used: {}. Name one by --tokenizer-type; without it, "
        "texts "
        "are bytes, or numbers of tokens in a converted checkpoint",
        error.what());
    return std::nullopt;
  }
}

}  // namespace tessera
