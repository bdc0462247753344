#include "format/gguf_reader.h"

#include "base/error.h"

namespace quire::format {

Status ends_inside(const std::string& item, const GgufReader& reader) {
  return error(StatusCode::malformed, "{}: the file ends inside it, {} bytes after offset {}", item,
               reader.left(), reader.position());
}

Status string_error(const std::string& item, GgufReader reader) {
  const std::size_t offset = reader.position();
  const auto size = reader.number<std::uint64_t>();
  if (!size) return ends_inside(item, reader);
  return error(StatusCode::malformed, "{}: a string of {} bytes at offset {}, but {} are left",
               item, *size, offset, reader.left());
}

}  // namespace quire::format
