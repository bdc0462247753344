#include "text/text_tokenizer.h"

#include <utility>

#include "base/error.h"
#include "text/gguf_vocabulary.h"
#include "text/huggingface_vocabulary.h"
#include "text/vocabulary_tokenizer.h"

namespace quire::text {

Result<std::unique_ptr<TextTokenizer>> TextTokenizer::create(const format::ModelFiles& files) {
  return guarded("tokenizer", [&]() -> Result<std::unique_ptr<TextTokenizer>> {
    auto parts =
        files.gguf() ? tokenizer_from_gguf(*files.gguf()) : tokenizer_from_huggingface(files);
    if (!parts) return parts.status();
    return std::unique_ptr<TextTokenizer>(std::make_unique<VocabularyTokenizer>(std::move(*parts)));
  });
}

}  // namespace quire::text
