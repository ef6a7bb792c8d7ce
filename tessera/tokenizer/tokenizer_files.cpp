#include "tessera/tokenizer/tokenizer_files.h"

namespace tessera {
namespace {

constexpr const char* kHfTokenizer = "tokenizer.json";
constexpr const char* kVocabulary = "vocab.json";
constexpr const char* kMerges = "merges.txt";
constexpr const char* kBertVocabulary = "vocab.txt";

// Of the kinds that have one file: --tokenizer-model.
std::string model_name(const TokenizerOptions& options) {
  if (options.kind == TokenizerKind::hugging_face) return kHfTokenizer;
  if (options.kind != TokenizerKind::tiktoken) return "tokenizer.model";
  return options.model.ends_with(".json") ? "tiktoken.json" : "tokenizer.tiktoken";
}

}  // namespace

std::vector<TokenizerFile> tokenizer_files(const TokenizerOptions& options) {
  if (!options.reads_files()) return {};
  if (options.kind == TokenizerKind::gpt2)
    return {{kVocabulary, options.vocab_file}, {kMerges, options.merge_file}};
  if (options.is_bert()) return {{kBertVocabulary, options.vocab_file}};
  std::error_code ignored;
  const fs::path model = options.model;
  const bool is_folder = fs::is_directory(model, ignored);
  const fs::path folder = is_folder ? model : model.parent_path();
  const std::string name = model_name(options);
  std::vector<TokenizerFile> files = {{name, is_folder ? folder / name : model}};
  if (options.kind != TokenizerKind::hugging_face) return files;
  for (const char* beside : {"tokenizer_config.json", "special_tokens_map.json"})
    if (fs::is_regular_file(folder / beside, ignored)) files.push_back({beside, folder / beside});
  return files;
}

TokenizerOptions tokenizer_in(const fs::path& folder, TokenizerOptions options) {
  if (options.kind == TokenizerKind::gpt2) {
    options.vocab_file = (folder / kVocabulary).string();
    options.merge_file = (folder / kMerges).string();
  } else if (options.is_bert()) {
    options.vocab_file = (folder / kBertVocabulary).string();
  } else if (options.reads_files()) {
    options.model = (folder / model_name(options)).string();
  }
  return options;
}

}  // namespace tessera
