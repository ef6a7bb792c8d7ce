#include "tessera/tokenizer/bpe/train_bpe.h"

#include <algorithm>
#include <numeric>
#include <queue>

#include "tessera/base/check.h"
#include "tessera/tokenizer/bpe/byte_alphabet.h"

namespace tessera {
namespace {

using Pair = std::pair<std::int32_t, std::int32_t>;

struct Word {
  std::vector<std::int32_t> symbols;
  std::int64_t count;
};

struct PairHash {
  std::size_t operator()(const Pair& pair) const {
    const auto left = static_cast<std::uint64_t>(pair.first) << 32;
    return (left | static_cast<std::uint32_t>(pair.second)) * 0x9E3779B97F4A7C15u >> 16;
  }
};

class Learner {
 public:
  Learner(const PieceCounts& pieces, const std::vector<std::string>& special) {
    result_.tokens = special;
    add_bytes();
    for (const auto& [piece, count] : pieces) {
      Word word{{}, count};
      for (const char c : piece) word.symbols.push_back(byte_[static_cast<unsigned char>(c)]);
      if (word.symbols.size() > 1) words_.push_back(std::move(word));
    }
    for (std::size_t i = 0; i < words_.size(); ++i) count_pairs(i, 1);
    for (const auto& [pair, state] : pairs_) queue_.push({state.count, pair});
  }

  LearnedBpe run(std::int64_t vocab_size) {
    while (std::ssize(result_.tokens) < vocab_size && !queue_.empty()) {
      const Entry best = queue_.top();
      queue_.pop();
      const std::int64_t count = pairs_[best.pair].count;
      if (count < 1) continue;
      if (count == best.count)
        merge(best.pair);
      else
        queue_.push({count, best.pair});  // it has become rarer since
    }
    return std::move(result_);
  }

 private:
  struct State {
    std::int64_t count = 0;
    std::vector<std::uint32_t> words;  // that it occurs or occurred in
  };
  struct Entry {
    std::int64_t count;
    Pair pair;
    // Less means: later.
    bool operator<(const Entry& other) const {
      return count != other.count ? count < other.count : pair > other.pair;
    }
  };

  // In the order of the characters that stand for them in files.
  void add_bytes() {
    std::vector<std::string> alphabet;
    for (int byte = 0; byte < 256; ++byte)
      alphabet.push_back(alphabet_of_bytes(std::string(1, static_cast<char>(byte))));
    std::vector<int> order(256);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, {}, [&](int byte) { return alphabet[byte]; });
    for (const int byte : order) {
      byte_[byte] = static_cast<std::int32_t>(result_.tokens.size());
      numbers_.emplace(std::string(1, static_cast<char>(byte)), byte_[byte]);
      result_.tokens.emplace_back(1, static_cast<char>(byte));
    }
  }

  // Adds a word's pairs (sign 1) or takes them away (-1).
  void count_pairs(std::size_t index, int sign) {
    const Word& word = words_[index];
    for (std::size_t i = 0; i + 1 < word.symbols.size(); ++i) {
      State& state = pairs_[{word.symbols[i], word.symbols[i + 1]}];
      state.count += sign * word.count;
      const bool known = !state.words.empty() && state.words.back() == index;
      if (sign > 0 && !known) state.words.push_back(static_cast<std::uint32_t>(index));
    }
  }

  // The number of what a pair becomes, which other pairs may have made before.
  std::int32_t token_for(const Pair& pair) {
    std::string text = result_.tokens[pair.first] + result_.tokens[pair.second];
    const auto next = static_cast<std::int32_t>(result_.tokens.size());
    const auto [at, is_new] = numbers_.emplace(text, next);
    if (is_new) result_.tokens.push_back(std::move(text));
    return at->second;
  }

  void merge(const Pair& pair) {
    const std::int32_t token = token_for(pair);
    result_.merges.push_back(pair);
    std::vector<std::uint32_t> words = std::move(pairs_[pair].words);
    std::ranges::sort(words);
    words.erase(std::unique(words.begin(), words.end()), words.end());
    std::vector<Pair> touched;
    for (const std::uint32_t index : words) replace(index, pair, token, touched);
    pairs_.erase(pair);
    std::ranges::sort(touched);
    touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
    for (const Pair& each : touched) {
      const auto found = pairs_.find(each);
      if (found != pairs_.end() && found->second.count > 0)
        queue_.push({found->second.count, each});
    }
  }

  void replace(std::uint32_t index, const Pair& pair, std::int32_t token,
               std::vector<Pair>& touched) {
    std::vector<std::int32_t>& symbols = words_[index].symbols;
    std::vector<std::int32_t> merged;
    for (std::size_t i = 0; i < symbols.size(); ++i) {
      const bool here = i + 1 < symbols.size() && Pair{symbols[i], symbols[i + 1]} == pair;
      merged.push_back(here ? token : symbols[i]);
      i += here;
    }
    if (merged.size() == symbols.size()) return;
    count_pairs(index, -1);
    symbols = std::move(merged);
    count_pairs(index, 1);
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i)
      if (symbols[i] == token || symbols[i + 1] == token)
        touched.push_back({symbols[i], symbols[i + 1]});
  }

  LearnedBpe result_;
  std::unordered_map<std::string, std::int32_t> numbers_;
  std::int32_t byte_[256] = {};
  std::vector<Word> words_;
  std::unordered_map<Pair, State, PairHash> pairs_;
  std::priority_queue<Entry> queue_;
};

}  // namespace

LearnedBpe learn_bpe(const PieceCounts& pieces, const std::vector<std::string>& special,
                     std::int64_t vocab_size) {
  return Learner(pieces, special).run(vocab_size);
}

}  // namespace tessera
