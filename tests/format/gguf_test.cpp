#include "format/gguf.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "catch.h"
#include "check_contains.h"
#include "emulated.h"
#include "gguf_writer.h"
#include "test_files.h"

using namespace quire;
using namespace quire::format;
using W = GgufWriter;

namespace {

constexpr std::uint32_t kF32 = 0, kQ4K = 12, kQ8 = 8;

Result<GgufHeader> parse(const std::string& bytes) {
  return GgufHeader::parse(bytes_of(bytes), "m.gguf");
}

// The message of a file that must be refused.
std::string refused(const W& writer, StatusCode code = StatusCode::malformed) {
  const Result<GgufHeader> header = parse(writer.bytes());
  REQUIRE_FALSE(header.ok());
  CHECK(header.status().code() == code);
  check_contains(header.status().message(), "m.gguf: ");
  return header.status().message();
}

// A file that has every type of value and a few tensors, and ends with its last tensor.
std::string every_kind() {
  W w;
  w.add("u8", W::u8, W::raw<std::uint8_t>(200)).add("i8", W::i8, W::raw<std::int8_t>(-3));
  w.add("u16", W::u16, W::raw<std::uint16_t>(65535)).add("i16", W::i16, W::raw<std::int16_t>(-300));
  w.add_u32("u32", 4000000000u).add("i32", W::i32, W::raw<std::int32_t>(-7));
  w.add("f32", W::f32, W::raw(0.25f)).add("f64", W::f64, W::raw(-1e300));
  w.add("bool", W::boolean, "\x01").add_string("string", std::string_view("a\0b", 3));
  w.add("u64", W::u64, W::raw(UINT64_MAX)).add("i64", W::i64, W::raw(INT64_MIN));
  w.add_array("a.u8", W::u8, 3, std::string("\x00\x01\xff", 3)).add_array("a.i8", W::i8, 1, "\xff");
  w.add_array("a.u16", W::u16, 1, W::raw<std::uint16_t>(65535));
  w.add_array("a.i16", W::i16, 1, W::raw<std::int16_t>(-2));
  w.add_array("a.i32", W::i32, 2, W::raw<std::int32_t>(-5) + W::raw<std::int32_t>(6));
  w.add_array("a.u32", W::u32, 1, W::raw(4000000000u))
      .add_array("a.u64", W::u64, 1, W::raw(std::uint64_t{9}));
  w.add_array("a.i64", W::i64, 1, W::raw(INT64_MIN)).add_array("a.f64", W::f64, 1, W::raw(0.5));
  w.add_array("a.f32", W::f32, 2, W::raw(1.5f) + W::raw(-2.5f));
  w.add_array("a.bool", W::boolean, 3, std::string("\x01\x00\x01", 3));
  w.add_strings("a.string", {"x", "", "yz"}).add_array("a.empty", W::f32, 0, "");
  w.add_tensor("vector", {5}, kF32, std::string(20, 'v'));
  w.add_tensor("matrix", {32, 2}, kQ8, std::string(68, 'm'));
  w.add_tensor("cube", {2, 3, 4}, kF32, std::string(96, 'c'));
  return w.bytes();
}

}  // namespace

TEST_CASE("metadata of every type is read as it was written") {
  const std::string bytes = every_kind();
  const Result<GgufHeader> h = parse(bytes);
  REQUIRE(h.ok());
  const std::int64_t least = INT64_MIN, most = INT64_MAX;
  CHECK(*h->integer("u8", 0, 255) == 200);
  CHECK(*h->integer("i8", least, most) == -3);
  CHECK(*h->integer("u16", least, most) == 65535);
  CHECK(*h->integer("i16", least, most) == -300);
  CHECK(*h->integer("u32", least, most) == 4000000000);
  CHECK(*h->integer("i32", least, most) == -7);
  CHECK(*h->integer("i64", least, most) == INT64_MIN);
  CHECK(*h->real_or("f32", 0) == 0.25);
  CHECK(*h->real_or("f64", 0) == -1e300);
  CHECK(*h->boolean_or("bool", false));
  CHECK(*h->string("string") == std::string_view("a\0b", 3));
  CHECK(*h->integers("a.u8") == std::vector<std::int64_t>{0, 1, 255});
  CHECK(*h->integers("a.i8") == std::vector<std::int64_t>{-1});
  CHECK(*h->integers("a.u16") == std::vector<std::int64_t>{65535});
  CHECK(*h->integers("a.i16") == std::vector<std::int64_t>{-2});
  CHECK(*h->integers("a.i32") == std::vector<std::int64_t>{-5, 6});
  CHECK(*h->integers("a.u32") == std::vector<std::int64_t>{4000000000});
  CHECK(*h->integers("a.u64") == std::vector<std::int64_t>{9});
  CHECK(*h->integers("a.i64") == std::vector<std::int64_t>{INT64_MIN});
  CHECK(*h->integers("a.bool") == std::vector<std::int64_t>{1, 0, 1});
  CHECK(*h->integers("u8") == std::vector<std::int64_t>{200});
  CHECK(*h->reals("a.f32") == std::vector<float>{1.5f, -2.5f});
  CHECK(*h->reals("a.f64") == std::vector<float>{0.5f});
  CHECK(h->reals("a.empty")->empty());
  CHECK(*h->strings("a.string") == std::vector<std::string_view>{"x", "", "yz"});
}

