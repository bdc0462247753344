#include "text/model_proto.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "text/token_spelling.h"
#include "text/utf8.h"

namespace quire::text {
namespace {

constexpr std::int64_t most_pieces = 1 << 24;
// The library builds a trie of pieces with a recursion per byte (google/sentencepiece#1263).
constexpr std::size_t longest_piece = 1024;

// What the library can hold as text: it refuses NUL (google/sentencepiece#1308).
bool is_plain_text(std::string_view text) {
  if (text.empty() || text.size() > longest_piece) return false;
  while (!text.empty()) {
    const Utf8Step step = next_utf8(text);
    if (step.kind != Utf8Step::Kind::character || step.code_point == 0) return false;
    text.remove_prefix(step.length);
  }
  return true;
}

// Protocol buffers' wire format: fields of varints (0), 64 bits (1), bytes (2), 32 bits (5).
struct WireField {
  std::uint32_t number = 0;
  int type = 0;
  std::uint64_t value = 0;  // of a varint or of 32 or 64 bits
  std::string_view bytes;
};

class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : rest_(bytes) {}
  bool at_end() const { return rest_.empty(); }
  // The next field, or nothing if the bytes break the format.
  std::optional<WireField> next() {
    const auto tag = varint();
    if (!tag || *tag >> 3 == 0 || *tag > 0xFFFFFFFF) return std::nullopt;
    WireField field{static_cast<std::uint32_t>(*tag >> 3), static_cast<int>(*tag & 7), 0, {}};
    switch (field.type) {
      case 0: {
        const auto value = varint();
        if (!value) return std::nullopt;
        field.value = *value;
        return field;
      }
      case 1:
        return fixed(field, 8);
      case 5:
        return fixed(field, 4);
      case 2: {
        const auto size = varint();
        if (!size || *size > rest_.size()) return std::nullopt;
        field.bytes = rest_.substr(0, static_cast<std::size_t>(*size));
        rest_.remove_prefix(field.bytes.size());
        return field;
      }
      default:
        return std::nullopt;
    }
  }

 private:
  std::optional<std::uint64_t> varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(rest_[0]);
      rest_.remove_prefix(1);
      value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    return std::nullopt;
  }
  std::optional<WireField> fixed(WireField field, std::size_t size) {
    if (rest_.size() < size) return std::nullopt;
    for (std::size_t i = 0; i < size; ++i) {
      field.value |= static_cast<std::uint64_t>(static_cast<unsigned char>(rest_[i])) << (8 * i);
    }
    rest_.remove_prefix(size);
    return field;
  }
  std::string_view rest_;
};

Status broken(const std::string& file, std::string_view where) {
  return error(StatusCode::malformed, "{}: {} is not a protocol buffer message", file, where);
}

Status read_piece(std::string_view bytes, const std::string& file, PieceModel& model) {
  PieceModel::Piece piece;
  const std::size_t id = model.pieces.size();
  std::uint64_t kind = 1;
  for (WireReader reader(bytes); !reader.at_end();) {
    const auto field = reader.next();
    if (!field) return broken(file, fmt::format("piece {}", id));
    if (field->number == 1 && field->type == 2) piece.text = field->bytes;
    if (field->number == 2 && field->type == 5) {
      piece.score = std::bit_cast<float>(static_cast<std::uint32_t>(field->value));
    }
    if (field->number == 3 && field->type == 0) kind = field->value;
  }
  if (kind < 1 || kind > 6) {
    return error(StatusCode::malformed, "{}: piece {} has type {}, want 1 to 6", file, id, kind);
  }
  piece.kind = static_cast<TokenKind>(kind);
  if (!is_plain_text(piece.text)) {
    return error(StatusCode::malformed,
                 "{}: piece {} of {} bytes is not UTF-8 of 1 to {} bytes without NUL", file, id,
                 piece.text.size(), longest_piece);
  }
  if (!std::isfinite(piece.score)) {
    return error(StatusCode::malformed, "{}: piece {} has a score that is not finite", file, id);
  }
  if (piece.kind == TokenKind::byte && !parse_byte_piece(piece.text)) {
    return error(StatusCode::malformed, "{}: piece {} is a byte but is not written <0xHH>", file,
                 id);
  }
  if (piece.kind == TokenKind::unknown) model.unknown = static_cast<std::int32_t>(id);
  model.pieces.push_back(piece);
  return {};
}

