// Speed of the whole engine: for each number of concurrent requests, all are submitted at once with
// random prompts of a fixed seed and run to a fixed length.
//
// What the numbers are: prefill, prompt tokens computed over the time of passes with prompt tokens
// in them; decode, tokens over the time of passes without; TTFT, submit to first token; TPOT, the
// mean time between the tokens of one request after its first; KV overhead, bytes of the pages in
// use over those of the tokens that later ones still see, while all that runs decodes. With
// --separate only prefill and decode, each in passes of its own, as other engines' benchmarks time
// them.

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <quire/quire.h>

#include "mixed_run.h"
#include "separate_phases.h"
#include "support/command_line.h"
#include "support/engine_flags.h"
#include "support/files.h"
#include "support/json.h"
#include "support/progress_bar.h"

namespace {

using examples::CommandLine;
using examples::Json;

struct Arguments {
  examples::EngineFlags engine;
  std::vector<std::int32_t> prompt_tokens = {512};
  int generated_tokens = 128;
  std::vector<std::int32_t> concurrency = {1, 8, 32};
  int shared_prefix = 0;
  bool separate = false;
  bool json = false;
};

CommandLine describe(Arguments& arguments) {
  CommandLine line("end_to_end", "--model FILE [options]",
                   "Measures prefill and decode speed, latencies and use of KV memory.");
  examples::add_engine_flags(line, arguments.engine);
  line.option("--prompt-tokens", "512", arguments.prompt_tokens,
              "tokens of each prompt; of several numbers, one run for each");
  line.option("--gen-tokens", "N", arguments.generated_tokens, "tokens to generate [128]");
  line.option("--concurrency", "1,8,32", arguments.concurrency,
              "requests at once, one run for each");
  line.option("--shared-prefix", "N", arguments.shared_prefix,
              "first tokens that all prompts of a run have in common [0]");
  line.flag("--separate", arguments.separate,
            "time the prompts first, then passes in which all requests decode");
  line.flag("--json", arguments.json, "print one JSON object");
  return line;
}

std::optional<std::string> check(const Arguments& arguments) {
  if (arguments.engine.model.empty()) return "--model is missing";
  if (arguments.generated_tokens < 1) return "--gen-tokens: less than 1";
  for (const int tokens : arguments.prompt_tokens) {
    if (tokens < 1) return "--prompt-tokens: less than 1";
    if (arguments.shared_prefix < 0 || arguments.shared_prefix > tokens) {
      return "--shared-prefix: not in [0, prompt tokens]";
    }
  }
  if (arguments.separate && arguments.shared_prefix > 0) {
    return "--shared-prefix: not with --separate";
  }
  for (const int requests : arguments.concurrency) {
    if (requests < 1 || requests > 1024) return "--concurrency: not in [1, 1024]";
  }
  return std::nullopt;
}

int step_tokens(const Arguments& arguments) {
  return arguments.engine.max_step_tokens.value_or(
      arguments.engine.options.scheduling.max_step_tokens);
}

// Room for the largest run, unless the command line says something else.
void make_room(Arguments& arguments) {
  quire::EngineOptions& options = arguments.engine.options;
  const auto& prompts = arguments.prompt_tokens;
  PhaseShape most;
  most.prompt_tokens = *std::max_element(prompts.begin(), prompts.end());
  most.decode_tokens = arguments.generated_tokens;
  most.sequences = *std::max_element(arguments.concurrency.begin(), arguments.concurrency.end());
  options.scheduling.max_running = std::max(options.scheduling.max_running, most.sequences);
  options.scheduling.max_step_tokens =
      std::max(options.scheduling.max_step_tokens, options.scheduling.max_running + 16);
  most.step_tokens = step_tokens(arguments);
  if (options.kv_bytes != 0) return;
  const auto estimate = quire::Engine::estimate(arguments.engine.model, options);
  if (!estimate) return;         // opening it will say why
  const std::size_t page = 128;  // the largest there is
  const auto longest = static_cast<std::size_t>(longest_sequence(most));
  const std::size_t tokens = (longest + page) * static_cast<std::size_t>(most.sequences);
  options.kv_bytes = std::max(estimate->kv_bytes, tokens * estimate->kv_bytes_per_token);
}

void print_row(const Json& run) {
  const auto number = [&run](const char* name) { return run[name].number().value_or(0); };
  const auto ms = [&run](const char* name, const char* p) {
    return run[name][p].number().value_or(0) * 1e3;
  };
  std::printf("%8.0f %10.1f %10.1f  %8.1f %8.1f %8.1f  %8.2f %8.2f %8.2f  %8.3f %8.0f\n",
              number("concurrency"), number("prefill_tokens_per_s"), number("decode_tokens_per_s"),
              ms("ttft_s", "p50"), ms("ttft_s", "p95"), ms("ttft_s", "p99"), ms("tpot_s", "p50"),
              ms("tpot_s", "p95"), ms("tpot_s", "p99"), number("kv_allocated_over_used"),
              number("cached_tokens"));
  std::fflush(stdout);
}

quire::Result<Json> run_mixed(quire::Engine& engine, const Arguments& arguments, int prompt_tokens,
                              int requests, std::size_t number) {
  auto result = measure_mixed(engine, {prompt_tokens, arguments.shared_prefix,
                                       arguments.generated_tokens, requests, number});
  if (result && !arguments.json) print_row(*result);
  return result;
}

quire::Result<Json> run_separate(quire::Engine& engine, const Arguments& arguments,
                                 int prompt_tokens, int requests, std::size_t number) {
  const PhaseShape shape{prompt_tokens, arguments.generated_tokens, requests,
                         step_tokens(arguments)};
  const auto speeds = measure_phases(engine, shape, 20240607 + number);
  if (!speeds) return speeds.status();
  if (!arguments.json) {
    std::printf("%8d %8d %10.1f %10.1f %8.1f\n", requests, prompt_tokens, speeds->prefill,
                speeds->decode, speeds->context);
    std::fflush(stdout);
  }
  return Json{{"concurrency", requests},
              {"prompt_tokens", prompt_tokens},
              {"context", speeds->context},
              {"prefill_tokens_per_s", speeds->prefill},
              {"decode_tokens_per_s", speeds->decode}};
}

void print_head(const Arguments& arguments, const quire::EngineStats& opened) {
  std::printf("%s on %s, %d threads, loaded in %.2f s; %d tokens generated\n",
              arguments.engine.model.c_str(), opened.device.c_str(), opened.threads,
              opened.load_seconds, arguments.generated_tokens);
  if (arguments.separate) {
    std::printf("%8s %8s %10s %10s %8s\n%8s %8s %10s %10s %8s\n", "requests", "prompt", "prefill",
                "decode", "context", "", "tokens", "tokens/s", "tokens/s", "tokens");
    return;
  }
  std::printf("%8s %10s %10s  %26s  %26s  %8s %8s\n%8s %10s %10s  %8s %8s %8s  %8s %8s %8s\n",
              "requests", "prefill", "decode", "TTFT, ms", "TPOT, ms", "KV over", "cached", "",
              "tokens/s", "tokens/s", "p50", "p95", "p99", "p50", "p95", "p99");
}

// The object of each run; with --json nothing else is printed, so a terminal gets a progress bar.
quire::Result<Json> run_all(quire::Engine& engine, const Arguments& arguments) {
  std::optional<examples::ProgressBar> progress;
  if (arguments.json) progress.emplace("measuring");
  const double all =
      static_cast<double>(arguments.prompt_tokens.size() * arguments.concurrency.size());
  Json runs = Json::array();
  for (const int prompt_tokens : arguments.prompt_tokens) {
    for (const int requests : arguments.concurrency) {
      if (progress) {
        progress->show(runs.size() / all, std::to_string(requests) + " requests of " +
                                              std::to_string(prompt_tokens) + " tokens");
      }
      auto one = arguments.separate
                     ? run_separate(engine, arguments, prompt_tokens, requests, runs.size())
                     : run_mixed(engine, arguments, prompt_tokens, requests, runs.size());
      if (!one) return one.status();
      runs.push_back(*std::move(one));
    }
  }
  return runs;
}

int run(const CommandLine& line, Arguments& arguments) {
  make_room(arguments);
  quire::Result<quire::Engine> engine = examples::open_engine(line, arguments.engine);
  if (!engine) return line.failed(engine.status());
  const quire::EngineStats opened = engine->stats();
  if (!arguments.json) print_head(arguments, opened);
  quire::Result<Json> runs = run_all(*engine, arguments);
  if (!runs) return line.failed(runs.status());
  if (arguments.json) {
    const Json result = {{"model", arguments.engine.model},
                         {"device", opened.device},
                         {"threads", opened.threads},
                         {"load_s", opened.load_seconds},
                         {"peak_memory_bytes", engine->stats().peak_memory_bytes},
                         {"page_size", opened.page_size},
                         {"gen_tokens", arguments.generated_tokens},
                         {"shared_prefix", arguments.shared_prefix},
                         {"runs", *std::move(runs)}};
    examples::print(examples::to_text(result) + "\n");
  }
  if (quire::Status status = examples::finish_output(); !status) return line.failed(status);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CommandLine line = describe(arguments);
  if (const std::optional<int> exit_code = line.parse(argc, argv)) return *exit_code;
  if (const auto complaint = check(arguments)) return line.wrong(*complaint);
  return run(line, arguments);
}
