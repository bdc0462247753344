// Every architecture against transformers in float32 (tests/data/tiny/README.md has the
// tolerances).
#include <algorithm>
#include <filesystem>
#include <numeric>

#include "model/golden.h"

namespace quire::testing {
namespace {

namespace fs = std::filesystem;

struct Tolerance {
  double largest;      // of |difference| / s, s the standard deviation of the logits
  double mean_square;  // of the differences / s^2
};
constexpr Tolerance kFloat32{2e-4, 1e-9};
constexpr Tolerance kInt8{4e-1, 4e-3};

double deviation(const std::vector<double>& values) {
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / values.size();
  double sum = 0;
  for (double v : values) sum += (v - mean) * (v - mean);
  return std::sqrt(sum / values.size());
}

// log_softmax of reference logits, to compare with log-probabilities: the same up to a constant.
std::vector<double> log_softmax(const std::vector<double>& logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (double v : logits) sum += std::exp(v - largest);
  std::vector<double> result;
  for (double v : logits) result.push_back(v - largest - std::log(sum));
  return result;
}

void check_last_logits(const Json& prompt, const TokenLogprob& first, const Tolerance& tolerance) {
  const std::vector<double> logits = numbers_of(member(prompt, "last_logits"));
  const std::vector<double> expected = log_softmax(logits);
  REQUIRE(first.top.size() == expected.size());
  const double s = deviation(logits);
  double largest = 0, square = 0;
  for (const auto& [id, logprob] : first.top) {
    const double difference = logprob - expected[static_cast<std::size_t>(id)];
    largest = std::max(largest, std::abs(difference) / s);
    square += difference * difference / (s * s);
  }
  INFO("largest difference " << largest << " s, mean square " << square / expected.size());
  CHECK(largest <= tolerance.largest);
  CHECK(square / expected.size() <= tolerance.mean_square);
}

// Each position's best id, where its lead is more than twice the allowed difference.
void check_argmax(const Json& prompt, const Generation& answer, const Tolerance& tolerance) {
  const std::vector<std::int32_t> argmax = ids_of(member(prompt, "argmax"));
  const std::vector<double> margin = numbers_of(member(prompt, "margin"));
  const double s = deviation(numbers_of(member(prompt, "last_logits")));
  REQUIRE(answer.prompt_logprobs.size() == argmax.size());
  for (std::size_t i = 0; i + 1 < argmax.size(); ++i) {
    if (margin[i] <= 2 * tolerance.largest * s) continue;
    INFO("position " << i);
    CHECK(answer.prompt_logprobs[i + 1].top.at(0).first == argmax[i]);
  }
}

void check_greedy(const Json& prompt, const Generation& answer, const Tolerance& tolerance) {
  const std::vector<std::int32_t> greedy = ids_of(member(prompt, "greedy"));
  const std::vector<double> margin = numbers_of(member(prompt, "greedy_margin"));
  const double s = deviation(numbers_of(member(prompt, "last_logits")));
  for (std::size_t i = 0; i < greedy.size(); ++i) {
    if (margin[i] <= 2 * tolerance.largest * s) return;  // from here on the texts may part
    INFO("step " << i);
    REQUIRE(answer.choices[0].tokens[i] == greedy[i]);
  }
}

EngineOptions float_options(const std::string& device) {
  EngineOptions options;
  options.device = device;
  options.cache.type = KvType::f32;
  options.cpu.compute = Compute::f32;
  options.context = 0;
  return options;
}

void check_model(const std::string& model, const Json& expected, const EngineOptions& options,
                 const Tolerance& tolerance) {
  INFO(model << " on " << options.device);
  Engine engine = open_engine(model, options);
  for (const Json& prompt : *member(expected, "prompts").array()) {
    Request request;
    request.tokens = ids_of(member(prompt, "ids"));
    INFO("prompt of " << request.tokens.size());
    request.max_tokens = static_cast<int>(member(prompt, "greedy").array()->size());
    request.sampling.temperature = 0.0f;
    request.sampling.ignore_eos = true;
    request.logprobs = static_cast<int>(member(prompt, "last_logits").array()->size());
    request.prompt_logprobs = 1;
    const Generation answer = generate(engine, request);
    check_last_logits(prompt, answer.choices[0].logprobs.at(0), tolerance);
    check_argmax(prompt, answer, tolerance);
    check_greedy(prompt, answer, tolerance);
  }
}

std::string expected_for_gguf(const std::string& folder) {
  const std::string own = data_path("tiny/" + folder + "/expected_gguf.json");
  return fs::exists(own) ? own : data_path("tiny/" + folder + "/expected.json");
}

const char* const kArchitectures[] = {
    "llama", "llama_rope3",   "llama_tied", "mistral", "qwen2", "qwen3",     "gemma2", "gemma3",
    "phi3",  "phi3_longrope", "smollm3",    "granite", "olmo2", "qwen3_moe", "mixtral"};

}  // namespace

TEST_CASE("tiny models as GGUF give transformers' logits and tokens", "[tiny]") {
  for (const char* name : kArchitectures) {
    const Json expected = read_json(expected_for_gguf(name));
    check_model(data_path(std::string("tiny/") + name + "/model.gguf"), expected,
                float_options("cpu:scalar"), kFloat32);
  }
}

TEST_CASE("tiny gpt-oss as GGUF: sinks, YaRN, clamped SwiGLU, MXFP4 experts", "[tiny]") {
  for (const char* name : {"gpt_oss", "gpt_oss_mxfp4"}) {
    check_model(data_path(std::string("tiny/") + name + "/model.gguf"),
                read_json(expected_for_gguf(name)), float_options("cpu:scalar"), kFloat32);
  }
}

TEST_CASE("tiny models as Hugging Face folders give transformers' logits and tokens", "[tiny]") {
  for (const char* name : kArchitectures) {
    const std::string folder = data_path(std::string("tiny/") + name);
    check_model(folder, read_json(folder + "/expected.json"), float_options("cpu"), kFloat32);
  }
}

TEST_CASE("configurations with the keys of transformers 4 mean the same", "[tiny]") {
  const fs::path copy = fs::temp_directory_path() / "quire_config_v4_test";
  for (const char* name : kArchitectures) {
    const fs::path folder = data_path(std::string("tiny/") + name);
    fs::remove_all(copy);
    fs::create_directories(copy);
    fs::copy(folder / "config.v4.json", copy / "config.json");
    for (const char* file : {"model.safetensors", "tokenizer.json", "tokenizer_config.json"}) {
      fs::create_symlink(fs::absolute(folder / file), copy / file);
    }
    check_model(copy.string(), read_json((folder / "expected.json").string()), float_options("cpu"),
                kFloat32);
  }
  fs::remove_all(copy);
}

TEST_CASE("split GGUF and sharded safetensors give the same model", "[tiny]") {
  const std::string folder = data_path("tiny/llama_sharded");
  const Json expected = read_json(folder + "/expected.json");
  check_model(folder + "/model-00001-of-00004.gguf", expected, float_options("cpu"), kFloat32);
  check_model(folder, expected, float_options("cpu"), kFloat32);
}

TEST_CASE("every weight type computes what transformers computes on its values", "[tiny]") {
  for (const char* type : {"F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K_M",
                           "Q4_K_M", "Q5_K_M", "Q6_K", "IQ4_NL", "IQ4_XS"}) {
    const Json expected =
        read_json(data_path(std::string("tiny/quant/expected-") + type + ".json"));
    const std::string model = data_path(std::string("tiny/quant/model-") + type + ".gguf");
    check_model(model, expected, float_options("cpu:scalar"), kFloat32);
    check_model(model, expected, float_options("cpu"), kFloat32);
    EngineOptions int8 = float_options("cpu");
    int8.cpu.compute = Compute::automatic;
    check_model(model, expected, int8, kInt8);
    EngineOptions in_place = float_options("cpu");
    in_place.cpu.copy_weights = false;
    check_model(model, expected, in_place, kFloat32);
  }
}

}  // namespace quire::testing
