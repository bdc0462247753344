#include <cmath>

#include "base/error.h"
#include "cpu/operations.h"

namespace quire::cpu {
namespace {

// cos(p f) and sin(p f) in float32, as the reference implementations compute them.
void rotations(const BeginPassArgs& args, const RotationArgs& table) {
  const auto half = static_cast<std::size_t>(table.dimensions / 2);
  for (std::size_t row = 0; row < args.positions.size(); ++row) {
    const int choice = args.rope_choices[row] == 1 ? 1 : 0;
    const float* frequency = table.frequency[choice];
    const float magnitude = table.magnitude[choice];
    const float position = static_cast<float>(args.positions[row]);
    float* cosine = table.cosine + row * half;
    float* sine = table.sine + row * half;
    for (std::size_t i = 0; i < half; ++i) {
      const float angle = position * frequency[i];
      cosine[i] = std::cos(angle) * magnitude;
      sine[i] = std::sin(angle) * magnitude;
    }
  }
}

}  // namespace

Status begin_pass(Device&, const BeginPassArgs& args) {
  if (args.positions.size() != args.tokens.size() ||
      args.rope_choices.size() != args.tokens.size()) {
    return error(StatusCode::internal, "begin_pass: {} tokens, {} positions, {} RoPE choices",
                 args.tokens.size(), args.positions.size(), args.rope_choices.size());
  }
  for (const RotationArgs& table : args.rotations) rotations(args, table);
  return {};
}

}  // namespace quire::cpu
