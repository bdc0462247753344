#include "device/packed_matrix.h"

#include <algorithm>
#include <optional>

#include "base/checked.h"
#include "base/error.h"

namespace quire {
namespace {

constexpr std::int64_t kMostRows = std::int64_t{1} << 30, kMostColumns = std::int64_t{1} << 30;

bool is_weight_type(DType type) {
  return is_quantised(type) || type == DType::f32 || type == DType::f16 || type == DType::bf16;
}

}  // namespace

Status check_matrix(const TensorView& stored, const PackSpec& spec) {
  if (!is_weight_type(stored.type)) {
    return error(StatusCode::unsupported, "{}: {} is no type of a weight matrix", stored.name,
                 info(stored.type).name);
  }
  const std::optional<std::size_t> row = row_bytes(stored.type, stored.columns());
  if (!row) {
    return error(StatusCode::unsupported,
                 "{}: rows of {} elements are no whole blocks of {} ({} elements)", stored.name,
                 stored.columns(), info(stored.type).name, info(stored.type).block);
  }
  const std::optional<std::size_t> total =
      (CheckedSize(static_cast<std::uint64_t>(std::max<std::int64_t>(stored.rows(), 0))) *
       CheckedSize(*row))
          .get();
  if (stored.rows() <= 0 || stored.rows() > kMostRows || stored.columns() <= 0 ||
      stored.columns() > kMostColumns || !total || *total != stored.bytes.size()) {
    return error(StatusCode::internal, "{}: {} x {} elements of {} do not fill {} bytes",
                 stored.name, stored.rows(), stored.columns(), info(stored.type).name,
                 stored.bytes.size());
  }
  if (spec.unpermute_heads < 0 ||
      (spec.unpermute_heads > 0 && stored.rows() % (2 * std::int64_t{spec.unpermute_heads}) != 0)) {
    return error(StatusCode::malformed, "{}: {} rows are no {} heads of an even size", stored.name,
                 stored.rows(), spec.unpermute_heads);
  }
  return {};
}

}  // namespace quire