TEST_CASE("strings of a vocabulary are views into the file, not copies") {
  const std::string bytes = every_kind();
  const Result<GgufHeader> h = parse(bytes);
  const std::vector<std::string_view> texts = *h->strings("a.string");
  for (std::string_view text : texts) {
    CHECK(text.data() >= bytes.data());
    CHECK(text.data() + text.size() <= bytes.data() + bytes.size());
  }
}

TEST_CASE(
    "a typed read of another type or range names the key, what was found and what was wanted") {
  const std::string bytes = every_kind();
  const Result<GgufHeader> h = parse(bytes);
  const auto message = [](const auto& result, StatusCode code = StatusCode::malformed) {
    CHECK(result.status().code() == code);
    return result.status().message();
  };
  CHECK(message(h->integer("u8", 0, 100)) == "m.gguf: u8: 200 is outside 0 ... 100");
  CHECK(message(h->integer("i8", 0, 100)) == "m.gguf: i8: -3 is outside 0 ... 100");
  check_contains(message(h->integer("u64", 0, INT64_MAX)), "18446744073709551615 is outside");
  check_contains(message(h->integer("f32", 0, 9)), "f32: is a float, wanted is an integer");
  check_contains(message(h->integer("string", 0, 9)), "is a string");
  check_contains(message(h->integer("none", 0, 9), StatusCode::not_found),
                 "none: the key is missing");
  check_contains(message(h->string("none"), StatusCode::not_found), "none: the key is missing");
  check_contains(message(h->string("u8")), "is an unsigned integer, wanted is a string");
  check_contains(message(h->string_or("a.string", "")), "is an array of strings");
  check_contains(message(h->boolean_or("u8", true)), "wanted is a boolean");
  check_contains(message(h->real_or("i32", 1)), "is a signed integer, wanted is a float");
  check_contains(message(h->reals("a.u8")),
                 "a.u8: is an array of integers, wanted is an array of floats");
  check_contains(message(h->reals("a.string")), "is an array of strings");
  check_contains(message(h->integers("a.f32")),
                 "is an array of floats, wanted is an array of integers");
  check_contains(message(h->integers("f32")), "is a float");
  check_contains(message(h->integers("u64")), "is outside");
  check_contains(message(h->strings("a.u8")), "wanted is an array of strings");
  check_contains(message(h->strings("string")), "is a string, wanted is an array of strings");
}

TEST_CASE("absent keys give the default") {
  const std::string bytes = W().bytes();
  const Result<GgufHeader> h = parse(bytes);
  REQUIRE(h.ok());
  CHECK(h->find("x") == nullptr);
  CHECK(*h->integer_or("x", 5, 9, -1) == -1);
  CHECK(*h->real_or("x", 2.5) == 2.5);
  CHECK(*h->boolean_or("x", true));
  CHECK(*h->string_or("x", "d") == "d");
  CHECK(h->strings("x")->empty());
  CHECK(h->reals("x")->empty());
  CHECK(h->integers("x")->empty());
}

TEST_CASE("reals must be finite 32-bit floats") {
  W w;
  w.add("nan", W::f32, W::raw(NAN)).add_array("inf", W::f32, 2, W::raw(1.0f) + W::raw(INFINITY));
  w.add_array("large", W::f64, 1, W::raw(1e300));
  const std::string bytes = w.bytes();
  const Result<GgufHeader> h = parse(bytes);
  check_contains(h->real_or("nan", 0).status().message(), "nan: nan is not finite");
  check_contains(h->reals("inf").status().message(), "inf: item 1 is inf");
  check_contains(h->reals("large").status().message(), "large: item 0 is 1e+300");
}

