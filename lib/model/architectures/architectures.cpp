#include "model/architectures/architectures.h"

namespace quire::model {
namespace {

constexpr Architecture kArchitectures[] = {
    {"llama", "llama", configure_llama},       {"", "mistral", configure_mistral},
    {"", "mixtral", configure_mixtral},        {"qwen2", "qwen2", configure_qwen2},
    {"qwen3", "qwen3", configure_qwen3},       {"qwen3moe", "qwen3_moe", configure_qwen3_moe},
    {"gemma2", "gemma2", configure_gemma2},    {"gemma3", "gemma3_text", configure_gemma3},
    {"phi3", "phi3", configure_phi3},          {"smollm3", "smollm3", configure_smollm3},
    {"granite", "granite", configure_granite}, {"olmo2", "olmo2", configure_olmo2},
    {"gpt-oss", "", configure_gpt_oss},
};

}  // namespace

std::span<const Architecture> architectures() {
  return kArchitectures;
}

}  // namespace quire::model
