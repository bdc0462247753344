#include "format/safetensors.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "catch.h"
#include "check_contains.h"
#include "emulated.h"
#include "test_files.h"

using namespace quire;
using namespace quire::format;

namespace {

std::string file_of(std::string_view header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes.append(header) + std::string(data_bytes, 'd');
}

Result<std::vector<TensorView>> parse(const std::string& bytes) {
  auto file = parse_safetensors(bytes_of(bytes), "m.safetensors");
  if (!file) return file.status();
  return std::move(file->tensors);
}

std::string refused(const std::string& bytes, StatusCode code = StatusCode::malformed) {
  const Result<std::vector<TensorView>> tensors = parse(bytes);
  REQUIRE_FALSE(tensors.ok());
  CHECK(tensors.status().code() == code);
  check_contains(tensors.status().message(), "m.safetensors");
  return tensors.status().message();
}

// One tensor "t" in a file with so many bytes of data.
std::string one(std::string_view description, std::size_t data_bytes) {
  return file_of("{\"t\":" + std::string(description) + "}", data_bytes);
}

const std::string kGood =
    R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[20,32]},)"
    R"("a":{"dtype":"F32","shape":[5],"data_offsets":[0,20]},"s":{"dtype":"F16","shape":[],"data_offsets":[32,34]},)"
    R"("u":{"dtype":"U8","shape":[1,2,1,2],"data_offsets":[34,38]}}  )";

}  // namespace

TEST_CASE("safetensors: tensors have the type, shape and bytes that the header says") {
  const std::string bytes = file_of(kGood, 38);
  const Result<std::vector<TensorView>> tensors = parse(bytes);
  REQUIRE(tensors.ok());
  REQUIRE(tensors->size() == 4);
  check_views(*tensors, bytes_of(bytes));
  const std::byte* data = bytes_of(bytes).data() + bytes.size() - 38;
  const TensorView& a = tensors->at(0);
  CHECK(a.name == "a");
  CHECK(a.type == DType::f32);
  CHECK(a.dimensions == 1);
  CHECK(a.bytes.data() == data);
  const TensorView& b = tensors->at(1);
  CHECK(b.type == DType::bf16);
  CHECK(b.rows() == 2);
  CHECK(b.columns() == 3);
  CHECK(b.bytes.data() == data + 20);
  CHECK(tensors->at(2).dimensions == 0);
  CHECK(tensors->at(2).elements() == 1);
  CHECK(tensors->at(3).type == DType::u8);
  CHECK(tensors->at(3).shape == std::array<std::int64_t, 4>{1, 2, 1, 2});
}

TEST_CASE("safetensors: a file without tensors is readable") {
  CHECK(parse(file_of("{}", 0))->empty());
  check_contains(refused(file_of("{}", 1)), "end after 0 bytes of data, the file has 1");
}

TEST_CASE("safetensors: the header must fit, be JSON and have no duplicate keys") {
  check_contains(refused(""), "header: needs 8 bytes, the file has 0");
  check_contains(refused("1234567"), "the file has 7");
  std::string bytes = file_of("{}", 0);
  bytes[0] = 3;
  check_contains(refused(bytes), "header: needs 11 bytes, the file has 10");
  check_contains(refused(std::string(8, '\xff')),
                 "header: 18446744073709551615 bytes, the most is 100000000");
  check_contains(refused(file_of("", 0)), "brace");
  check_contains(refused(file_of(" {}", 0)), "brace");
  check_contains(refused(file_of("[]", 0)), "brace");
  check_contains(refused(file_of("{\"a\":", 0)), "header: JSON: byte");
  check_contains(refused(file_of("{}x", 0)), "header: JSON: byte");
  check_contains(refused(file_of("{\"\xff\":1}", 0)), "header: JSON: byte");
  const std::string t = R"("t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  check_contains(refused(file_of("{" + t + "," + t + "}", 1)), "\"t\" appears twice");
  check_contains(refused(one(R"({"dtype":"U8","shape":[1],"shape":[1],"data_offsets":[0,1]})", 1)),
                 "\"shape\" appears twice");
  check_contains(refused(one("[[[[[[1]]]]]]", 0)), "nested deeper");
}

