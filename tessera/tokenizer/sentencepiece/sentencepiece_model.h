// The contents of a SentencePiece .model file (a ModelProto of protocol buffers), parsed and
// checked.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tessera {

struct SentencePieceModel {
  enum class Kind { unigram = 1, bpe = 2 };
  /// By the numbers of the format.
  enum class Type : std::uint8_t {
    normal = 1,
    unknown = 2,
    control = 3,
    user_defined = 4,
    unused = 5,
    byte = 6
  };

  struct Piece {
    std::string text;
    float score = 0;
    Type type = Type::normal;
  };

  struct Normalizer {
    std::string charsmap;
    bool add_dummy_prefix = true;
    bool remove_extra_whitespaces = true;
    bool escape_whitespaces = true;
  };

  SentencePieceModel() = default;
  SentencePieceModel(SentencePieceModel&&) =
      default;  // a copy's maps would point into the original
  SentencePieceModel& operator=(SentencePieceModel&&) = default;

  Kind kind = Kind::unigram;
  std::vector<Piece> pieces;
  Normalizer normalizer;
  Normalizer denormalizer;  ///< applied to what is decoded, when it has a charsmap
  bool byte_fallback = false;
  bool whitespace_is_suffix = false;
  std::string unknown_surface = " \xE2\x81\x87 ";  ///< what the unknown piece decodes to
  std::string bos_piece = "<s>", eos_piece = "</s>";

  std::int32_t unknown_id = -1;
  /// Pieces that text is made of (normal, user-defined, unused), and the others; a string may be
  /// in both.
  std::unordered_map<std::string_view, std::int32_t> ids, reserved_ids;

  Type type(std::int32_t id) const { return pieces[static_cast<std::size_t>(id)].type; }
  const std::string& text(std::int32_t id) const {
    return pieces[static_cast<std::size_t>(id)].text;
  }
  /// As SentencePiece looks a string up: the reserved pieces first, the unknown piece at last.
  std::int32_t id_of(std::string_view piece) const;
};

/// InputError names the file, the field and the byte.
SentencePieceModel parse_sentencepiece(std::string_view bytes, const std::string& what);

}  // namespace tessera
