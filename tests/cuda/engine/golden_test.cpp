// Models on the GPU against transformers in float32.
#include "cuda/gpu.h"
#include "model/real_model_check.h"
#include "model/tiny_model_check.h"

namespace quire::testing {
namespace {

// The limits of bf16 activations (tests/data/tiny/README.md), half as much again in the mean
// square, as keys, values and the weights of the softmax are rounded to bf16 too.
constexpr Tolerance kBfloat16{3e-1, 3e-3};
constexpr Tolerance kInt8Cache{4e-1, 4e-3};
// Hopper rounds queries and the weights of the softmax to e4m3 too: three bits of mantissa.
constexpr Tolerance kFp8Cache{8e-1, 2.5e-2};

EngineOptions on_gpu(std::optional<KvType> kv = {}) {
  EngineOptions options;
  options.device = "cuda";
  options.cache.type = kv;
  return options;
}

std::string tiny(const std::string& name) {
  return data_path("tiny/" + name);
}

const char* const kDense[] = {"llama",   "llama_rope3", "llama_tied", "mistral", "qwen2",
                              "qwen3",   "gemma2",      "gemma3",     "phi3",    "phi3_longrope",
                              "smollm3", "granite",     "olmo2"};
const char* const kMixtures[] = {"qwen3_moe", "mixtral", "gpt_oss", "gpt_oss_mxfp4"};

}  // namespace

TEST_CASE("dense architectures on the GPU", "[gpu]") {
  if (!has_gpu()) return;
  for (const char* name : kDense) {
    check_model(tiny(name) + "/model.gguf", read_json(expected_for_gguf(name)), on_gpu(),
                kBfloat16);
    check_model(tiny(name), read_json(tiny(name) + "/expected.json"), on_gpu(), kBfloat16);
  }
}

TEST_CASE("mixtures of experts on the GPU", "[gpu]") {
  if (!has_gpu()) return;
  for (const char* name : kMixtures) {
    check_model(tiny(name) + "/model.gguf", read_json(expected_for_gguf(name)), on_gpu(),
                kBfloat16);
  }
}

TEST_CASE("every weight type on the GPU", "[gpu]") {
  if (!has_gpu()) return;
  for (const char* type : {"F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K_M",
                           "Q4_K_M", "Q5_K_M", "Q6_K", "IQ4_NL", "IQ4_XS"}) {
    check_model(tiny("quant/model-") + type + ".gguf",
                read_json(tiny("quant/expected-") + type + ".json"), on_gpu(), kBfloat16);
  }
}

TEST_CASE("every KV type and page size on the GPU", "[gpu]") {
  if (!has_gpu()) return;
  for (const char* name : {"llama", "gemma3"}) {
    const Json expected = read_json(expected_for_gguf(name));
    for (const KvType kv : {KvType::f16, KvType::bf16, KvType::int8, KvType::fp8}) {
      for (const int page : {kv == KvType::fp8 ? 32 : 8, 16, 128}) {
        EngineOptions options = on_gpu(kv);
        options.cache.page_size = page;
        INFO("KV type " << static_cast<int>(kv) << ", pages of " << page);
        check_model(tiny(name) + "/model.gguf", expected, options,
                    kv == KvType::fp8    ? kFp8Cache
                    : kv == KvType::int8 ? kInt8Cache
                                         : kBfloat16);
      }
    }
  }
}

TEST_CASE("SmolLM2 on the GPU is near float32 with every KV type", "[gpu][real]") {
  if (!has_gpu()) return;
  check_differences(compare_model(kSmolLm2, "smollm2.json", on_gpu(), 0.75), 0.08, 0.4);
  check_differences(compare_model(kSmolLm2, "smollm2.json", on_gpu(KvType::f16), 0.75), 0.08, 0.4);
  check_differences(compare_model(kSmolLm2, "smollm2.json", on_gpu(KvType::int8), 0.75), 0.15, 0.8);
  check_differences(compare_model(kSmolLm2, "smollm2.json", on_gpu(KvType::fp8), 1.5), 0.15, 0.8);
}

TEST_CASE("Gemma 3 on the GPU is near float32 with every KV type", "[gpu][real]") {
  if (!has_gpu()) return;
  check_differences(compare_model(kGemma3, "gemma3.json", on_gpu(), 0.75), 0.08, 0.4);
  check_differences(compare_model(kGemma3, "gemma3.json", on_gpu(KvType::f16), 0.75), 0.08, 0.4);
  check_differences(compare_model(kGemma3, "gemma3.json", on_gpu(KvType::int8), 0.75), 0.15, 0.8);
  check_differences(compare_model(kGemma3, "gemma3.json", on_gpu(KvType::fp8), 1.5), 0.15, 0.8);
}

}  // namespace quire::testing
