// A text on its way through the steps of a tokenizer.json.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera {

/// The input of normalizers. `at_start`: whether its first character is the start of the document,
/// which is false if text before it was removed.
struct HfText {
  std::string text;
  bool at_start;
};

/// The input of pre-tokenizers: a text divided into adjacent pieces. None is empty.
struct HfPieces {
  struct Span {
    std::size_t begin, end;
    bool at_start;
  };

  std::string text;
  std::vector<Span> spans;

  std::string_view operator[](std::size_t i) const {
    return std::string_view(text).substr(spans[i].begin, spans[i].end - spans[i].begin);
  }
  void append(std::string_view piece, bool at_start) {
    if (piece.empty()) return;
    spans.push_back({text.size(), text.size() + piece.size(), at_start});
    text += piece;
  }
};

}  // namespace tessera
