#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <quire/status.h>
#include <quire/tokenizer.h>

#include "format/model_files.h"
#include "text/chat_template.h"

namespace quire::text {

// The tokenizer of a model, built from its files. Immutable: safe from any thread.
class TextTokenizer {
 public:
  // Byte-level BPE, SentencePiece (from tokenizer.model or from a GGUF vocabulary), or none (ids
  // only: encode fails with `unsupported`). An unknown pre-tokenizer is an error that lists the
  // known.
  static Result<std::unique_ptr<TextTokenizer>> create(const format::ModelFiles& files);
  virtual ~TextTokenizer() = default;

  virtual int vocabulary_size() const = 0;
  // Appends nothing at the ends. `text` may hold any bytes.
  virtual Result<std::vector<std::int32_t>> encode(std::string_view text,
                                                   bool parse_special) const = 0;
  // Encodes rendered template pieces: adjacent pieces are one text, but only trusted pieces may
  // form special tokens. No BOS is added when the pieces already start with it.
  virtual Result<std::vector<std::int32_t>> encode_pieces(
      std::span<const RenderedPiece> pieces) const = 0;
  // ids with the model's own BOS/EOS around, where it adds them and they are not there already.
  virtual std::vector<std::int32_t> add_special(std::vector<std::int32_t> ids) const = 0;

  // Bytes of a token as they join the text: control tokens give "" (their text is `special_text`),
  // an out-of-range id gives "".
  virtual std::string_view piece(std::int32_t id) const = 0;
  virtual bool is_special(std::int32_t id) const = 0;                // control tokens
  virtual std::string_view special_text(std::int32_t id) const = 0;  // "<|im_end|>"
  // SentencePiece models that strip the dummy prefix do so once per text.
  virtual bool strips_leading_space() const = 0;

  virtual std::optional<std::int32_t> bos() const = 0;
  virtual std::optional<std::int32_t> eos() const = 0;
  // The union of all end tokens: eos, eot, eom and generation_config's.
  virtual const std::vector<std::int32_t>& end_tokens() const = 0;
};

}  // namespace quire::text
