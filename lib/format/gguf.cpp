#include "format/gguf.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <unordered_set>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "format/gguf_metadata.h"
#include "format/gguf_reader.h"
#include "format/printable.h"

namespace quire::format {
namespace {

constexpr std::size_t kHeaderBytes = 24;       // magic, version, tensor_count, kv_count
constexpr std::size_t kLeastTensorBytes = 24;  // name length, n_dims, type, offset
constexpr std::size_t kMaxNameBytes = 64;      // the specification's
constexpr std::uint32_t kDefaultAlignment = 32;

Result<std::uint64_t> find_alignment(const GgufValues& values, const std::string& file) {
  const auto at = values.find("general.alignment");
  if (at == values.end()) return std::uint64_t{kDefaultAlignment};
  const auto* value = std::get_if<std::uint64_t>(&at->second.value);
  if (!value)
    return error(StatusCode::malformed, "{}: general.alignment: not an unsigned integer", file);
  if (*value > UINT32_MAX || !std::has_single_bit(*value))
    return error(StatusCode::malformed,
                 "{}: general.alignment: {} is not a power of two of 32 bits", file, *value);
  return *value;
}

// A tensor's description, and where its data starts, counted from the start of all data.
struct TensorInfo {
  TensorView view;  // bytes still empty
  std::uint64_t offset = 0;
  std::size_t size = 0;
};

Result<TensorInfo> read_tensor_info(GgufReader& reader, const std::string& file,
                                    std::uint64_t index) {
  TensorInfo info;
  std::string item = fmt::format("{}: tensor {}", file, index);
  const auto name = reader.string();
  if (!name) return string_error(item, reader);
  if (name->empty() || name->size() > kMaxNameBytes)
    return error(StatusCode::malformed, "{}: its name has {} bytes, allowed are 1 to {}", item,
                 name->size(), kMaxNameBytes);
  info.view.name = *name;
  item = fmt::format("{}: tensor {}", file, printable(*name));

  const auto dimensions = reader.number<std::uint32_t>();
  if (!dimensions) return ends_inside(item, reader);
  const auto most = static_cast<std::uint32_t>(info.view.shape.size());
  if (*dimensions > most)
    return error(StatusCode::malformed, "{}: {} dimensions, the most is {}", item, *dimensions,
                 most);
  info.view.dimensions = static_cast<int>(*dimensions);
  CheckedSize elements = 1;
  for (int i = info.view.dimensions - 1; i >= 0; --i) {  // the file has the contiguous one first
    const auto extent = reader.number<std::uint64_t>();
    if (!extent) return ends_inside(item, reader);
    if (*extent == 0 || *extent > static_cast<std::uint64_t>(INT64_MAX))
      return error(StatusCode::malformed, "{}: dimension {} is {}, allowed are 1 to {}", item,
                   info.view.dimensions - 1 - i, *extent, INT64_MAX);
    info.view.shape[i] = static_cast<std::int64_t>(*extent);
    elements *= *extent;
  }
  const auto type = reader.number<std::uint32_t>();
  const auto offset = reader.number<std::uint64_t>();
  if (!type || !offset) return ends_inside(item, reader);
  const std::optional<DType> dtype = dtype_from_gguf(*type);
  if (!dtype) return error(StatusCode::unsupported, "{}: unknown tensor type {}", item, *type);
  info.view.type = *dtype;
  info.offset = *offset;

  const DTypeInfo& stored = quire::info(*dtype);
  if (info.view.columns() % stored.block != 0)
    return error(StatusCode::malformed, "{}: rows of {} elements, but blocks of {} hold {}", item,
                 info.view.columns(), stored.name, stored.block);
  const auto total = elements.get();
  if (!total || *total > static_cast<std::uint64_t>(INT64_MAX))
    return error(StatusCode::malformed, "{}: the product of its dimensions overflows", item);
  const auto size = (CheckedSize(*total / static_cast<std::size_t>(stored.block)) *
                     CheckedSize(static_cast<std::uint64_t>(stored.block_bytes)))
                        .get();
  if (!size) return error(StatusCode::malformed, "{}: its size in bytes overflows", item);
  info.size = *size;
  return info;
}

Result<std::vector<TensorView>> read_tensors(GgufReader& reader, std::span<const std::byte> bytes,
                                             const std::string& file, std::uint64_t count,
                                             std::uint64_t alignment) {
  std::vector<TensorInfo> infos;
  if (!reader.has(count * kLeastTensorBytes))  // bounded by read_counts
    return error(StatusCode::malformed, "{}: the file ends inside its {} tensors", file, count);
  infos.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    Result<TensorInfo> info = read_tensor_info(reader, file, i);
    if (!info) return info.status();
    infos.push_back(*std::move(info));
  }

