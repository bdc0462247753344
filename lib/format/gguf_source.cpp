#include "format/gguf_source.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace quire::format {
namespace {

constexpr std::int64_t kMostParts = 99999;  // what the naming scheme can count

// "-00001-of-00004.gguf"
std::string part_suffix(std::int64_t number, std::int64_t count) {
  return fmt::format("-{:05}-of-{:05}.gguf", number, count);
}

Status add_chat_template(OpenedModel& model) {
  const char* key = "tokenizer.chat_template";
  if (!model.gguf->find(key)) return {};
  const Result<std::string_view> text = model.gguf->string(key);
  if (!text) return text.status();
  model.chat_template = std::string(*text);
  return {};
}

// The keys that a part of a split has. A file that is no split counts as part 0 of 1.
struct SplitPlace {
  std::int64_t number = 0;
  std::int64_t count = 1;
};

Result<SplitPlace> split_place(const GgufHeader& header) {
  const Result<std::int64_t> count = header.integer_or("split.count", 0, kMostParts, 1);
  if (!count) return count.status();
  const Result<std::int64_t> number = header.integer_or("split.no", 0, kMostParts, 0);
  if (!number) return number.status();
  return SplitPlace{*number, std::max<std::int64_t>(*count, 1)};
}

// Adds the header of the only or first file.
Status add_first(OpenedModel& model, std::span<const std::byte> bytes, const std::string& file) {
  Result<GgufHeader> header = GgufHeader::parse(bytes, file);
  if (!header) return header.status();
  model.gguf = *std::move(header);
  model.file_bytes = bytes.size();
  if (Status added = model.add_tensors(model.gguf->tensors(), file); !added) return added;
  return add_chat_template(model);
}

Status add_part(OpenedModel& model, const std::string& path, const SplitPlace& wanted) {
  Result<MappedFile> file = MappedFile::open(path);
  if (!file) {
    return error(file.status().code(), "{} (part {} of the split model {})",
                 file.status().message(), wanted.number + 1, model.name);
  }
  const Result<GgufHeader> header = GgufHeader::parse(file->bytes(), path);
  if (!header) return header.status();
  const Result<SplitPlace> place = split_place(*header);
  if (!place) return place.status();
  if (place->number != wanted.number || place->count != wanted.count) {
    return error(StatusCode::malformed, "{}: split.no {} of split.count {}, wanted is {} of {}",
                 path, place->number, place->count, wanted.number, wanted.count);
  }
  model.file_bytes += file->bytes().size();
  if (Status added = model.add_tensors(header->tensors(), path); !added) return added;
  model.mappings.push_back(*std::move(file));
  return {};
}

Status add_other_parts(OpenedModel& model, const std::string& path, std::int64_t count) {
  const std::string suffix = part_suffix(1, count);
  if (!path.ends_with(suffix)) {
    return error(StatusCode::malformed,
                 "{}: split.count is {}, but the file name does not end in {}: open the first part",
                 path, count, suffix);
  }
  const std::string stem = path.substr(0, path.size() - suffix.size());
  for (std::int64_t i = 1; i < count; ++i) {
    Status added = add_part(model, stem + part_suffix(i + 1, count), {i, count});
    if (!added) return added;
  }
  const auto tensors = static_cast<std::int64_t>(model.tensors.size());
  const Result<std::int64_t> total =
      model.gguf->integer_or("split.tensors.count", 0, INT64_MAX, tensors);
  if (!total) return total.status();
  if (*total != tensors) {
    return error(StatusCode::malformed,
                 "{}: split.tensors.count is {}, the {} parts hold {} tensors", path, *total, count,
                 tensors);
  }
  return {};
}

Status refuse_split(const OpenedModel& model) {
  const Result<SplitPlace> place = split_place(*model.gguf);
  if (!place) return place.status();
  if (place->count > 1) {
    return error(StatusCode::unsupported,
                 "{}: part {} of {} of a split model: a split is opened by its path", model.name,
                 place->number + 1, place->count);
  }
  return {};
}

// Calls the host's function; what it throws becomes a Status.
Status read_piece(const CallbackModel& callback, std::uint64_t offset, std::span<std::byte> into) {
  std::string why = "it returned false";
  try {
    if (callback.read(offset, into)) return {};
  } catch (const std::exception& e) {
    why = fmt::format("it threw: {}", e.what());
  } catch (...) {
    why = "it threw";
  }
  return error(StatusCode::io_error, "callback: cannot read {} bytes at offset {}: {}", into.size(),
               offset, why);
}

// The first bytes of the model, with the whole header, which has been checked: before memory for
// the rest is asked for, and reading no more than a few times what the check has needed.
Result<std::vector<std::byte>> read_beginning(const CallbackModel& callback, std::size_t size,
                                              const std::string& name) {
  constexpr std::size_t kFirst = 4096;
  constexpr std::size_t kMostHeader = std::size_t{1} << 30;
  std::vector<std::byte> bytes;
  for (std::size_t wanted = kFirst;; wanted *= 4) {
    const std::size_t before = bytes.size();
    bytes.resize(std::min(wanted, size));
    Status read = read_piece(callback, before, std::span(bytes).subspan(before));
    if (!read.ok()) return read;
    GgufHeader::Beginning beginning = GgufHeader::check_beginning(bytes, size, name);
    if (!beginning.status.ok()) return beginning.status;
    if (!beginning.needs_more) return bytes;
    if (wanted >= kMostHeader) {
      return error(StatusCode::malformed, "{}: its header is longer than {} bytes", name, wanted);
    }
  }
}

}  // namespace