TEST_CASE("tensors have their shape outermost first and exactly their bytes") {
  const std::string bytes = every_kind();
  const Result<GgufHeader> h = parse(bytes);
  const std::vector<TensorView>& tensors = h->tensors();
  REQUIRE(tensors.size() == 3);
  check_views(tensors, bytes_of(bytes));
  CHECK(tensors[0].dimensions == 1);
  CHECK(tensors[0].shape[0] == 5);
  CHECK(tensors[1].type == DType::q8_0);
  CHECK(tensors[1].rows() == 2);
  CHECK(tensors[1].columns() == 32);
  CHECK(tensors[1].bytes[0] == std::byte{'m'});
  CHECK(tensors[1].bytes[67] == std::byte{'m'});
  CHECK(tensors[2].dimensions == 3);
  CHECK(tensors[2].shape == std::array<std::int64_t, 4>{4, 3, 2, 0});
  CHECK(tensors[2].name == "cube");
  CHECK(tensors[2].bytes.data() + 96 == bytes_of(bytes).data() + bytes.size());
}

TEST_CASE("versions 2 and 3 are read, others are not") {
  for (std::uint32_t version : {2u, 3u}) {
    W w;
    w.version = version;
    CHECK(parse(w.bytes()).ok());
  }
  for (std::uint32_t version : {0u, 1u, 4u, 0x03000000u}) {  // the last is big-endian 3
    W w;
    w.version = version;
    check_contains(refused(w, StatusCode::unsupported), "version: ");
  }
}

// llama.cpp issue 26318: a wrong alignment hit an assertion.
TEST_CASE("the alignment must be an unsigned power of two") {
  check_contains(refused(W().add_u32("general.alignment", 0)), "general.alignment: 0");
  check_contains(refused(W().add_u32("general.alignment", 48)), "general.alignment: 48");
  check_contains(refused(W().add("general.alignment", W::i32, W::raw(32))), "general.alignment");
  check_contains(refused(W().add("general.alignment", W::u64, W::raw(std::uint64_t{1} << 32))),
                 "4294967296");
  check_contains(refused(W().add_string("general.alignment", "32")), "general.alignment");
  W w;
  w.alignment = 128;
  w.add_u32("general.alignment", 128)
      .add_tensor("t", {1}, kF32, "abcd")
      .add_tensor("u", {1}, kF32, "efgh");
  const std::string bytes = w.bytes();
  const Result<GgufHeader> h = parse(bytes);
  REQUIRE(h.ok());
  CHECK(h->tensors()[1].bytes.data() == bytes_of(bytes).data() + bytes.size() - 4);
  CHECK(h->tensors()[1].bytes[0] == std::byte{'e'});
  // A data start beyond the file.
  W far;
  far.add_u32("general.alignment", 1u << 31).add_tensor("t", {1}, kF32, "abcd");
  check_contains(refused(far), "tensor t: needs 4 bytes at offset 2147483648");
}

// llama.cpp issue 18674, and products that wrap around to something small.
TEST_CASE("dimensions whose product or size does not fit are refused") {
  const auto with = [](std::vector<std::uint64_t> extents, std::uint32_t type = kF32) {
    W w;
    w.add_tensor("token_embd.weight", extents, type, std::string(1024, 'x'));
    return refused(w);
  };
  const std::uint64_t large = std::uint64_t{1} << 32;
  check_contains(with({64, (std::uint64_t{1} << 42) + 1}), "token_embd.weight: needs");
  check_contains(with({large, large, 1, 1}), "token_embd.weight: the product");
  check_contains(with({large, large, large, large}), "token_embd.weight: the product");
  check_contains(with({large, large / 2}), "token_embd.weight: the product");  // 2^63 > INT64_MAX
  check_contains(with({large, large / 4}), "token_embd.weight: its size");     // 2^62 * 4
  check_contains(with({UINT64_MAX, 1}), "token_embd.weight: dimension 0");
  check_contains(with({16, 0}), "token_embd.weight: dimension 1 is 0");
  check_contains(with({16, 1, 1, 1, 1}), "token_embd.weight: 5 dimensions");
  check_contains(with({128, 2}, kQ4K), "rows of 128 elements, but blocks of Q4_K hold 256");
  check_contains(with({1, 256}, kQ4K), "rows of 1 elements");  // the total would divide
}

TEST_CASE("a tensor with one byte less than it needs is refused with both numbers") {
  W w;
  w.add_tensor("t", {4, 2}, kF32, std::string(31, 'x'));
  const std::size_t size = w.bytes().size();
  CHECK(refused(w) == "m.gguf: tensor t: needs 32 bytes at offset " + std::to_string(size - 31) +
                          ", the file has " + std::to_string(size));
}

