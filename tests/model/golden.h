#pragma once

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/json.h"
#include "catch.h"
#include "quire/quire.h"

namespace quire::testing {

inline std::string data_path(const std::string& name) {
  return std::string(QUIRE_TEST_DATA) + "/" + name;
}

inline std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  INFO("reading " << path);
  REQUIRE(file.good());
  return {std::istreambuf_iterator<char>(file), {}};
}

inline Json read_json(const std::string& path) {
  auto json = parse_json(read_text(path));
  INFO(path << ": " << json.status().message());
  REQUIRE(json.ok());
  return *json;
}

inline const Json& member(const Json& object, const char* name) {
  const Json* found = object.find(name);
  INFO("member " << name);
  REQUIRE(found);
  return *found;
}

inline std::vector<std::int32_t> ids_of(const Json& list) {
  std::vector<std::int32_t> ids;
  for (const Json& item : *list.array()) ids.push_back(static_cast<std::int32_t>(item.number()));
  return ids;
}

inline std::vector<double> numbers_of(const Json& list) {
  std::vector<double> numbers;
  for (const Json& item : *list.array()) numbers.push_back(item.is_null() ? NAN : item.number());
  return numbers;
}

inline std::string repository_model(const char* name) {
  const char* folder = std::getenv("QUIRE_MODELS");
  INFO("QUIRE_MODELS must name the folder with the real models; tests/run.sh fetches them");
  REQUIRE(folder);
  return std::string(folder) + "/" + name;
}

inline Engine open_engine(const ModelSource& source, const EngineOptions& options = {}) {
  auto engine = Engine::open(source, options);
  INFO(engine.status().message());
  REQUIRE(engine.ok());
  return std::move(*engine);
}

inline Generation generate(Engine& engine, Request request) {
  auto answer = engine.generate(std::move(request));
  INFO(answer.status().message());
  REQUIRE(answer.ok());
  return std::move(*answer);
}

}  // namespace quire::testing
