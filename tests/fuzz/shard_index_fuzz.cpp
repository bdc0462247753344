// model.safetensors.index.json: whatever the text, a shard's name stays in the folder.
#include "format/safetensors.h"
#include "fuzz/check.h"

using namespace quire;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Result<std::vector<format::ShardEntry>> index =
      format::parse_shard_index(text, "fuzz.index.json");
  if (!index) return 0;
  for (const format::ShardEntry& entry : *index) {
    fuzz::check(entry.shard.find('/') == std::string::npos);
    fuzz::check(entry.shard.find('\\') == std::string::npos);
    fuzz::check(entry.shard.find('\0') == std::string::npos);
    fuzz::check(entry.shard.ends_with(".safetensors"));
  }
  return 0;
}
