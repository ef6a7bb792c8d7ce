#include "tessera/tokenizer/tokenize.h"

#include <fmt/ranges.h>

#include <charconv>
#include <istream>
#include <iterator>
#include <ostream>

#include "tessera/base/check.h"
#include "tessera/base/json.h"

namespace tessera {
namespace {

using TokenList = std::vector<std::int32_t>;

std::string quoted(const std::string& text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

void write_pieces(const Tokenizer& tokenizer, const TokenList& tokens, std::ostream& out) {
  check_in_vocabulary(tokens, tokenizer.vocab_size());  // a single piece does not know its place
  for (const std::int32_t token : tokens)
    out << fmt::format("{}\t{}\n", token, quoted(tokenizer.piece(token)));
}

TokenList parse_numbers(std::string_view text, std::string_view what) {
  constexpr std::string_view kSpace = " \t\r\n";
  TokenList tokens;
  for (std::size_t at = text.find_first_not_of(kSpace); at < text.size();) {
    const std::size_t end = std::min(text.find_first_of(kSpace, at), text.size());
    std::int32_t token = 0;
    const auto [stop, error] = std::from_chars(text.data() + at, text.data() + end, token);
    check_input(error == std::errc() && stop == text.data() + end,
                "{}: '{}' at byte {} is no token number", what,
                text.substr(at, std::min<std::size_t>(end - at, 40)), at);
    tokens.push_back(token);
    at = text.find_first_not_of(kSpace, end);
  }
  return tokens;
}

// What a tokenizer cannot encode or decode is reported with its place.
template <class Work>
void placed(std::string_view where, const Work& work) {
  try {
    work();
  } catch (const InputError& error) {
    fail_input("{}: {}", where, error.what());
  }
}

void tokenize_text(const Tokenizer& tokenizer, const TokenizeOptions& options,
                   const std::string& text, std::string_view what, std::ostream& out) {
  TokenList tokens;
  if (options.decode) tokens = parse_numbers(text, what);
  placed(what, [&] {
    if (!options.decode) tokens = tokenizer.encode(text);
    if (options.show_pieces)
      write_pieces(tokenizer, tokens, out);
    else if (options.decode)
      out << tokenizer.decode(tokens);
    else
      out << fmt::format("{}\n", fmt::join(tokens, " "));
  });
}

void tokenize_line(const Tokenizer& tokenizer, const TokenizeOptions& options,
                   const std::string& line, std::string_view where, std::ostream& out) {
  const Json value = parse_json(line, where);
  TokenList tokens;
  if (options.decode) {
    check_input(value.is_array(), "{}: expected a list of token numbers", where);
    for (const Json& token : value) {
      check_input(token.is_number_integer() && token >= 0 && token <= 0x7FFFFFFF,
                  "{}: {} is no token number", where, token.dump().substr(0, 40));
      tokens.push_back(token.get<std::int32_t>());
    }
  } else {
    check_input(value.is_string(), "{}: expected a text in double quotes", where);
  }
  placed(where, [&] {
    if (!options.decode) tokens = tokenizer.encode(value.get_ref<const std::string&>());
    if (options.show_pieces)
      write_pieces(tokenizer, tokens, out);
    else if (options.decode)
      out << quoted(tokenizer.decode(tokens)) << '\n';
    else
      out << fmt::format("[{}]\n", fmt::join(tokens, ","));
  });
}

}  // namespace

void tokenize(const Tokenizer& tokenizer, const TokenizeOptions& options, std::istream& in,
              std::string_view what, std::ostream& out) {
  if (options.format == TokenizeFormat::text) {
    const std::string text(std::istreambuf_iterator<char>(in), {});
    check_input(!in.bad(), "'{}' cannot be read", what);
    return tokenize_text(tokenizer, options, text, what, out);
  }
  std::size_t number = 0;
  for (std::string line; std::getline(in, line);)
    tokenize_line(tokenizer, options, line, fmt::format("{}:{}", what, ++number), out);
  check_input(!in.bad(), "'{}' cannot be read behind line {}", what, number);
}

}  // namespace tessera
