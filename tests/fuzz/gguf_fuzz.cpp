// GGUF: any bytes give an error or a header whose views lie inside the bytes.
#include "format/gguf.h"
#include "fuzz/check.h"

using namespace quire;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  const Result<format::GgufHeader> header = format::GgufHeader::parse(bytes, "fuzz.gguf");
  if (!header) {
    fuzz::check(!header.status().message().empty());
    return 0;
  }
  for (const TensorView& view : header->tensors()) fuzz::check_view(view, bytes);
  for (const char* key : {"tokenizer.ggml.tokens", "tokenizer.ggml.merges"}) {
    const Result<std::vector<std::string_view>> texts = header->strings(key);
    if (!texts) continue;
    for (std::string_view text : *texts) fuzz::check_inside(std::as_bytes(std::span(text)), bytes);
  }
  const Result<std::vector<float>> scores = header->reals("tokenizer.ggml.scores");
  fuzz::check(!scores || scores->size() <= size / 4);
  const Result<std::int64_t> layers = header->integer_or("llama.block_count", 1, 1000, 1);
  fuzz::check(!layers || (*layers >= 1 && *layers <= 1000));
  return 0;
}