  const std::uint64_t data = round_up(std::uint64_t{reader.position()}, alignment);
  const std::size_t total = reader.position() + reader.left();
  std::unordered_set<std::string_view> names;
  for (TensorInfo& info : infos) {
    TensorView& view = info.view;
    const std::string item = fmt::format("{}: tensor {}", file, printable(view.name));
    if (!names.insert(view.name).second)
      return error(StatusCode::malformed, "{}: the name appears twice", item);
    if (info.offset % alignment != 0)
      return error(StatusCode::malformed, "{}: offset {} is not a multiple of the alignment {}",
                   item, info.offset, alignment);
    const auto start = (CheckedSize(data) + CheckedSize(info.offset)).get();
    if (!start) return error(StatusCode::malformed, "{}: offset {} overflows", item, info.offset);
    if (*start > total || info.size > total - *start)
      return error(StatusCode::malformed, "{}: needs {} bytes at offset {}, the file has {}", item,
                   info.size, *start, total);
    if (total == bytes.size()) view.bytes = bytes.subspan(*start, info.size);
  }

  std::vector<TensorView> tensors;
  tensors.reserve(infos.size());
  for (TensorInfo& info : infos) tensors.push_back(std::move(info.view));
  return tensors;
}

// Magic, version and the two counts, bounded by what is left.
struct Counts {
  std::uint64_t tensors = 0;
  std::uint64_t pairs = 0;
};

Result<Counts> read_counts(GgufReader& reader, const std::string& file) {
  const std::size_t size = reader.left();
  const auto magic = reader.number<std::uint32_t>();
  if (magic && std::memcmp(&*magic, "GGUF", 4) != 0)
    return error(StatusCode::malformed, "{}: magic: {:#010x} instead of \"GGUF\": not a GGUF file",
                 file, *magic);
  if (!reader.has(kHeaderBytes - sizeof *magic))
    return error(StatusCode::malformed, "{}: header: needs {} bytes, the file has {}", file,
                 kHeaderBytes, size);
  const auto version = *reader.number<std::uint32_t>();
  if (version != 2 && version != 3)
    return error(StatusCode::unsupported, "{}: version: {}, readable are 2 and 3", file, version);
  Counts counts;
  counts.tensors = *reader.number<std::uint64_t>();
  counts.pairs = *reader.number<std::uint64_t>();
  if (counts.tensors > reader.left() / kLeastTensorBytes)
    return error(StatusCode::malformed, "{}: tensor_count: {} tensors cannot be in {} bytes", file,
                 counts.tensors, reader.left());
  if (counts.pairs > reader.left() / kLeastPairBytes)
    return error(StatusCode::malformed, "{}: kv_count: {} keys cannot be in {} bytes", file,
                 counts.pairs, reader.left());
  return counts;
}

}  // namespace

Result<GgufHeader> GgufHeader::parse(std::span<const std::byte> bytes, const std::string& file) {
  GgufReader reader(bytes);
  return read(reader, bytes, file);
}

GgufHeader::Beginning GgufHeader::check_beginning(std::span<const std::byte> bytes,
                                                  std::size_t total, const std::string& file) {
  GgufReader reader(bytes, total);
  const Result<GgufHeader> header = read(reader, bytes, file);
  if (reader.needs_more()) return {Status(), true};
  return {header.status(), false};
}

Result<GgufHeader> GgufHeader::read(GgufReader& reader, std::span<const std::byte> bytes,
                                    const std::string& file) {
  return guarded(file.c_str(), [&]() -> Result<GgufHeader> {
    const Result<Counts> counts = read_counts(reader, file);
    if (!counts) return counts.status();
    Result<GgufValues> values = read_metadata(reader, file, counts->pairs);
    if (!values) return values.status();
    const Result<std::uint64_t> alignment = find_alignment(*values, file);
    if (!alignment) return alignment.status();
    Result<std::vector<TensorView>> tensors =
        read_tensors(reader, bytes, file, counts->tensors, *alignment);
    if (!tensors) return tensors.status();
    GgufHeader header;
    header.file_ = file;
    header.values_ = *std::move(values);
    header.tensors_ = *std::move(tensors);
    return header;
  });
}

}  // namespace quire::format