#pragma once

#include <optional>
#include <string>

#include <quire/quire.h>

#include "support/command_line.h"

namespace examples {

// What every program that opens an engine takes.
struct EngineFlags {
  std::string model;
  quire::EngineOptions options;
  std::optional<int> max_step_tokens;
  std::optional<int> mixed_pass_ms;
  bool verbose = false;
};

void add_engine_flags(CommandLine& line, EngineFlags& flags);
void add_sampling_flags(CommandLine& line, quire::SamplingParams& sampling);

// Opens the engine with a progress bar. Log lines go to stderr: all with --verbose, warnings when
// it is a terminal, else none.
quire::Result<quire::Engine> open_engine(const CommandLine& line, const EngineFlags& flags);

}  // namespace examples