TEST_CASE("safetensors: a tensor that cannot be read is set aside, but must lie where it should") {
  const std::string header =
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
      R"("ids":{"dtype":"I64","shape":[3],"data_offsets":[8,32]},)"
      R"("conv":{"dtype":"F32","shape":[1,1,1,1,2],"data_offsets":[32,40]}})";
  const std::string bytes = file_of(header, 40);
  const Result<SafetensorsFile> file = parse_safetensors(bytes_of(bytes), "m.safetensors");
  REQUIRE(file.ok());
  REQUIRE(file->tensors.size() == 1);
  CHECK(file->tensors[0].name == "a");
  REQUIRE(file->unreadable.size() == 2);
  CHECK(file->unreadable[0].name == "ids");
  CHECK(file->unreadable[0].why == "dtype I64, readable are F32, F16, BF16 and U8");
  CHECK(file->unreadable[1].name == "conv");
  CHECK(file->unreadable[1].why == "5 dimensions, the most is 4");
  check_contains(refused(file_of(header, 39)), "tensor conv: needs 8 bytes");
  check_contains(refused(one(R"({"dtype":"I64","shape":[1],"data_offsets":[1,9]})", 9)),
                 "tensor t: its data begin at 1");
  check_contains(refused(one(R"({"dtype":"I64","shape":[1]})", 9)), "data_offsets");
}

TEST_CASE("safetensors: a description that is wrong in itself names the tensor") {
  check_contains(refused(one("1", 0)), "tensor t: its description is no object");
  check_contains(refused(one(R"({"shape":[1],"data_offsets":[0,1]})", 1)), "tensor t: \"dtype\"");
  check_contains(refused(one(R"({"dtype":4,"shape":[1],"data_offsets":[0,1]})", 1)),
                 "tensor t: \"dtype\"");
  check_contains(refused(one(R"({"dtype":"U8","data_offsets":[0,1]})", 1)), "\"shape\" is no list");
  for (const char* extent : {"0", "-1", "1.0", "\"1\"", "18446744073709551617", "null"}) {
    const std::string shape = std::string("[1,") + extent + "]";
    check_contains(
        refused(one(R"({"dtype":"U8","shape":)" + shape + R"(,"data_offsets":[0,1]})", 1)),
        "tensor t: dimension 1");
  }
  for (const char* offsets :
       {"[0]", "[0,1,1]", "1", "[1,0]", "[-1,0]", "[0,1.0]", "[0,18446744073709551616]"}) {
    check_contains(
        refused(
            one(R"({"dtype":"U8","shape":[1],"data_offsets":)" + std::string(offsets) + "}", 1)),
        "tensor t: \"data_offsets\"");
  }
}

TEST_CASE("safetensors: products of a shape cannot wrap around") {
  const std::string large = "4294967296";
  check_contains(
      refused(one(
          R"({"dtype":"F32","shape":[)" + large + "," + large + R"(,1],"data_offsets":[0,0]})", 0)),
      "the product");
  check_contains(
      refused(one(
          R"({"dtype":"F32","shape":[)" + large + ",2147483648" + R"(],"data_offsets":[0,0]})", 0)),
      "the product");
  // 2^62 elements of 4 bytes: 2^64 bytes.
  check_contains(
      refused(one(
          R"({"dtype":"F32","shape":[)" + large + ",1073741824" + R"(],"data_offsets":[0,0]})", 0)),
      "do not make the 0 bytes");
  check_contains(refused(one(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})", 8)),
                 "3 elements of F32 do not make the 8 bytes");
}

