// safetensors: any bytes give an error or views that cover the data exactly, one after the other.
#include "format/safetensors.h"
#include "fuzz/check.h"

using namespace quire;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  const Result<format::SafetensorsFile> file = format::parse_safetensors(bytes, "fuzz.safetensors");
  if (!file) return 0;
  const bool whole = file->unreadable.empty();
  const std::byte* next = nullptr;
  for (const TensorView& view : file->tensors) {
    fuzz::check_view(view, bytes);
    fuzz::check(!next || (whole ? view.bytes.data() == next : view.bytes.data() >= next));
    next = view.bytes.data() + view.bytes.size();
  }
  fuzz::check(!whole || !next || next == bytes.data() + bytes.size());
  return 0;
}
