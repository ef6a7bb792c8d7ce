#include "tessera/tokenizer/hf/hf_decoder.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "tessera/tokenizer/bpe/byte_alphabet.h"
#include "tessera/tokenizer/hf/hf_metaspace.h"
#include "tessera/tokenizer/hf/hf_pattern.h"
#include "tessera/tokenizer/unicode/unicode.h"

namespace tessera {
namespace {

using DecoderTokens = std::vector<std::string>;
using MadeDecoder = std::unique_ptr<HfDecoder>;

class DecoderFunction : public HfDecoder {
 public:
  explicit DecoderFunction(std::function<DecoderTokens(DecoderTokens)> function)
      : function_(std::move(function)) {}
  DecoderTokens decode(DecoderTokens tokens) const override { return function_(std::move(tokens)); }

 private:
  std::function<DecoderTokens(DecoderTokens)> function_;
};

// For a function of one token and its position: (token, index, count) to text.
template <class Each>
MadeDecoder make_each(Each each) {
  return std::make_unique<DecoderFunction>([each = std::move(each)](DecoderTokens tokens) {
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = each(tokens[i], i, tokens.size());
    return tokens;
  });
}

DecoderTokens decode_byte_level(const DecoderTokens& tokens) {
  std::string bytes;
  for (const std::string& token : tokens) bytes += bytes_of_alphabet(token).value_or(token);
  return {to_valid_utf8(bytes)};
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// The byte that <0x41> stands for, or -1.
int byte_of(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with('>')) return -1;
  const int high = token[3] == '+' ? 0 : hex_digit(token[3]), low = hex_digit(token[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

DecoderTokens decode_byte_fallback(DecoderTokens tokens) {
  DecoderTokens out;
  std::string bytes;
  const auto flush = [&] {
    if (bytes.empty()) return;
    if (is_valid_utf8(bytes))
      out.push_back(bytes);
    else
      out.insert(out.end(), bytes.size(), "\xEF\xBF\xBD");
    bytes.clear();
  };
  for (std::string& token : tokens) {
    const int byte = byte_of(token);
    if (byte >= 0) {
      bytes.push_back(static_cast<char>(byte));
      continue;
    }
    flush();
    out.push_back(std::move(token));
  }
  flush();
  return out;
}

DecoderTokens fuse(const DecoderTokens& tokens) {
  std::string all;
  for (const std::string& token : tokens) all += token;
  return {all};
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  std::string out;
  std::size_t done = 0;
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, done)) {
    out.append(text, done, at - done).append(to);
    done = at + from.size();
  }
  if (done > 0) text = out.append(text, done);
}

// How English is written after WordPiece has put spaces everywhere.
void clean_up(std::string& text) {
  static constexpr std::pair<std::string_view, std::string_view> kRules[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kRules) replace_all(text, from, to);
}

MadeDecoder make_word_piece(const HfNode& node) {
  node.allow_only({"type", "prefix", "cleanup"});
  return make_each([prefix = node.at("prefix").text(), cleanup = node.at("cleanup").flag()](
                       std::string token, std::size_t i, std::size_t) {
    if (i > 0 && token.starts_with(prefix))
      token.erase(0, prefix.size());
    else if (i > 0)
      token.insert(0, " ");
    if (cleanup) clean_up(token);
    return token;
  });
}

MadeDecoder make_bpe_decoder(const HfNode& node) {
  node.allow_only({"type", "suffix"});
  return make_each(
      [suffix = node.at("suffix").text()](std::string token, std::size_t i, std::size_t count) {
        if (!suffix.empty()) replace_all(token, suffix, i + 1 == count ? "" : " ");
        return token;
      });
}

MadeDecoder make_strip_decoder(const HfNode& node) {
  node.allow_only({"type", "content", "start", "stop"});
  constexpr std::int64_t kMost = 1 << 20;
  return make_each([content = node.at("content").character(),
                    start = node.at("start").integer(0, kMost),
                    stop = node.at("stop").integer(0, kMost)](const std::string& token, std::size_t,
                                                              std::size_t) {
    std::string_view rest = token;
    for (std::int64_t i = 0; i < start && rest.starts_with(content); ++i)
      rest.remove_prefix(content.size());
    for (std::int64_t i = 0; i < stop && rest.ends_with(content); ++i)
      rest.remove_suffix(content.size());
    return std::string(rest);
  });
}

MadeDecoder make_replace_decoder(const HfNode& node) {
  node.allow_only({"type", "pattern", "content"});
  return make_each([pattern = HfPattern(node.at("pattern")), content = node.at("content").text()](
                       const std::string& token, std::size_t, std::size_t) {
    std::string out;
    std::size_t at = 0;
    for (const Piece& piece : pattern.matches(token)) {
      out += piece.matched ? content : token.substr(at, piece.end - at);
      at = piece.end;
    }
    return out;
  });
}

MadeDecoder make_metaspace(const HfNode& node) {
  return make_each(
      [metaspace = HfMetaspace(node)](const std::string& token, std::size_t i, std::size_t) {
        return metaspace.decode(token, i == 0);
      });
}

MadeDecoder make_decoder_sequence(const HfNode& node) {
  node.allow_only({"type", "decoders"});
  std::vector<std::shared_ptr<const HfDecoder>> steps;
  for (const HfNode& step : node.at("decoders").items()) steps.push_back(make_hf_decoder(step));
  return std::make_unique<DecoderFunction>([steps = std::move(steps)](DecoderTokens tokens) {
    for (const auto& step : steps) tokens = step->decode(std::move(tokens));
    return tokens;
  });
}

}  // namespace

std::unique_ptr<HfDecoder> make_hf_decoder(const HfNode& node) {
  const std::string& type = node.at("type").text();
  if (type == "Sequence") return make_decoder_sequence(node);
  if (type == "ByteLevel") {
    node.allow_only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    return std::make_unique<DecoderFunction>(decode_byte_level);
  }
  if (type == "ByteFallback") {
    node.allow_only({"type"});
    return std::make_unique<DecoderFunction>(decode_byte_fallback);
  }
  if (type == "Fuse") {
    node.allow_only({"type"});
    return std::make_unique<DecoderFunction>(fuse);
  }
  if (type == "WordPiece") return make_word_piece(node);
  if (type == "BPEDecoder") return make_bpe_decoder(node);
  if (type == "Strip") return make_strip_decoder(node);
  if (type == "Replace") return make_replace_decoder(node);
  if (type == "Metaspace") return make_metaspace(node);
  node.refuse("the decoder '{:.100}' is not supported", type);
}

}  // namespace tessera
