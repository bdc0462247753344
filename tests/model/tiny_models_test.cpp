// Every architecture against transformers in float32 (tests/data/tiny/README.md has the
// tolerances).
#include <span>

#include "emulated.h"
#include "model/tiny_model_check.h"

namespace quire::testing {
namespace {

constexpr Tolerance kFloat32{2e-4, 1e-9};
constexpr Tolerance kInt8{4e-1, 4e-3};

EngineOptions float_options(const std::string& device) {
  EngineOptions options;
  options.device = device;
  options.cache.type = KvType::f32;
  options.cpu.compute = Compute::f32;
  options.context = 0;
  return options;
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
  const std::span all(kArchitectures);
  for (const char* name : all.first(kEmulated ? 2 : all.size())) {
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
    check_model(model, expected, float_options("cpu"), kFloat32);
    EngineOptions int8 = float_options("cpu");
    int8.cpu.compute = Compute::automatic;
    check_model(model, expected, int8, kInt8);
    if (kEmulated) continue;  // the rest is plain code
    check_model(model, expected, float_options("cpu:scalar"), kFloat32);
    EngineOptions in_place = float_options("cpu");
    in_place.cpu.copy_weights = false;
    check_model(model, expected, in_place, kFloat32);
  }
}

}  // namespace quire::testing
