#include <filesystem>
#include <fstream>

#include "model/golden.h"
#include "model/rope.h"

namespace quire::testing {

TEST_CASE("plain RoPE frequencies are base^(-2i/d)", "[rope]") {
  const model::RopeTable table = model::plain_rope(8, 10000);
  REQUIRE(table.dimensions() == 8);
  const double expected[] = {1.0, 0.1, 0.01, 0.001};
  for (int i = 0; i < 4; ++i)
    CHECK(table.inverse_frequency[i] == Approx(expected[i]).epsilon(1e-6));
}

TEST_CASE("an unknown rope scaling type is an error and not ignored", "[rope]") {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / "quire_rope_test";
  fs::remove_all(folder);
  fs::create_directories(folder);
  const fs::path model = data_path("tiny/llama_rope3");
  for (const char* file : {"model.safetensors", "tokenizer.json", "tokenizer_config.json"}) {
    fs::create_symlink(fs::absolute(model / file), folder / file);
  }
  std::string config = read_text((model / "config.json").string());
  const std::string from = "\"llama3\"";
  config.replace(config.find(from), from.size(), "\"spiral\"");
  std::ofstream(folder / "config.json") << config;
  auto engine = Engine::open(folder.string());
  REQUIRE_FALSE(engine.ok());
  CHECK(engine.status().code() == StatusCode::unsupported);
  CHECK(engine.status().message().find("spiral") != std::string::npos);
  CHECK(engine.status().message().find("longrope") != std::string::npos);
  fs::remove_all(folder);
}

}  // namespace quire::testing
