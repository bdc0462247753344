// Completes one prompt: opens an engine, submits a request, and calls `step` until it is answered.

#include <cstdio>

#include <quire/quire.h>

#include "support/collector.h"
#include "support/command_line.h"
#include "support/engine_flags.h"
#include "support/files.h"
#include "support/generation_json.h"
#include "support/json.h"
#include "support/progress_bar.h"
#include "support/request_json.h"

namespace {

using examples::Collector;
using examples::CommandLine;
using examples::Json;

struct Arguments {
  examples::EngineFlags engine;
  quire::Request request;
  std::optional<std::string> prompt, prompt_file, messages_file;
  bool raw = false;
  std::optional<bool> parse_special;
  bool json = false;
};

CommandLine describe(Arguments& arguments) {
  quire::Request& request = arguments.request;
  CommandLine line("generate",
                   "--model FILE (--prompt TEXT | --prompt-file F | --tokens 1,2,3 | "
                   "--messages F.json) [options]",
                   "Completes a prompt and prints the answer as it comes.");
  line.option("--prompt", "TEXT", arguments.prompt, "a message to the model");
  line.option("--prompt-file", "FILE", arguments.prompt_file, "the same, read from a file");
  line.option("--tokens", "1,2,3", request.tokens, "token ids, taken as they are");
  line.option("--messages", "FILE", arguments.messages_file,
              "JSON: messages, or an object with \"messages\" and template variables");
  line.flag("--raw", arguments.raw, "continue the prompt as it is, without chat template");
  line.option("--parse-special", "0|1", arguments.parse_special,
              "with --raw: names of special tokens in the prompt are those tokens");
  line.option("--max-tokens", "N", request.max_tokens,
              "most tokens of an answer [what the context leaves]");
  examples::add_sampling_flags(line, request.sampling);
  line.repeated("--stop", "TEXT", request.stop, "end the answer before this text; repeatable");
  line.option("--n", "N", request.n, "number of answers");
  line.flag("--ignore-eos", request.sampling.ignore_eos, "go on after the model's end token");
  line.option("--logprobs", "K", request.logprobs,
              "with --json: log-probabilities of each token and the K most likely");
  line.option("--prompt-logprobs", "K", request.prompt_logprobs, "the same for the prompt");
  line.flag("--json", arguments.json, "print one JSON object at the end");
  examples::add_engine_flags(line, arguments.engine);
  return line;
}

// The complaint about a combination of options that makes no sense, or nothing.
std::optional<std::string> check(const Arguments& arguments) {
  if (arguments.engine.model.empty()) return "--model is missing";
  const int prompts = arguments.prompt.has_value() + arguments.prompt_file.has_value() +
                      !arguments.request.tokens.empty() + arguments.messages_file.has_value();
  if (prompts != 1) {
    return "exactly one of --prompt, --prompt-file, --tokens and --messages is needed";
  }
  // --tokens are raw in any case.
  if (arguments.raw && arguments.messages_file) {
    return "--raw is for --prompt and --prompt-file; --messages go through the chat template";
  }
  const bool raw_text = arguments.raw && arguments.request.tokens.empty();
  if (arguments.parse_special && !raw_text) {
    return "--parse-special needs --raw and --prompt or --prompt-file";
  }
  const bool scores = arguments.request.logprobs || arguments.request.prompt_logprobs;
  if (scores && !arguments.json) return "--logprobs and --prompt-logprobs need --json";
  return std::nullopt;
}

// Fills in the request's prompt from what the command line names.
quire::Status read_prompt(const Arguments& arguments, quire::Request& request) {
  if (arguments.messages_file) {
    const quire::Result<Json> conversation = examples::read_json_file(*arguments.messages_file);
    if (!conversation) return conversation.status();
    const quire::Status status = examples::read_conversation(*conversation, request);
    if (status) return status;
    return {status.code(), *arguments.messages_file + ": " + status.message()};
  }
  if (!arguments.prompt && !arguments.prompt_file) return {};  // --tokens
  quire::Result<std::string> text = arguments.prompt ? quire::Result<std::string>(*arguments.prompt)
                                                     : examples::read_file(*arguments.prompt_file);
  if (!text) return text.status();
  if (arguments.raw) {
    request.prompt = std::move(*text);
    request.parse_special = arguments.parse_special.value_or(request.parse_special);
  } else {
    request.messages.push_back({"user", std::move(*text)});
  }
  return {};
}

bool is_chat(const quire::Request& request) {
  return !request.messages.empty() || !request.template_json.empty();
}

// The ids that the engine will see.
quire::Result<std::vector<std::int32_t>> prompt_ids(const quire::Tokenizer& tokenizer,
                                                    const quire::Request& request) {
  if (!request.tokens.empty()) return request.tokens;
  if (is_chat(request)) {
    return tokenizer.encode_chat(request.messages, {.variables_json = request.template_json});
  }
  return tokenizer.encode(request.prompt, {.parse_special = request.parse_special});
}

void print_json(const quire::Engine& engine, const quire::Request& request,
                const std::vector<std::int32_t>& prompt, const quire::Generation& generation) {
  const quire::RequestReport& report = generation.report;
  Json result = {{"prompt_tokens", prompt}};
  result.update(examples::generation_to_json(generation, request));
  result.set("timings", {{"load_s", engine.stats().load_seconds},
                         {"prefill_s", report.prefill_seconds},
                         {"decode_s", report.decode_seconds},
                         {"ttft_s", report.first_token_seconds}});
  examples::print(examples::to_text(result) + "\n");
}

void print_choices(const quire::Generation& generation) {
  for (std::size_t i = 0; i < generation.choices.size(); ++i) {
    const quire::Answer& answer = generation.choices[i];
    std::printf("--- answer %zu (%s)\n", i + 1, quire::to_string(answer.finish_reason));
    examples::print(answer.text + "\n");
  }
}

// Steps until the request is answered. Shows the text as it comes; until it does, or where it is
// printed at the end, a progress bar.
quire::Status compute(quire::Engine& engine, const quire::Request& request,
                      std::size_t prompt_tokens, bool stream, Collector& answer) {
  std::optional<examples::ProgressBar> progress(std::in_place, "answering");
  const auto most = prompt_tokens + static_cast<double>(request.n) * request.max_tokens.value_or(0);
  int computed = 0;
  while (engine.has_work()) {
    const quire::Result<quire::StepReport> step = engine.step({.run_ahead = true});
    for (const quire::TokenEvent& event : engine.events()) {
      answer.add(event);
      if (!stream || event.text.empty()) continue;
      progress.reset();
      examples::print(event.text);
      std::fflush(stdout);
    }
    if (!step) return step.status();
    computed += step->prefill_tokens + step->decode_tokens;
    if (progress) progress->show(computed / most, std::to_string(computed) + " tokens");
  }
  return answer.status();
}

int run(const CommandLine& line, Arguments& arguments) {
  quire::Request& request = arguments.request;
  if (quire::Status status = read_prompt(arguments, request); !status) return line.failed(status);

  quire::Result<quire::Engine> engine = examples::open_engine(line, arguments.engine);
  if (!engine) return line.failed(engine.status());
  const auto prompt = prompt_ids(engine->tokenizer(), request);
  if (!prompt) {
    const bool raw_helps = is_chat(request) && !engine->tokenizer().has_chat_template();
    return line.failed(prompt.status().message() +
                       (raw_helps ? "; --raw continues the prompt as it is" : ""));
  }

  const quire::Result<quire::RequestId> id = engine->submit(request);
  if (!id) return line.failed(id.status());
  const bool stream = !arguments.json && request.n == 1;
  Collector answer(request.n);
  const quire::Status status = compute(*engine, request, prompt->size(), stream, answer);
  if (!status) return line.failed(status);

  if (arguments.json) {
    print_json(*engine, request, *prompt, answer.generation());
  } else if (stream) {
    examples::print("\n");
  } else {
    print_choices(answer.generation());
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
