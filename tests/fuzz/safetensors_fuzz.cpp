// safetensors: any bytes give an error or views that cover the data exactly, one after the other.
#include "format/safetensors.h"
#include "fuzz/check.h"

using namespace quire;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  const Result<std::vector<TensorView>> tensors =
      format::parse_safetensors(bytes, "fuzz.safetensors");
  if (!tensors) return 0;
  const std::byte* next = nullptr;
  for (const TensorView& view : *tensors) {
    fuzz::check_view(view, bytes);
    fuzz::check(!next || view.bytes.data() == next);
    next = view.bytes.data() + view.bytes.size();
  }
  fuzz::check(!next || next == bytes.data() + bytes.size());
  return 0;
}
