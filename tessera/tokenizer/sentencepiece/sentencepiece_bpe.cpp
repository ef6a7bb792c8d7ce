#include "tessera/tokenizer/sentencepiece/sentencepiece_bpe.h"

#include <algorithm>
#include <queue>
#include <unordered_map>
#include <utility>

#include "tessera/tokenizer/sentencepiece/unigram.h"

namespace tessera {
namespace {

constexpr std::size_t kNone = static_cast<std::size_t>(-1);

// A piece so far, in a list from left to right. One that went into its left neighbour is empty.
struct Symbol {
  std::string_view text;
  std::size_t previous, next;
  bool frozen;
};

struct SymbolPair {
  float score;
  std::size_t left, right, size;

  // The highest score comes first, and of equal ones the leftmost.
  bool operator<(const SymbolPair& other) const {
    return score != other.score ? score < other.score : left > other.left;
  }
};

class Merger {
 public:
  Merger(const SentencePieceModel& model, const PrefixTrie& frozen, std::string_view text)
      : model_(model) {
    while (!text.empty()) {
      const auto match = frozen.longest(text);
      const std::size_t length =
          match ? match->length
                : std::min(character_bytes(static_cast<unsigned char>(text[0])), text.size());
      const std::size_t index = symbols_.size();
      const bool last = text.size() == length;
      symbols_.push_back({text.substr(0, length), index == 0 ? kNone : index - 1,
                          last ? kNone : index + 1, match.has_value()});
      text.remove_prefix(length);
    }
    for (std::size_t i = 1; i < symbols_.size(); ++i) offer(i - 1, i);
  }

  std::vector<SentencePieceSegment> run() {
    while (!pairs_.empty()) {
      const SymbolPair pair = pairs_.top();
      pairs_.pop();
      merge(pair);
    }
    std::vector<SentencePieceSegment> segments;
    for (std::size_t i = symbols_.empty() ? kNone : 0; i != kNone; i = symbols_[i].next)
      take_apart(symbols_[i].text, segments);
    return segments;
  }

 private:
  void offer(std::size_t left, std::size_t right) {
    if (left == kNone || right == kNone || symbols_[left].frozen || symbols_[right].frozen) return;
    const std::string_view l = symbols_[left].text, r = symbols_[right].text;
    const std::string_view both(l.data(), l.size() + r.size());
    const auto found = model_.ids.find(both);
    if (found == model_.ids.end()) return;
    const auto id = static_cast<std::size_t>(found->second);
    pairs_.push({model_.pieces[id].score, left, right, both.size()});
    if (model_.pieces[id].type == SentencePieceModel::Type::unused) made_of_[both] = {l, r};
  }

  void merge(const SymbolPair& pair) {
    Symbol& left = symbols_[pair.left];
    Symbol& right = symbols_[pair.right];
    if (left.text.empty() || right.text.empty() ||
        left.text.size() + right.text.size() != pair.size)
      return;  // one of the two has grown or gone since
    left.text = {left.text.data(), pair.size};
    right.text = {};
    left.next = right.next;
    if (left.next != kNone) symbols_[left.next].previous = pair.left;
    offer(left.previous, pair.left);
    offer(pair.left, left.next);
  }

  void take_apart(std::string_view text, std::vector<SentencePieceSegment>& segments) const {
    std::vector<std::string_view> open{text};
    while (!open.empty()) {
      const std::string_view part = open.back();
      open.pop_back();
      const std::int32_t id = model_.id_of(part);
      const auto halves = made_of_.find(part);
      if (model_.type(id) == SentencePieceModel::Type::unused && halves != made_of_.end()) {
        open.push_back(halves->second.second);
        open.push_back(halves->second.first);
      } else {
        segments.push_back({part, id});
      }
    }
  }

  const SentencePieceModel& model_;
  std::vector<Symbol> symbols_;
  std::priority_queue<SymbolPair> pairs_;
  std::unordered_map<std::string_view, std::pair<std::string_view, std::string_view>> made_of_;
};

}  // namespace

std::vector<SentencePieceSegment> merge_by_score(const SentencePieceModel& model,
                                                 const PrefixTrie& frozen, std::string_view text) {
  return Merger(model, frozen, text).run();
}

}  // namespace tessera
