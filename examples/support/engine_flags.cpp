#include "support/engine_flags.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "support/progress_bar.h"

namespace examples {

void add_engine_flags(CommandLine& line, EngineFlags& flags) {
  using quire::Compute;
  using quire::KvType;
  quire::EngineOptions& options = flags.options;
  line.option("--model", "FILE", flags.model,
              "GGUF file (the first one of a split) or Hugging Face folder");
  line.option("--device", "NAME", options.device,
              "cpu, or of it cpu:scalar, cpu:avx2, cpu:avx512, cpu:avx512bf16; cuda, cuda:1 ...");
  line.option("--threads", "N", options.threads, "default: the processors there are");
  line.option("--context", "N", options.context, "most tokens of a sequence");
  line.option("--memory-bytes", "N", options.memory_bytes, "most memory the engine may use");
  line.option("--kv-bytes", "N", options.kv_bytes, "most memory for keys and values");
  line.choice<std::optional<KvType>>("--kv-type",
                                     {{"f32", KvType::f32},
                                      {"f16", KvType::f16},
                                      {"bf16", KvType::bf16},
                                      {"int8", KvType::int8},
                                      {"fp8", KvType::fp8}},
                                     options.cache.type,
                                     "type of the cached keys and values; default: the device's");
  line.choice<Compute>("--compute", {{"auto", Compute::automatic}, {"f32", Compute::f32}},
                       options.cpu.compute, "f32: activations are not quantised (slow)");
  line.option("--page-size", "N", options.cache.page_size, "tokens in a page: 8, 16, ... 128");
  line.option("--prefix-cache", "0|1", options.cache.enabled, "keep prompts for later requests");
  line.option("--max-step-tokens", "N", flags.max_step_tokens, "tokens computed in one pass");
  line.option("--mixed-pass-ms", "N", flags.mixed_pass_ms,
              "longest pass with prompts while answers run; 0: any, for most tokens a second");
  line.flag("--deterministic", options.cuda.deterministic,
            "same seed, same tokens; always so on the CPU");
  line.flag("--verbose", flags.verbose, "log to stderr");
}

void add_sampling_flags(CommandLine& line, quire::SamplingParams& sampling) {
  // "model's, else": what the model's generation_config recommends, or where it says nothing.
  line.option("--temperature", "T", sampling.temperature,
              "0: always the most likely token [model's, else 1]");
  line.option("--top-k", "K", sampling.top_k,
              "only the K most likely tokens; 0: off [model's, else 0]");
  line.option("--top-p", "P", sampling.top_p,
              "only the most likely tokens that sum up to P; 1: off [model's, else 1]");
  line.option("--min-p", "P", sampling.min_p,
              "only tokens at least P x as likely as the best; 0: off [model's, else 0]");
  line.option("--seed", "S", sampling.seed, "same seed, same answer [drawn anew each time]");
}

quire::Result<quire::Engine> open_engine(const CommandLine& line, const EngineFlags& flags) {
  quire::EngineOptions options = flags.options;
  if (flags.max_step_tokens) {
    // A pass needs room for every running sequence and a piece of a prompt.
    quire::SchedulingOptions& scheduling = options.scheduling;
    scheduling.max_step_tokens = *flags.max_step_tokens;
    const int room = scheduling.max_step_tokens > 17 ? scheduling.max_step_tokens - 16 : 1;
    scheduling.max_running = std::min(room, scheduling.max_running);
  }
  if (flags.mixed_pass_ms) {
    options.scheduling.mixed_pass_time = std::chrono::milliseconds(*flags.mixed_pass_ms);
  }
  ProgressBar progress("loading");
  options.on_load_progress = [&progress](double done) {
    progress.show(done, std::to_string(static_cast<int>(done * 100)) + "%");
    return true;
  };
  options.log = [program = line.program(), verbose = flags.verbose,
                 terminal = stderr_is_terminal()](quire::LogLevel level, std::string_view text) {
    if (!verbose && !(terminal && level == quire::LogLevel::warning)) return;
    std::fprintf(stderr, "%s: %.*s\n", program.c_str(), static_cast<int>(text.size()), text.data());
  };
  return quire::Engine::open(flags.model, options);
}

}  // namespace examples
