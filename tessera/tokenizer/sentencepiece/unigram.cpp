#include "tessera/tokenizer/sentencepiece/unigram.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tessera {
namespace {

// Beyond this, SentencePiece begins to count at 0 again.
constexpr double kLargestFloatSum = 100000;

// The best way to cut the text up to some byte, by its last piece.
struct Best {
  double score = 0;
  std::size_t start = kNone;
  std::int32_t id = Unigram::kUnknown;

  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
};

}  // namespace

Unigram::Unigram(std::vector<std::pair<std::string, std::int32_t>> pieces,
                 std::vector<double> scores, double unknown_score, Sums sums)
    : trie_(std::move(pieces)),
      scores_(std::move(scores)),
      unknown_score_(unknown_score),
      sums_(sums) {}

std::vector<Unigram::Segment> Unigram::segment(std::string_view text) const {
  const auto kept = [this](double sum) {
    return sums_ == Sums::floats ? static_cast<double>(static_cast<float>(sum)) : sum;
  };
  std::vector<Best> ends(text.size() + 1);
  std::size_t furthest = 0;  // end that has been reached
  const auto offer = [&](std::size_t start, std::size_t end, double sum, std::int32_t id) {
    Best& best = ends[end];
    if (best.start == Best::kNone || sum > best.score) best = {sum, start, id};
    furthest = std::max(furthest, end);
  };
  for (std::size_t at = 0; at < text.size();) {
    const double sum_here = ends[at].score;
    if (sums_ == Sums::floats && std::abs(sum_here) > kLargestFloatSum)
      for (std::size_t end = at; end <= furthest; ++end)
        if (ends[end].start != Best::kNone) ends[end].score = kept(ends[end].score - sum_here);
    const double so_far = ends[at].score;
    const std::size_t width =
        std::min(character_bytes(static_cast<unsigned char>(text[at])), text.size() - at);
    bool covered = false;
    trie_.each_prefix(text.substr(at), [&](std::size_t length, std::int32_t id) {
      offer(at, at + length, kept(scores_[static_cast<std::size_t>(id)] + so_far), id);
      covered |= length == width;
    });
    if (!covered) offer(at, at + width, kept(unknown_score_ + so_far), kUnknown);
    at += width;
  }

  std::vector<Segment> segments;
  for (std::size_t end = text.size(); end > 0; end = ends[end].start)
    segments.push_back({end, ends[end].id});
  std::reverse(segments.begin(), segments.end());
  return segments;
}

}  // namespace tessera
