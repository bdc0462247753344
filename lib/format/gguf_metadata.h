#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include <quire/status.h>

#include "format/gguf.h"
#include "format/gguf_reader.h"

namespace quire::format {

using GgufValues = std::map<std::string, GgufValue, std::less<>>;

constexpr std::size_t kLeastPairBytes = 13;  // key length, type, a value of one byte

// Reads `count` pairs of key and value. Fails on a key that appears twice and on arrays of arrays.
Result<GgufValues> read_metadata(GgufReader& reader, const std::string& file, std::uint64_t count);

}  // namespace quire::format