Result<OpenedModel> open_gguf_file(const std::string& path, ModelParts parts) {
  OpenedModel model;
  model.name = path;
  Result<MappedFile> file = MappedFile::open(path);
  if (!file) return file.status();
  model.mappings.push_back(*std::move(file));
  if (Status added = add_first(model, model.mappings.front().bytes(), path); !added) return added;
  const Result<SplitPlace> place = split_place(*model.gguf);
  if (!place) return place.status();
  if (place->number != 0) {
    return error(StatusCode::invalid_argument,
                 "{}: split.no is {}: open the first part of a split model", path, place->number);
  }
  if (place->count > 1 && parts == ModelParts::everything) {
    if (Status added = add_other_parts(model, path, place->count); !added) return added;
  }
  return model;
}

Result<OpenedModel> open_gguf_memory(const MemoryModel& memory) {
  OpenedModel model;
  model.name = "memory";
  if (Status added = add_first(model, memory.bytes, model.name); !added) return added;
  if (Status refused = refuse_split(model); !refused) return refused;
  return model;
}

Result<OpenedModel> open_gguf_callback(const CallbackModel& callback) {
  OpenedModel model;
  model.name = "callback";
  if (!callback.read)
    return Status(StatusCode::invalid_argument, "callback: the model has no read function");
  if (callback.size > SIZE_MAX / 2)
    return error(StatusCode::out_of_memory, "callback: {} bytes are more than can be addressed",
                 callback.size);
  const auto size = static_cast<std::size_t>(callback.size);
  const Result<std::vector<std::byte>> beginning = read_beginning(callback, size, model.name);
  if (!beginning) return beginning.status();
  try {
    model.owned = std::make_unique_for_overwrite<std::byte[]>(size);
  } catch (const std::bad_alloc&) {
    return error(StatusCode::out_of_memory, "callback: no memory for the {} bytes of the model",
                 size);
  }
  std::copy(beginning->begin(), beginning->end(), model.owned.get());
  constexpr std::size_t kPiece = std::size_t{16} << 20;
  for (std::size_t at = beginning->size(); at < size; at += kPiece) {
    const std::span<std::byte> into(model.owned.get() + at, std::min(kPiece, size - at));
    if (Status read = read_piece(callback, at, into); !read) return read;
  }
  if (Status added = add_first(model, {model.owned.get(), size}, model.name); !added) return added;
  if (Status refused = refuse_split(model); !refused) return refused;
  return model;
}

}  // namespace quire::format
