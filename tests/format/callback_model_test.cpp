#include "model_files_fixture.h"

using namespace quire;
using namespace quire::format;
using namespace quire::format::test;
namespace fs = std::filesystem;

TEST_CASE("a model in memory and one behind a callback equal the file") {
  const std::string path = test_data("tiny/quant/model-Q4_K_M.gguf");
  const std::string bytes = read_file(path);
  const Result<ModelFiles> file = ModelFiles::open(path);
  const Result<ModelFiles> memory = ModelFiles::open(MemoryModel{bytes_of(bytes)});
  Result<ModelFiles> callback = ModelFiles::open(callback_of(bytes));
  REQUIRE(file.ok());
  REQUIRE(memory.ok());
  REQUIRE(callback.ok());
  const ModelFiles moved = *std::move(callback);
  CHECK(same_tensors(*file, *memory));
  CHECK(same_tensors(*file, moved));
  CHECK(file->tensors().size() > 10);
  CHECK(*memory->gguf()->strings("tokenizer.ggml.tokens") ==
        *file->gguf()->strings("tokenizer.ggml.tokens"));
  CHECK(*moved.gguf()->strings("tokenizer.ggml.tokens") ==
        *file->gguf()->strings("tokenizer.ggml.tokens"));
  check_views(memory->tensors(), bytes_of(bytes));  // no copy
  CHECK_FALSE(memory->mapped());
  CHECK_FALSE(moved.mapped());
  CHECK(moved.file_bytes() == bytes.size());
  CHECK(file->name() == path);
  CHECK(memory->name() == "memory");
  CHECK(moved.name() == "callback");
}

TEST_CASE("a callback that fails or throws is an I/O error with the offset") {
  const std::string bytes = read_file(test_data("tiny/malformed/good.gguf"));
  CallbackModel model = callback_of(bytes);
  model.size = bytes.size() + 1;
  check_contains(refused(model, StatusCode::io_error),
                 "callback: cannot read 24321 bytes at offset 16384: it returned false");
  model.read = [](std::uint64_t, std::span<std::byte>) -> bool {
    throw std::runtime_error("no key");
  };
  check_contains(refused(model, StatusCode::io_error), "it threw: no key");
  model.read = [](std::uint64_t, std::span<std::byte>) -> bool { throw 7; };
  check_contains(refused(model, StatusCode::io_error), "it threw");
  model.read = nullptr;
  check_contains(refused(model, StatusCode::invalid_argument), "no read function");
}

TEST_CASE("a callback model is read whole, in pieces, each byte of it once") {
  // 40 MiB of one tensor: more than two pieces.
  GgufWriter w;
  std::string data(40u << 20, '\0');
  for (std::size_t i = 0; i < data.size(); i += 4096) data[i] = static_cast<char>(i >> 12);
  w.add_tensor("t", {data.size() / 4}, 0, data);
  const std::string bytes = w.bytes();
  CallbackModel model = callback_of(bytes);
  std::uint64_t next = 0;
  bool in_order = true;
  model.read = [&, inner = model.read](std::uint64_t offset, std::span<std::byte> into) {
    in_order = in_order && offset == next;
    next = offset + into.size();
    return inner(offset, into);
  };
  const Result<ModelFiles> opened = ModelFiles::open(model);
  REQUIRE(opened.ok());
  CHECK(in_order);
  CHECK(next == bytes.size());
  CHECK(std::memcmp(opened->find("t")->bytes.data(), data.data(), data.size()) == 0);
}

TEST_CASE("a callback model whose size or start is wrong asks for no memory") {
  CallbackModel model;
  model.size = std::uint64_t{1} << 62;
  model.read = [](std::uint64_t, std::span<std::byte> into) {
    std::fill(into.begin(), into.end(), std::byte{'x'});
    return true;
  };
  take_largest_allocation();
  check_contains(refused(model), "callback: magic");
  CHECK(take_largest_allocation() < 65536);
  model.size = 3;
  check_contains(refused(model), "callback: header");
  model.size = 0;
  check_contains(refused(model), "callback: header: needs 24 bytes, the file has 0");
  model.size = UINT64_MAX;
  model.read = [](std::uint64_t, std::span<std::byte> into) {
    std::memcpy(into.data(), "GGUF", 4);
    return true;
  };
  refused(model, StatusCode::out_of_memory);
}

TEST_CASE("a bad header behind a callback is found before the model is read") {
  const std::string good = read_file(test_data("tiny/llama/model.gguf"));
  const auto bytes_read = [](const std::string& bytes, std::uint64_t size, StatusCode code) {
    std::uint64_t read = 0;
    CallbackModel callback;
    callback.size = size;  // as if gigabytes of data followed
    callback.read = [&](std::uint64_t offset, std::span<std::byte> into) {
      read += into.size();
      for (std::size_t i = 0; i < into.size(); ++i) {
        into[i] = static_cast<std::byte>(offset + i < bytes.size() ? bytes[offset + i] : 0);
      }
      return true;
    };
    const Result<ModelFiles> model = ModelFiles::open(callback);
    INFO(model.status().message());
    CHECK(model.status().code() == code);
    return read;
  };
  constexpr std::uint64_t kHuge = std::uint64_t{1} << 40;
  std::string bytes = good;
  bytes[4] = 9;  // the version
  CHECK(bytes_read(bytes, kHuge, StatusCode::unsupported) == 4096);
  bytes = good;
  bytes[0] = 'x';
  CHECK(bytes_read(bytes, kHuge, StatusCode::malformed) == 4096);
  // A tensor whose data would lie behind the end: little more than the header is read.
  const std::uint64_t header = bytes_read(good, good.size() - 1, StatusCode::malformed);
  CHECK(header <= 65536);
  CHECK(header < good.size() / 4);
  // A value type that does not exist, in the middle of the header.
  bytes = good;
  const std::size_t key = bytes.find("tokenizer.ggml.token_type");
  REQUIRE(key != std::string::npos);
  bytes[key + 25] = '\x63';
  CHECK(bytes_read(bytes, kHuge, StatusCode::malformed) <= 65536);
  // A good one is read once.
  CHECK(bytes_read(good, good.size(), StatusCode::ok) == good.size());
  CHECK(bytes_read(good.substr(0, 3), 3, StatusCode::malformed) == 3);
}
