#include "tessera/checkpoint/carried_files.h"

#include <array>
#include <optional>

namespace tessera {
namespace {

// In a checkpoint, and in a Hugging Face folder.
struct CarriedName {
  const char* here;
  const char* there;
};

constexpr std::array<CarriedName, 13> kNames{
    {{"tokenizer.json", "tokenizer.json"},
     {"tokenizer_config.json", "tokenizer_config.json"},
     {"special_tokens_map.json", "special_tokens_map.json"},
     {"added_tokens.json", "added_tokens.json"},
     {"vocab.json", "vocab.json"},
     {"merges.txt", "merges.txt"},
     {"vocab.txt", "vocab.txt"},
     {"tokenizer.model", "tokenizer.model"},
     {"tokenizer.tiktoken", "tokenizer.tiktoken"},
     {"tiktoken.json", "tiktoken.json"},
     {"chat_template.jinja", "chat_template.jinja"},
     {"generation_config.json", "generation_config.json"},
     {kHfConfigCopy, "config.json"}}};
constexpr std::size_t kMostBytes = std::size_t{1} << 28;

}  // namespace

bool is_of_tokenizer(std::string_view name) {
  return name != kHfConfigCopy && name != "generation_config.json";
}

CarriedFiles carried_files(const fs::path& hf_folder) {
  CarriedFiles files;
  for (const CarriedName& name : kNames)
    if (fs::exists(hf_folder / name.there))
      files.emplace_back(name.here, read_text_file(hf_folder / name.there, kMostBytes));
  return files;
}

CarriedFiles carried_files(Checkpoint& checkpoint) {
  CarriedFiles files;
  for (const CarriedName& name : kNames)
    if (std::optional<std::string> text = checkpoint.read_file(name.here))
      files.emplace_back(name.here, std::move(*text));
  return files;
}

}  // namespace tessera
