// The models of tokenizer.json: BPE, Unigram and WordPiece. They encode pieces.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tessera/tokenizer/hf/hf_node.h"
#include "tessera/tokenizer/hf/hf_pieces.h"

namespace tessera {

/// Tokens by number; a number that the file leaves out has an empty text.
struct HfVocabulary {
  std::vector<std::string> tokens;
  std::unordered_map<std::string, std::int32_t> ids;
  std::size_t model_tokens = 0;  ///< how many the model has, without added tokens and holes

  /// -1 when there is none.
  std::int32_t find(const std::string& token) const;
  /// One token more; InputError of `node` when the number or the text is taken.
  void add(const HfNode& node, const std::string& token, std::int32_t id);
};

class HfModel {
 public:
  virtual ~HfModel() = default;
  /// Appends the tokens of every piece.
  virtual void encode(const HfPieces& pieces, std::vector<std::int32_t>& tokens) const = 0;
};

/// The name of the model. Files from before 2021 omit it, and it is inferred from the other keys.
std::string hf_model_type(const HfNode& node);

HfVocabulary read_hf_vocabulary(const HfNode& model);

/// Whether a BPE model has all of the 256 characters that stand for bytes, and nothing that makes
/// characters differ from bytes: then it may work on bytes.
bool can_encode_bytes(const HfNode& model, const HfVocabulary& vocabulary);

/// `bytes`: pieces come as bytes, not as the characters that stand for them. The vocabulary must
/// outlive the model.
std::unique_ptr<HfModel> make_hf_model(const HfNode& model, const HfVocabulary& vocabulary,
                                       bool bytes);

}  // namespace tessera
