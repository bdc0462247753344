#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "base/hash.h"
#include "base/json.h"
#include "catch.h"
#include "sampling/distribution.h"

// Distributions computed in float64 by numpy: tests/data/README.md, "samplers/".

namespace quire::sampling {
namespace {

Json goldens() {
  std::ifstream file(QUIRE_TEST_DATA "/samplers/samplers.json", std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  auto json = parse_json(text);
  REQUIRE(json);
  return *json;
}

std::uint32_t mix(std::uint32_t x) {
  x ^= x >> 15;
  x *= 2246822519u;
  x ^= x >> 13;
  x *= 3266489917u;
  return x ^ x >> 16;
}

// The formula of the file, for lists too long to store.
std::vector<float> generated(const Json& list) {
  std::vector<float> logits(static_cast<std::size_t>(*list.find("n")->integer()));
  const auto seed = static_cast<std::uint32_t>(*list.find("seed")->integer());
  double sum = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const std::uint64_t q = mix(static_cast<std::uint32_t>(i) * 2654435761u + seed) >> 16;
    std::uint64_t k = (q * q) >> 16;
    k = (k * k) >> 16;
    logits[i] = static_cast<float>(static_cast<double>(k) / 2048 - 12);
    sum += logits[i];
  }
  const JsonArray& first = *list.find("first")->array();
  for (std::size_t i = 0; i < first.size(); ++i) REQUIRE(logits[i] == first[i].number());
  REQUIRE(sum == list.find("sum")->number());
  return logits;
}

std::vector<float> logits_named(const Json& file, const std::string& name) {
  if (const Json* list = file.find("generated")->find(name)) return generated(*list);
  std::vector<float> logits;
  for (const Json& x : *file.find("logits")->find(name)->array()) {
    logits.push_back(x.is_null() ? -INFINITY : static_cast<float>(x.number()));
  }
  return logits;
}

std::vector<std::int32_t> ids(const Json& list) {
  std::vector<std::int32_t> to;
  for (const Json& id : *list.array()) to.push_back(static_cast<std::int32_t>(*id.integer()));
  return to;
}

std::vector<std::pair<std::int32_t, float>> bias_of(const Json& params) {
  std::vector<std::pair<std::int32_t, float>> bias;
  for (const auto& [id, value] : *params.find("logit_bias")->object()) {
    bias.emplace_back(std::stoi(id), static_cast<float>(value.number()));
  }
  return bias;
}

DrawParams params_of(const Json& json) {
  const auto number = [&](const char* name) {
    return static_cast<float>(json.find(name)->number());
  };
  DrawParams params;
  params.temperature = number("temperature");
  params.top_k = static_cast<int>(number("top_k"));
  params.top_p = number("top_p");
  params.min_p = number("min_p");
  params.repetition_penalty = number("repetition_penalty");
  params.frequency_penalty = number("frequency_penalty");
  params.presence_penalty = number("presence_penalty");
  return params;
}

std::string sha256_of_ids(const std::map<std::int32_t, double>& kept) {
  Sha256 hash;
  for (const auto& entry : kept) {
    const auto id = static_cast<std::uint32_t>(entry.first);
    const std::byte bytes[4] = {std::byte(id), std::byte(id >> 8), std::byte(id >> 16),
                                std::byte(id >> 24)};
    hash.update(bytes);
  }
  std::string hex;
  for (const std::uint8_t byte : hash.finish()) {
    hex += "0123456789abcdef"[byte >> 4];
    hex += "0123456789abcdef"[byte & 15];
  }
  return hex;
}

void check_probabilities(const Json& expected, const std::map<std::int32_t, double>& kept) {
  const Json* list = expected.find("probs") ? expected.find("probs") : expected.find("top");
  REQUIRE(list);
  for (const Json& entry : *list->array()) {
    const auto id = static_cast<std::int32_t>(*(*entry.array())[0].integer());
    const double p = (*entry.array())[1].number();
    CAPTURE(id);
    const auto found = kept.find(id);
    CHECK(std::abs((found == kept.end() ? 0 : found->second) - p) <= 1e-5);
  }
}

TEST_CASE("every golden distribution is reproduced") {
  const Json file = goldens();
  const JsonArray& cases = *file.find("cases")->array();
  REQUIRE(cases.size() == 27);
  DrawScratch scratch;
  for (const Json& one : cases) {
    const std::string& name = *one.find("id")->string();
    CAPTURE(name);
    const auto logits = logits_named(file, *one.find("logits")->string());
    const auto prompt = ids(*one.find("prompt_ids"));
    const auto output = ids(*one.find("output_ids"));
    const auto bias = bias_of(*one.find("params"));
    DrawArgs args{.logits = logits.data(), .vocabulary = static_cast<int>(logits.size())};
    args.params = params_of(*one.find("params"));
    args.params.bias = bias;
    args.prompt = prompt;
    args.output = output;

    const auto result = distribution(args, scratch);
    REQUIRE(result);
    const std::map<std::int32_t, double> kept(result->begin(), result->end());
    const Json& expected = *one.find("expected");
    check_probabilities(expected, kept);
    double sum = 0, entropy = 0;
    for (const auto& [id, p] : kept) sum += p, entropy -= p * std::log(p);
    CHECK(std::abs(sum - 1) <= 1e-6);
    CHECK(std::abs(entropy - expected.find("entropy")->number()) <= 1e-4);
    const auto best = std::max_element(
        kept.begin(), kept.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    CHECK(best->first == *expected.find("argmax")->integer());
    if (one.find("cut_gap")->is_null()) continue;  // float32 may underflow to 0 there
    CHECK(kept.size() == static_cast<std::size_t>(*expected.find("kept")->integer()));
    if (const Json* sha = expected.find("kept_sha256"))
      CHECK(sha256_of_ids(kept) == *sha->string());
  }
}

}  // namespace
}  // namespace quire::sampling