TEST_CASE("safetensors: data must be covered without gap, overlap or tail") {
  const auto two = [](const char* first, const char* second, std::size_t bytes) {
    return file_of(std::string(R"({"t":{"dtype":"U8","shape":[4],"data_offsets":)") + first +
                       R"(},"u":{"dtype":"U8","shape":[4],"data_offsets":)" + second + "}}",
                   bytes);
  };
  CHECK(parse(two("[0,4]", "[4,8]", 8)).ok());
  CHECK(parse(two("[4,8]", "[0,4]", 8)).ok());
  check_contains(refused(two("[0,4]", "[5,9]", 9)),
                 "tensor u: its data begin at 5, but those before end at 4");
  check_contains(refused(two("[0,4]", "[3,7]", 7)),
                 "tensor u: its data begin at 3, but those before end at 4");
  check_contains(refused(two("[0,4]", "[0,4]", 4)),
                 "its data begin at 0, but those before end at 4");
  check_contains(refused(two("[1,5]", "[5,9]", 9)),
                 "tensor t: its data begin at 1, but those before end at 0");
  check_contains(refused(two("[0,4]", "[4,8]", 9)), "end after 8 bytes of data, the file has 9");
}

// osaurus-ai/vmlx-swift issue 217: a short file read as zeros.
TEST_CASE("safetensors: a file shorter than its header says is refused at every length") {
  const std::string whole = file_of(kGood, 38);
  REQUIRE(parse(whole).ok());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::string prefix = whole.substr(0, size);
    CAPTURE(size);
    REQUIRE_FALSE(parse(prefix).ok());
  }
  const std::string message = refused(whole.substr(0, whole.size() - 1));
  CHECK(message == "m.safetensors: tensor u: needs 4 bytes at offset " +
                       std::to_string(whole.size() - 4) + ", the file has " +
                       std::to_string(whole.size() - 1));
}

TEST_CASE("safetensors: random changes never give a view outside the file or ask for much memory") {
  const std::string whole = file_of(kGood, 38);
  const std::uint32_t seed = std::random_device()();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const std::string_view text = R"(0123456789{}[],:"-.eFUB6 )";
  int opened = 0;
  for (int i = 0; i < (testing::kEmulated ? 8000 : 40000); ++i) {
    std::string bytes = whole;
    for (int changes = 1 + static_cast<int>(random() % 2); changes > 0; --changes) {
      const std::size_t at = random() % (whole.size() - 38);
      bytes[at] = i % 3 == 0 ? static_cast<char>(random()) : text[random() % text.size()];
    }
    take_largest_allocation();
    const Result<std::vector<TensorView>> tensors = parse(bytes);
    if (take_largest_allocation() > 64 * bytes.size()) FAIL("a large allocation in round " << i);
    if (!tensors) continue;
    ++opened;
    check_views(*tensors, bytes_of(bytes));
  }
  CHECK(opened > (testing::kEmulated ? 200 : 1000));
}

TEST_CASE("a shard index names files of its own folder only") {
  const auto parse_one = [](const std::string& shard) {
    return parse_shard_index("{\"metadata\":{},\"weight_map\":{\"t\":" + shard + "}}",
                             "index.json");
  };
  const auto good = parse_one("\"model-00001-of-00002.safetensors\"");
  REQUIRE(good.ok());
  CHECK(good->at(0).tensor == "t");
  CHECK(good->at(0).shard == "model-00001-of-00002.safetensors");
  for (const char* shard :
       {"\"../x.safetensors\"", "\"/etc/x.safetensors\"", "\"a/b.safetensors\"",
        "\"a\\\\b.safetensors\"", "\"c:b.safetensors\"", "\"a\\u0000.safetensors\"",
        "\".safetensors\"", "\"\"", "\"..\"", "\"model.bin\"", "7"}) {
    const auto bad = parse_one(shard);
    CAPTURE(shard);
    REQUIRE_FALSE(bad.ok());
    check_contains(bad.status().message(), "index.json: tensor t: ");
  }
  CHECK_FALSE(parse_shard_index("[]", "i").ok());
  CHECK_FALSE(parse_shard_index(R"({"weight_map":[]})", "i").ok());
  CHECK_FALSE(
      parse_shard_index(R"({"weight_map":{"t":"a.safetensors","t":"b.safetensors"}})", "i").ok());
}
