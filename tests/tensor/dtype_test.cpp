#include "tensor/dtype.h"

#include <cstdint>

#include "catch.h"
#include "tensor/tensor_view.h"

using namespace quire;

TEST_CASE("the table of types is in the order of the enumeration") {
  for (int i = 0; i <= static_cast<int>(DType::u8); ++i) {
    const auto type = static_cast<DType>(i);
    CHECK(info(type).type == type);
    if (info(type).gguf_id >= 0) {
      CHECK(dtype_from_gguf(static_cast<std::uint32_t>(info(type).gguf_id)) == type);
    }
  }
}

TEST_CASE("GGUF numbers that name no readable type are nothing") {
  // Removed (4, 5, 31), internal (9, 15), newer or unknown; 2^32 - 1 is the "no number" mark as
  // unsigned.
  for (std::uint32_t id : {4u, 5u, 9u, 15u, 16u, 31u, 40u, 200u, 0x7fffffffu, 0xffffffffu}) {
    CHECK_FALSE(dtype_from_gguf(id));
  }
  CHECK(dtype_from_gguf(39) == DType::mxfp4);
}

TEST_CASE("a row has whole blocks and does not overflow") {
  CHECK(row_bytes(DType::q4_k, 512) == 288u);
  CHECK(row_bytes(DType::f32, 0) == 0u);
  CHECK_FALSE(row_bytes(DType::q4_k, 511));
  CHECK_FALSE(row_bytes(DType::q8_0, 16));
  CHECK_FALSE(row_bytes(DType::f32, -4));
  CHECK_FALSE(row_bytes(DType::f32, INT64_MAX));
}

TEST_CASE("a range of rows is a view of their bytes") {
  std::byte bytes[6 * 34];
  TensorView view;
  view.type = DType::q8_0;
  view.dimensions = 3;
  view.shape = {2, 3, 32, 0};
  view.bytes = bytes;
  CHECK(view.rows() == 6);
  CHECK(view.columns() == 32);
  CHECK(view.elements() == 192);
  const TensorView part = view.row_range(2, 3);
  CHECK(part.dimensions == 2);
  CHECK(part.rows() == 3);
  CHECK(part.bytes.data() == bytes + 2 * 34);
  CHECK(part.bytes.size() == 3 * 34);

  TensorView scalar;
  CHECK(scalar.elements() == 1);
}
