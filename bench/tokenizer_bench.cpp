// Times encoding in one thread, for bench/tokenizer_rivals.py. Takes the tokenizer flags of
// `tessera tokenize`; then each line of standard input names a file with a JSON string on each
// line, and one line of JSON comes back.
#include <fmt/core.h>

#include <cstdio>
#include <iostream>
#include <numeric>

#include "bench/program.h"
#include "tessera/base/check.h"
#include "tessera/base/files.h"
#include "tessera/base/json.h"
#include "tessera/config/parse.h"
#include "tessera/config/rules/validate.h"
#include "tessera/tokenizer/tokenizer.h"

namespace tessera::bench {
namespace {

std::vector<std::string> documents_of(const std::string& path) {
  std::vector<std::string> documents;
  std::istringstream lines(read_text_file(path));
  for (std::string line; std::getline(lines, line);)
    documents.push_back(parse_json(line, path).get<std::string>());
  return documents;
}

void encode_all(const Tokenizer& tokenizer, const std::vector<std::string>& documents) {
  std::vector<std::vector<std::int32_t>> tokens(documents.size());
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < documents.size(); ++i) tokenizer.encode_to(documents[i], tokens[i]);
  const double seconds = seconds_since(start);
  // So that the rivals' tokens can be seen to be the same.
  std::size_t count = 0;
  std::int64_t sum = 0;
  for (const std::vector<std::int32_t>& each : tokens) {
    count += each.size();
    sum = std::accumulate(each.begin(), each.end(), sum);
  }
  fmt::print("{}\n", Json{{"seconds", seconds}, {"tokens", count}, {"sum", sum}}.dump());
  std::fflush(stdout);
}

void serve(std::vector<std::string> flags) {
  flags.insert(flags.end(), {"--input", "-"});
  const ParsedCommand parsed = parse_command("tokenize", flags);
  validate(parsed);
  const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(parsed.options.data.tokenizer);
  for (std::string path; std::getline(std::cin, path);) encode_all(*tokenizer, documents_of(path));
}

}  // namespace
}  // namespace tessera::bench

int main(int argc, char** argv) {
  try {
    tessera::bench::serve({argv + 1, argv + argc});
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_tokenizer: {}\n", error.what());
    return dynamic_cast<const tessera::InputError*>(&error) != nullptr ? 2 : 1;
  }
}
