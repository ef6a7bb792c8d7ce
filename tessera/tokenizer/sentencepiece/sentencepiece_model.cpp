#include "tessera/tokenizer/sentencepiece/sentencepiece_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "tessera/base/check.h"
#include "tessera/tokenizer/sentencepiece/protobuf_reader.h"

namespace tessera {
namespace {

using Model = SentencePieceModel;

constexpr std::size_t kMaxPieces = std::size_t{1} << 24;
constexpr std::size_t kMaxPieceBytes = 8000;  // SentencePiece's own limit

// The numbers of the fields that matter here; the others say how the model was trained.
namespace field {
enum Proto : std::uint32_t { pieces = 1, trainer = 2, normalizer = 3, denormalizer = 5 };
enum Piece : std::uint32_t { text = 1, score = 2, type = 3 };
enum Trainer : std::uint32_t {
  model_type = 3,
  whitespace_is_suffix = 24,
  byte_fallback = 35,
  unknown_surface = 44,
  bos_piece = 46,
  eos_piece = 47
};
enum Normalizer : std::uint32_t {
  charsmap = 2,
  add_dummy_prefix = 3,
  remove_extra_whitespaces = 4,
  escape_whitespaces = 5
};
}  // namespace field

Model::Type parse_type(std::uint64_t number, std::size_t id, const std::string& what) {
  check_input(number >= 1 && number <= 6, "{}: piece {} has type {}; known are 1 to 6", what, id,
              number);
  return static_cast<Model::Type>(number);
}

Model::Piece parse_piece(ProtobufReader reader, std::size_t id, const std::string& what) {
  Model::Piece piece;
  while (reader.next()) {
    switch (reader.field()) {
      case field::text: piece.text = reader.bytes(); break;
      case field::score: piece.score = reader.real(); break;
      case field::type: piece.type = parse_type(reader.integer(), id, what); break;
      default: break;
    }
  }
  check_input(!piece.text.empty() && piece.text.size() < kMaxPieceBytes &&
                  piece.text.find('\0') == std::string::npos,
              "{}: piece {} has {} bytes; a piece has 1 to {}, and none of them is zero", what, id,
              piece.text.size(), kMaxPieceBytes - 1);
  check_input(std::isfinite(piece.score), "{}: the score of piece {} is {}", what, id, piece.score);
  return piece;
}

Model::Kind parse_kind(std::uint64_t number, const std::string& what) {
  check_input(number == 1 || number == 2,
              "{}: model type {} ({}) is not supported; supported are unigram (1) and BPE (2)",
              what, number,
              number == 3   ? "word"
              : number == 4 ? "char"
                            : "unknown");
  return static_cast<Model::Kind>(number);
}

void parse_trainer(ProtobufReader reader, Model& model, const std::string& what) {
  while (reader.next()) {
    switch (reader.field()) {
      case field::model_type: model.kind = parse_kind(reader.integer(), what); break;
      case field::whitespace_is_suffix: model.whitespace_is_suffix = reader.flag(); break;
      case field::byte_fallback: model.byte_fallback = reader.flag(); break;
      case field::unknown_surface: model.unknown_surface = reader.bytes(); break;
      case field::bos_piece: model.bos_piece = reader.bytes(); break;
      case field::eos_piece: model.eos_piece = reader.bytes(); break;
      default: break;
    }
  }
}

void parse_normalizer(ProtobufReader reader, Model::Normalizer& normalizer) {
  while (reader.next()) {
    switch (reader.field()) {
      case field::charsmap: normalizer.charsmap = reader.bytes(); break;
      case field::add_dummy_prefix: normalizer.add_dummy_prefix = reader.flag(); break;
      case field::remove_extra_whitespaces:
        normalizer.remove_extra_whitespaces = reader.flag();
        break;
      case field::escape_whitespaces: normalizer.escape_whitespaces = reader.flag(); break;
      default: break;
    }
  }
}

bool makes_text(Model::Type type) {
  return type == Model::Type::normal || type == Model::Type::user_defined ||
         type == Model::Type::unused;
}

void index_pieces(Model& model, const std::string& what) {
  for (std::size_t i = 0; i < model.pieces.size(); ++i) {
    const Model::Piece& piece = model.pieces[i];
    const auto id = static_cast<std::int32_t>(i);
    auto& ids = makes_text(piece.type) ? model.ids : model.reserved_ids;
    const auto [known, is_new] = ids.emplace(piece.text, id);
    check_input(is_new, "{}: pieces {} and {} are both '{:.100}'", what, known->second, i,
                piece.text);
    if (piece.type != Model::Type::unknown) continue;
    check_input(model.unknown_id < 0, "{}: pieces {} and {} are both the unknown piece", what,
                model.unknown_id, i);
    model.unknown_id = id;
  }
  check_input(model.unknown_id >= 0, "{}: no piece is of the type 'unknown'", what);
  check_input(!model.ids.empty(), "{}: there is no piece that text can be made of", what);
}

void check_byte_pieces(const Model& model, const std::string& what) {
  std::int64_t bytes = 0;
  for (int byte = 0; byte < 256; ++byte) {
    const auto found = model.reserved_ids.find(fmt::format("<0x{:02X}>", byte));
    bytes += found != model.reserved_ids.end() && model.type(found->second) == Model::Type::byte;
  }
  const auto of_type =
      std::count_if(model.pieces.begin(), model.pieces.end(),
                    [](const Model::Piece& piece) { return piece.type == Model::Type::byte; });
  const std::int64_t expected = model.byte_fallback ? 256 : 0;
  check_input(bytes == expected && of_type == expected,
              "{}: with byte_fallback {} there should be {} pieces for bytes, <0x00> to <0xFF>; "
              "there are {} of that type and {} of that name",
              what, model.byte_fallback, expected, of_type, bytes);
}

}  // namespace

std::int32_t SentencePieceModel::id_of(std::string_view piece) const {
  if (const auto found = reserved_ids.find(piece); found != reserved_ids.end())
    return found->second;
  const auto found = ids.find(piece);
  return found == ids.end() ? unknown_id : found->second;
}

SentencePieceModel parse_sentencepiece(std::string_view bytes, const std::string& what) {
  Model model;
  ProtobufReader reader(bytes, what);
  while (reader.next()) {
    switch (reader.field()) {
      case field::pieces: {
        const std::size_t id = model.pieces.size();
        check_input(id < kMaxPieces, "{}: more than {} pieces", what, kMaxPieces);
        model.pieces.push_back(parse_piece(reader.message("piece"), id, what));
        break;
      }
      case field::trainer: parse_trainer(reader.message("trainer_spec"), model, what); break;
      case field::normalizer:
        parse_normalizer(reader.message("normalizer_spec"), model.normalizer);
        break;
      case field::denormalizer:
        parse_normalizer(reader.message("denormalizer_spec"), model.denormalizer);
        break;
      default: break;
    }
  }
  check_input(!model.pieces.empty(), "{}: there are no pieces; is this a SentencePiece model?",
              what);
  index_pieces(model, what);
  check_byte_pieces(model, what);
  return model;
}

}  // namespace tessera
