// JSON: what parses is written so that it parses again, to the same text.
#include "base/json.h"
#include "fuzz/check.h"

using namespace quire;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Result<Json> value = parse_json(text);
  if (!value) return 0;
  const std::string written = dump_json(*value);
  const Result<Json> again = parse_json(written);
  fuzz::check(again.ok());
  fuzz::check(dump_json(*again) == written);
  return 0;
}
