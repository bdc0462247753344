#include "format/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "base/json.h"
#include "format/printable.h"

namespace quire::format {
namespace {

static_assert(std::endian::native == std::endian::little,
              "safetensors is read as it lies in memory");

constexpr std::size_t kLengthBytes = 8;
constexpr std::uint64_t kMostHeaderBytes = 100'000'000;  // the reference implementation's limit
constexpr JsonLimits kHeaderLimits = {.max_depth = 4, .reject_duplicate_keys = true};
constexpr const char* kMetadata = "__metadata__";

std::optional<DType> dtype_from_name(std::string_view name) {
  for (DType type : {DType::f32, DType::f16, DType::bf16, DType::u8}) {
    if (info(type).name == name) return type;
  }
  return std::nullopt;
}

// A tensor and its place in the data.
struct Entry {
  TensorView view;         // bytes still empty
  std::string unreadable;  // why it is, if it is
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

Status read_dtype(const Json& description, Entry& entry, const std::string& item) {
  const Json* dtype = description.find("dtype");
  const std::string* name = dtype ? dtype->string() : nullptr;
  if (!name) return error(StatusCode::malformed, "{}: \"dtype\" is no string", item);
  const std::optional<DType> type = dtype_from_name(*name);
  if (type) {
    entry.view.type = *type;
  } else {
    entry.unreadable =
        fmt::format("dtype {}, readable are F32, F16, BF16 and U8", printable(*name));
  }
  return {};
}

// Sets shape and dimensions; returns the number of elements (of a readable tensor).
Result<std::uint64_t> read_shape(const Json& description, Entry& entry, const std::string& item) {
  TensorView& view = entry.view;
  const Json* shape = description.find("shape");
  const JsonArray* extents = shape ? shape->array() : nullptr;
  if (!extents) return error(StatusCode::malformed, "{}: \"shape\" is no list", item);
  if (entry.unreadable.empty() && extents->size() > view.shape.size()) {
    entry.unreadable =
        fmt::format("{} dimensions, the most is {}", extents->size(), view.shape.size());
  }
  if (!entry.unreadable.empty()) return std::uint64_t{0};
  view.dimensions = static_cast<int>(extents->size());
  CheckedSize elements = 1;
  for (int i = 0; i < view.dimensions; ++i) {
    const std::int64_t* extent = (*extents)[i].integer();
    if (!extent || *extent < 1) {
      return error(StatusCode::malformed, "{}: dimension {} is no integer of 1 or more", item, i);
    }
    view.shape[i] = *extent;
    elements *= static_cast<std::uint64_t>(*extent);
  }
  const auto product = elements.get();
  if (!product || *product > static_cast<std::uint64_t>(INT64_MAX))
    return error(StatusCode::malformed, "{}: the product of its shape overflows", item);
  return std::uint64_t{*product};
}

Status read_offsets(const Json& description, Entry& entry, const std::string& item) {
  const Json* member = description.find("data_offsets");
  const JsonArray* offsets = member ? member->array() : nullptr;
  if (!offsets || offsets->size() != 2)
    return error(StatusCode::malformed, "{}: \"data_offsets\" is no list of two", item);
  const std::int64_t* begin = (*offsets)[0].integer();
  const std::int64_t* end = (*offsets)[1].integer();
  if (!begin || !end || *begin < 0 || *end < *begin)
    return error(StatusCode::malformed, "{}: \"data_offsets\" are no two ascending integers", item);
  entry.begin = static_cast<std::uint64_t>(*begin);
  entry.end = static_cast<std::uint64_t>(*end);
  return {};
}

Result<Entry> read_entry(const JsonMember& member, const std::string& file) {
  const auto& [name, description] = member;
  const std::string item = fmt::format("{}: tensor {}", file, printable(name));
  if (!description.object())
    return error(StatusCode::malformed, "{}: its description is no object", item);
  Entry entry;
  entry.view.name = name;
  if (Status read = read_dtype(description, entry, item); !read) return read;
  const Result<std::uint64_t> elements = read_shape(description, entry, item);
  if (!elements) return elements.status();
  if (Status read = read_offsets(description, entry, item); !read) return read;
  if (!entry.unreadable.empty()) return entry;
  const DTypeInfo& type = info(entry.view.type);
  const auto size =
      (CheckedSize(*elements) * CheckedSize(static_cast<std::uint64_t>(type.block_bytes))).get();
  if (!size || *size != entry.end - entry.begin) {
    return error(StatusCode::malformed,
                 "{}: {} elements of {} do not make the {} bytes of its data_offsets", item,
                 *elements, type.name, entry.end - entry.begin);
  }
  return entry;
}

Result<Json> read_header(std::span<const std::byte> bytes, const std::string& file) {
  if (bytes.size() < kLengthBytes)
    return error(StatusCode::malformed, "{}: header: needs {} bytes, the file has {}", file,
                 kLengthBytes, bytes.size());
  std::uint64_t length;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  if (length > kMostHeaderBytes)
    return error(StatusCode::malformed, "{}: header: {} bytes, the most is {}", file, length,
                 kMostHeaderBytes);
  if (length > bytes.size() - kLengthBytes)
    return error(StatusCode::malformed, "{}: header: needs {} bytes, the file has {}", file,
                 length + kLengthBytes, bytes.size());
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes,
                              static_cast<std::size_t>(length));
  if (!text.starts_with('{'))
    return error(StatusCode::malformed, "{}: header: does not start with a brace", file);
  Result<Json> header = parse_json(text, kHeaderLimits);
  if (!header)
    return error(header.status().code(), "{}: header: {}", file, header.status().message());
  return header;
}

// Points the sorted entries into the data, which they must cover exactly.
Result<SafetensorsFile> place(std::vector<Entry> entries, std::span<const std::byte> data,
                              std::size_t data_offset, const std::string& file) {
  SafetensorsFile result;
  result.tensors.reserve(entries.size());
  std::uint64_t covered = 0;
  for (Entry& entry : entries) {
    const std::string item = fmt::format("{}: tensor {}", file, printable(entry.view.name));
    if (entry.begin != covered) {
      return error(StatusCode::malformed, "{}: its data begin at {}, but those before end at {}",
                   item, entry.begin, covered);
    }
    if (entry.end > data.size()) {
      return error(StatusCode::malformed, "{}: needs {} bytes at offset {}, the file has {}", item,
                   entry.end - entry.begin, data_offset + entry.begin, data_offset + data.size());
    }
    entry.view.bytes = data.subspan(static_cast<std::size_t>(entry.begin),
                                    static_cast<std::size_t>(entry.end - entry.begin));
    covered = entry.end;
    if (entry.unreadable.empty()) {
      result.tensors.push_back(std::move(entry.view));
    } else {
      result.unreadable.push_back({std::move(entry.view.name), std::move(entry.unreadable)});
    }
  }
  if (covered != data.size()) {
    return error(StatusCode::malformed,
                 "{}: the tensors end after {} bytes of data, the file has {}", file, covered,
                 data.size());
  }
  return result;
}

Status check_shard_name(const std::string& name, const std::string& item) {
  constexpr std::string_view kEnding = ".safetensors";
  const bool plain = name.size() > kEnding.size() && name.ends_with(kEnding) &&
                     name.size() <= 255 &&
                     name.find_first_of(std::string_view("/\\:\0", 4)) == std::string::npos;
  if (plain) return {};
  return error(StatusCode::malformed,
               "{}: \"{}\" is not the name of a .safetensors file in this folder", item,
               printable(name));
}

}  // namespace

Result<SafetensorsFile> parse_safetensors(std::span<const std::byte> bytes,
                                          const std::string& file) {
  return guarded(file.c_str(), [&]() -> Result<SafetensorsFile> {
    const Result<Json> header = read_header(bytes, file);
    if (!header) return header.status();
    std::vector<Entry> entries;
    for (const JsonMember& member : *header->object()) {
      if (member.first == kMetadata) continue;
      Result<Entry> entry = read_entry(member, file);
      if (!entry) return entry.status();
      entries.push_back(*std::move(entry));
    }
    std::sort(entries.begin(), entries.end(),
              [](const Entry& a, const Entry& b) { return a.begin < b.begin; });
    std::uint64_t length;
    std::memcpy(&length, bytes.data(), kLengthBytes);
    const std::size_t data_offset = kLengthBytes + static_cast<std::size_t>(length);
    return place(std::move(entries), bytes.subspan(data_offset), data_offset, file);
  });
}

Result<std::vector<ShardEntry>> parse_shard_index(std::string_view text, const std::string& file) {
  return guarded(file.c_str(), [&]() -> Result<std::vector<ShardEntry>> {
    const Result<Json> json = parse_json(text);
    if (!json) return error(json.status().code(), "{}: {}", file, json.status().message());
    const Json* map = json->find("weight_map");
    if (!map || !map->object())
      return error(StatusCode::malformed, "{}: weight_map: is no object", file);
    std::vector<ShardEntry> entries;
    for (const auto& [tensor, shard] : *map->object()) {
      const std::string item = fmt::format("{}: tensor {}", file, printable(tensor));
      if (!shard.string()) return error(StatusCode::malformed, "{}: its shard is no string", item);
      if (Status checked = check_shard_name(*shard.string(), item); !checked) return checked;
      entries.push_back({tensor, *shard.string()});
    }
    return entries;
  });
}

}  // namespace quire::format
