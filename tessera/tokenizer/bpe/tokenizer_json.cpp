#include "tessera/tokenizer/bpe/tokenizer_json.h"

#include "tessera/base/json.h"
#include "tessera/tokenizer/bpe/byte_alphabet.h"
#include "tessera/tokenizer/split/splitter.h"

namespace tessera {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson byte_level(bool use_regex) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", use_regex}};
}

OrderedJson pre_tokenizer(TrainPattern pattern) {
  if (pattern == TrainPattern::gpt2) return byte_level(true);
  const OrderedJson split = {{"type", "Split"},
                             {"pattern", {{"Regex", std::string(pattern_of(pattern))}}},
                             {"behavior", "Isolated"},
                             {"invert", false}};
  return {{"type", "Sequence"}, {"pretokenizers", OrderedJson::array({split, byte_level(false)})}};
}

OrderedJson added_special_tokens(const std::vector<std::string>& special) {
  OrderedJson list = OrderedJson::array();
  for (const std::string& text : special)
    list.push_back({{"id", list.size()},
                    {"content", text},
                    {"single_word", false},
                    {"lstrip", false},
                    {"rstrip", false},
                    {"normalized", false},
                    {"special", true}});
  return list;
}

}  // namespace

std::string_view pattern_of(TrainPattern pattern) {
  return pattern == TrainPattern::gpt2 ? kGpt2Pattern : kCl100kPattern;
}

std::string tokenizer_json(const LearnedBpe& learned, const TrainTokenizerOptions& options) {
  const std::size_t special = options.special_tokens.size();
  std::vector<std::string> names;
  for (const std::string& token : learned.tokens)
    names.push_back(names.size() < special ? token : alphabet_of_bytes(token));
  OrderedJson vocabulary = OrderedJson::object(), merges = OrderedJson::array();
  // Not by vocabulary[name], which looks for the name among all that are there.
  auto& entries = vocabulary.get_ref<OrderedJson::object_t&>();
  for (std::size_t i = 0; i < names.size(); ++i)
    static_cast<OrderedJson::object_t::Container&>(entries).emplace_back(names[i], i);
  for (const auto& [left, right] : learned.merges) merges.push_back({names[left], names[right]});
  const OrderedJson file = {{"version", "1.0"},
                            {"truncation", nullptr},
                            {"padding", nullptr},
                            {"added_tokens", added_special_tokens(options.special_tokens)},
                            {"normalizer", nullptr},
                            {"pre_tokenizer", pre_tokenizer(options.pattern)},
                            {"post_processor", nullptr},
                            {"decoder", byte_level(true)},
                            {"model",
                             {{"type", "BPE"},
                              {"dropout", nullptr},
                              {"unk_token", nullptr},
                              {"continuing_subword_prefix", nullptr},
                              {"end_of_word_suffix", nullptr},
                              {"fuse_unk", false},
                              {"byte_fallback", false},
                              {"ignore_merges", false},
                              {"vocab", std::move(vocabulary)},
                              {"merges", std::move(merges)}}}};
  return file.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace tessera
