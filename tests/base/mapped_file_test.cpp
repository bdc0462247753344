#include "base/mapped_file.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

#include "catch.h"
#include "check_contains.h"

using namespace quire;
namespace fs = std::filesystem;

namespace {

// A folder for one test, removed at its end.
struct Folder {
  fs::path path = fs::temp_directory_path() / ("quire_mapped_file_" + std::to_string(::getpid()));
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
  std::string file(const char* name, const std::string& content) const {
    std::ofstream(path / name, std::ios::binary) << content;
    return (path / name).string();
  }
};

std::string text(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

}  // namespace

TEST_CASE("a mapped file shows the bytes of the file, also after a move and a release") {
  const Folder folder;
  std::string content(3 * 65536 + 5, '\0');
  for (std::size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 31 >> 3);
  Result<MappedFile> file = MappedFile::open(folder.file("a", content));
  REQUIRE(file.ok());
  CHECK((text(*file) == content));
  MappedFile moved = *std::move(file);
  CHECK((text(moved) == content));
  MappedFile::release(moved.bytes().subspan(3, 100000));
  MappedFile::release({});
  CHECK((text(moved) == content));

  Result<MappedFile> other = MappedFile::open(folder.file("b", "other"));
  REQUIRE(other.ok());
  moved = *std::move(other);
  CHECK(text(moved) == "other");
}

TEST_CASE("an empty file maps to no bytes") {
  const Folder folder;
  const Result<MappedFile> file = MappedFile::open(folder.file("empty", ""));
  REQUIRE(file.ok());
  CHECK(file->bytes().empty());
}

TEST_CASE("what cannot be mapped is an error that names the path") {
  const Folder folder;
  const std::string absent = (folder.path / "absent").string();
  CHECK(MappedFile::open(absent).status().code() == StatusCode::not_found);
  check_contains(MappedFile::open(absent).status().message(), absent);
  const std::string below_file = folder.file("plain", "x") + "/config.json";
  CHECK(MappedFile::open(below_file).status().code() == StatusCode::not_found);
  CHECK(MappedFile::open(folder.path.string()).status().code() == StatusCode::io_error);
  CHECK(MappedFile::open("/dev/null").status().code() == StatusCode::io_error);
}

TEST_CASE("opening a pipe without a writer fails instead of waiting") {
  const Folder folder;
  const std::string pipe = (folder.path / "pipe").string();
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(MappedFile::open(pipe).status().code() == StatusCode::io_error);
}