Status read_trainer_spec(std::string_view bytes, const std::string& file, PieceModel& model) {
  const auto id = [](std::uint64_t value) -> std::optional<std::int32_t> {
    if (value > 0x7FFFFFFF) return std::nullopt;  // a negative id: there is no such token
    return static_cast<std::int32_t>(value);
  };
  for (WireReader reader(bytes); !reader.at_end();) {
    const auto field = reader.next();
    if (!field) return broken(file, "trainer_spec");
    if (field->type != 0) continue;
    if (field->number == 3 && (field->value < 1 || field->value > 4)) {
      return error(StatusCode::malformed, "{}: model_type is {}, want 1 to 4", file, field->value);
    }
    if (field->number == 24) model.space_is_suffix = field->value != 0;
    if (field->number == 41) model.bos = id(field->value);
    if (field->number == 42) model.eos = id(field->value);
  }
  return {};
}

// The library walks the normaliser's trie without bounds (google/sentencepiece#1269). It is a
// double array (darts-clone): a unit's children are at index ^ offset ^ byte, and a leaf's value is
// where its replacement starts, a text that ends with NUL.
Status check_character_map(std::string_view map, const std::string& file) {
  if (map.empty()) return {};
  const auto malformed = [&](std::string_view what) {
    return error(StatusCode::malformed, "{}: precompiled_charsmap of {} bytes: {}", file,
                 map.size(), what);
  };
  std::uint32_t trie_size = 0;
  if (map.size() <= sizeof trie_size) return malformed("it has no trie");
  std::memcpy(&trie_size, map.data(), sizeof trie_size);
  const std::string_view rest = map.substr(sizeof trie_size);
  if (trie_size == 0 || trie_size % 1024 != 0 || trie_size >= rest.size()) {
    return malformed(fmt::format("its trie has {} bytes", trie_size));
  }
  const std::string_view texts = rest.substr(trie_size);
  if (texts.back() != '\0') return malformed("its last text has no end");
  std::vector<std::uint32_t> units(trie_size / 4);
  std::memcpy(units.data(), rest.data(), trie_size);
  constexpr std::uint32_t leaf = 1u << 31;
  for (std::uint32_t i = 0; i < units.size(); ++i) {
    const std::uint32_t unit = units[i];
    if (unit & leaf) {
      if (i == 0) return malformed("its root is a leaf");
      continue;
    }
    const std::uint32_t offset = (unit >> 10) << ((unit & (1u << 9)) >> 6);
    const std::uint32_t children = i ^ offset;
    if ((children | 0xFF) >= units.size()) {
      return malformed(fmt::format("unit {} points beyond {} units", i, units.size()));
    }
    const bool has_value = (unit >> 8) & 1;
    if (has_value && (units[children] & ~leaf) >= texts.size()) {
      return malformed(fmt::format("unit {} points beyond {} bytes of text", i, texts.size()));
    }
  }
  return {};
}

Status read_normalizer_spec(std::string_view bytes, const std::string& file, PieceModel& model) {
  for (WireReader reader(bytes); !reader.at_end();) {
    const auto field = reader.next();
    if (!field) return broken(file, "normalizer_spec");
    if (field->number == 2 && field->type == 2) model.character_map = field->bytes;
    if (field->type != 0) continue;
    if (field->number == 3) model.adds_prefix_space = field->value != 0;
    if (field->number == 4) model.removes_extra_spaces = field->value != 0;
  }
  return check_character_map(model.character_map, file);
}

}  // namespace

std::string without_prefix_space(std::string_view proto) {
  // normalizer_spec (field 3) with add_dummy_prefix (field 3 of it) = 0. A message that occurs
  // twice is merged, the later value of a field counts.
  constexpr std::string_view spec("\x1A\x02\x18\x00", 4);
  return std::string(proto).append(spec);
}

Result<PieceModel> read_model_proto(std::string_view bytes, const std::string& file) {
  PieceModel model;
  // Defaults of the message type.
  model.adds_prefix_space = true;
  model.removes_extra_spaces = true;
  model.bos = 1;
  model.eos = 2;
  for (WireReader reader(bytes); !reader.at_end();) {
    const auto field = reader.next();
    if (!field) return broken(file, "the model");
    if (field->type != 2) continue;
    Status status;
    if (field->number == 1) status = read_piece(field->bytes, file, model);
    if (field->number == 2) status = read_trainer_spec(field->bytes, file, model);
    if (field->number == 3) status = read_normalizer_spec(field->bytes, file, model);
    if (field->number == 5) {
      PieceModel denormalizer;
      status = read_normalizer_spec(field->bytes, file, denormalizer);
    }
    if (!status) return status;
    if (static_cast<std::int64_t>(model.pieces.size()) > most_pieces) {
      return error(StatusCode::malformed, "{}: more than {} pieces", file, most_pieces);
    }
  }
  if (model.pieces.empty()) return error(StatusCode::malformed, "{}: it has no pieces", file);
  const auto count = static_cast<std::int64_t>(model.pieces.size());
  if (model.bos && *model.bos >= count) model.bos.reset();
  if (model.eos && *model.eos >= count) model.eos.reset();
  return model;
}

}  // namespace quire::text
