// BERT's vocab.txt, equal to the BertWordPieceTokenizer of tokenizers 0.23: Megatron's
// BertWordPieceLowerCase and BertWordPieceCase.
//
// As in Megatron since its tokenizers are those of Hugging Face: a text stands between [CLS] and
// [SEP] unless special tokens are left out, [SEP] is EOD, and the cased one has 100 more tokens
// behind its vocabulary, <extra_id_0> to <extra_id_99>.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tessera/tokenizer/tokenizer.h"

namespace tessera {

struct BertOptions {
  bool lowercase = true;  ///< accents are stripped, too
  bool add_special_tokens = true;
};

/// One token in each line, whose number is the line's, from 0. `path` names the file in errors.
std::unique_ptr<Tokenizer> parse_bert_tokenizer(std::string_view text, const std::string& path,
                                                const BertOptions& options);

std::unique_ptr<Tokenizer> read_bert_tokenizer(const std::string& path, const BertOptions& options);

}  // namespace tessera
