#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "catch.h"
#include "chat_template_test_support.h"

using namespace quire;
using namespace quire::text;

namespace {

std::vector<std::string> real_templates() {
  std::string root = environment_path("QUIRE_LLAMA_CPP_SOURCE");
  INFO("QUIRE_LLAMA_CPP_SOURCE must name the folder vendor/llama.cpp of llama-cpp-python 0.3.36");
  REQUIRE(!root.empty());
  std::vector<std::string> paths, sources;
  for (const auto& entry : std::filesystem::directory_iterator(root + "/models/templates")) {
    if (entry.path().extension() == ".jinja") paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  for (const auto& path : paths) sources.push_back(read_whole_file(path));
  return sources;
}

const std::string kPieces[] = {
    "{%",       "%}",       "{{",    "}}",   "{#",          "#}",           "-",
    "(",        ")",        "[",     "]",    "'",           "\"",           "|",
    "~",        "*",        "**",    "not ", " in ",        " if ",         " else ",
    "\\",       "\xF0\x9F", ":",     "::-1", "9999999999",  "range(",       "loop",
    " is ",     ".",        ",",     "\n",   "{% endif %}", "{% endfor %}", "{% break %}",
    "| tojson", "|sort",    "|map(", "%s",   "namespace("};

void mutate(std::string& text, std::mt19937_64& random) {
  auto below = [&](std::size_t bound) { return random() % bound; };
  for (std::size_t edits = 1 + below(6); edits > 0 && !text.empty(); --edits) {
    std::size_t at = below(text.size()),
                length = below(std::min<std::size_t>(text.size() - at, 40) + 1);
    switch (below(5)) {
      case 0:
        text[at] = static_cast<char>(random());
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(at, kPieces[below(std::size(kPieces))]);
        break;
      case 3:
        text.insert(below(text.size()), text.substr(at, length));
        break;
      default:
        text.replace(at, 1, kPieces[below(std::size(kPieces))]);
        break;
    }
  }
}

}  // namespace

TEST_CASE("mutated templates fail or render, but never crash or hang") {
  constexpr std::uint64_t kSeed = 20260731;
  std::vector<std::string> sources = real_templates();
  auto fixtures = parse_json(read_whole_file(QUIRE_TEST_DATA "/templates/fixtures.json"));
  REQUIRE(fixtures.ok());
  Json variables = *fixtures->find("variables");
  for (const auto& [name, value] : *fixtures->find("fixtures")->find("tools_round")->object()) {
    variables.set(name, value);
  }
  variables.set("add_generation_prompt", true);
  TemplateBudget budget;
  budget.steps = 200'000;
  budget.memory_bytes = 16 << 20;
  std::mt19937_64 random(kSeed);
  auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(1500);
  int runs = 0, rendered = 0;
  double slowest = 0;
  while (std::chrono::steady_clock::now() < end) {
    std::string source = sources[random() % sources.size()];
    mutate(source, random);
    INFO("seed " << kSeed << ", run " << runs);
    auto start = std::chrono::steady_clock::now();
    auto parsed = ChatTemplate::parse(source);
    if (parsed.ok()) {
      auto result = parsed->render(variables, kGoldenNow, budget);
      rendered += result.ok();
      if (!result.ok()) CHECK(result.status().code() != StatusCode::internal);
    } else {
      CHECK(parsed.status().message().find("line ") != std::string::npos);
    }
    std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    slowest = std::max(slowest, took.count());
    ++runs;
  }
  std::cout << "mutated templates: seed " << kSeed << ", " << runs << " runs, " << rendered
            << " rendered, slowest " << slowest << " s\n";
  CHECK(runs > 20);
  CHECK(slowest < 10);
}