TEST_CASE("a tensor of an unknown type is unsupported, by its number") {
  for (std::uint32_t type : {4u, 15u, 40u, 200u, 0xffffffffu}) {
    W w;
    w.add_tensor("blk.0.x", {32}, type, std::string(512, 'x'));
    check_contains(refused(w, StatusCode::unsupported),
                   "tensor blk.0.x: unknown tensor type " + std::to_string(type));
  }
}

TEST_CASE("duplicate keys and tensor names are refused") {
  check_contains(refused(W().add_u32("a", 1).add_u32("b", 1).add_u32("a", 1)),
                 "m.gguf: a: the key appears twice");
  W w;
  w.add_tensor("t", {1}, kF32, "abcd").add_tensor("t", {1}, kF32, "efgh");
  check_contains(refused(w), "tensor t: the name appears twice");
}

TEST_CASE("names have a length, and those in messages cannot carry control bytes") {
  check_contains(refused(W().add_u32("", 1)), "key 0: its name has 0 bytes");
  check_contains(refused(W().add_u32(std::string(65536, 'k'), 1)), "its name has 65536 bytes");
  CHECK(refused(W().add("a\n\x1b[31m\xff", 77, "")) == "m.gguf: a??[31m?: unknown value type 77");
  W w;
  w.add_tensor(std::string(65, 'n'), {1}, kF32, "abcd");
  check_contains(refused(w), "tensor 0: its name has 65 bytes");
}

TEST_CASE("array counts are bounded by the bytes that are left") {
  for (std::uint64_t count :
       {std::uint64_t{3}, std::uint64_t{1} << 61, (std::uint64_t{1} << 61) + 1, UINT64_MAX}) {
    for (std::uint32_t type : {W::u64, W::f64, W::string}) {
      take_largest_allocation();
      check_contains(refused(W().add_array("key", type, count, std::string(17, '\0'))),
                     "key: an array of ");
      CHECK(take_largest_allocation() < 4096);
    }
  }
  check_contains(refused(W().add_array("key", W::array, 1, W::raw(0u) + W::raw(std::uint64_t{0})),
                         StatusCode::unsupported),
                 "key: an array of arrays");
  check_contains(refused(W().add_array("key", 13, 0, "")), "key: an array of unknown type 13");
  check_contains(
      refused(W().add_array("key", W::u64, 1, W::raw(UINT64_MAX)), StatusCode::unsupported),
      "key: item 0");
  check_contains(refused(W().add_array("key", W::string, 1, W::raw(std::uint64_t{1}))),
                 "key: item 0");
  check_contains(refused(W().add("key", W::boolean, "\x02")), "key: a boolean with the value 2");
  check_contains(refused(W().add_array("key", W::boolean, 1, "\x02")),
                 "key: a boolean with the value 2");
}

TEST_CASE("every prefix of a file is refused, and says where it ends") {
  const std::string whole = every_kind();
  REQUIRE(parse(whole).ok());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::string prefix =
        whole.substr(0, size);  // its own allocation, so that sanitizers see the end
    const Result<GgufHeader> header = parse(prefix);
    CAPTURE(size);
    REQUIRE_FALSE(header.ok());
    REQUIRE(header.status().code() == StatusCode::malformed);
  }
}

TEST_CASE("random changes to a file never give a view outside it or ask for much memory") {
  const std::string whole = every_kind();
  const std::uint32_t seed = std::random_device()();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const std::uint64_t hostile[] = {
      0, 1, 8, 255, 1u << 31, UINT32_MAX, std::uint64_t{1} << 60, INT64_MAX, UINT64_MAX};
  int opened = 0;
  for (int i = 0; i < (testing::kEmulated ? 8000 : 40000); ++i) {
    std::string bytes = whole;
    const std::size_t at = random() % bytes.size();
    if (i % 2 == 0) {
      bytes[at] = static_cast<char>(random());
    } else {
      const std::uint64_t value = hostile[random() % std::size(hostile)];
      std::memcpy(bytes.data() + at, &value, std::min<std::size_t>(8, bytes.size() - at));
    }
    take_largest_allocation();
    const Result<GgufHeader> header = parse(bytes);
    if (take_largest_allocation() > 16 * bytes.size()) FAIL("a large allocation in round " << i);
    if (!header) continue;
    ++opened;
    check_views(header->tensors(), bytes_of(bytes));
  }
  CHECK(opened > (testing::kEmulated ? 200 : 1000));  // otherwise the test looks at nothing
}
