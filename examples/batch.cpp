// Answers a file of requests, one JSON object a line, all in one engine: they are computed
// together, and prompts that begin alike share their pages.

#include <cstdio>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>

#include <quire/quire.h>

#include "support/collector.h"
#include "support/command_line.h"
#include "support/engine_flags.h"
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
  std::string input, output;
  quire::Request defaults;
  bool raw = false;
};

CommandLine describe(Arguments& arguments) {
  CommandLine line(
      "batch", "--model FILE --input F.jsonl --output F.jsonl [options]",
      "Answers a file of requests, one JSON object a line: id, prompt | messages | tokens,\n"
      "raw, max_tokens, temperature, top_k, top_p, min_p, seed, stop, n, logprobs, ...\n"
      "Writes one object a line in the same order; a request that fails has \"error\".");
  line.option("--input", "FILE", arguments.input, "requests; - is standard input");
  line.option("--output", "FILE", arguments.output, "results; - is standard output");
  line.flag("--raw", arguments.raw, "prompts are continued as they are, without chat template");
  line.option("--max-tokens", "N", arguments.defaults.max_tokens,
              "for requests without max_tokens [what the context leaves]");
  examples::add_sampling_flags(line, arguments.defaults.sampling);
  examples::add_engine_flags(line, arguments.engine);
  return line;
}

std::optional<std::string> check(const Arguments& arguments) {
  if (arguments.engine.model.empty()) return "--model is missing";
  if (arguments.input.empty()) return "--input is missing";
  if (arguments.output.empty()) return "--output is missing";
  std::error_code none_such;
  if (std::filesystem::equivalent(arguments.input, arguments.output, none_such)) {
    return "--output " + arguments.output + ": is the same file as --input";
  }
  return std::nullopt;
}

// The requests between the input and the output, in the order of the input.
class Batch {
 public:
  Batch(quire::Engine& engine, const Arguments& arguments, std::istream& in, std::ostream& out)
      : engine_(engine), arguments_(arguments), in_(in), out_(out) {}

  // Reads and submits requests while the engine's queue has room.
  void submit_more() {
    const std::size_t window = arguments_.engine.options.scheduling.max_queued;
    std::string text;
    while (lines_.size() < window && std::getline(in_, text)) {
      ++read_;
      bytes_read_ += text.size() + 1;
      if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
      submit(text);
    }
  }

  void deliver(const std::vector<quire::TokenEvent>& events) {
    for (const quire::TokenEvent& event : events) {
      const auto it = running_.find(event.request);
      if (it == running_.end()) continue;
      Line& line = *it->second;
      line.answer.add(event);
      if (!line.answer.done()) continue;
      line.done = true;
      if (line.answer.status()) {
        line.result.update(examples::generation_to_json(line.answer.generation(), line.request));
      } else {
        line.result.set("error", line.answer.status().message());
      }
      running_.erase(it);
    }
  }

  // Ends what is still running with an error.
  void fail(const quire::Status& status) {
    for (auto& [id, line] : running_) {
      line->result.set("error", status.message());
      line->done = true;
    }
    running_.clear();
  }

  // Writes the results that are next in order.
  void write_finished() {
    while (!lines_.empty() && lines_.front().done) {
      out_ << examples::to_text(lines_.front().result) << '\n';
      lines_.pop_front();
      ++written_;
    }
    out_.flush();
  }

  bool finished() const { return lines_.empty() && !in_; }
  // How much of an input of `bytes` is answered; of what has been read, where that is 0: unknown.
  double done(std::uintmax_t bytes) const {
    double requests = static_cast<double>(written_ + lines_.size());
    if (bytes > bytes_read_ && bytes_read_ > 0) {
      requests *= static_cast<double>(bytes) / static_cast<double>(bytes_read_);
    }
    return requests > 0 ? static_cast<double>(written_) / requests : 0;
  }
  std::string note() const {
    return std::to_string(written_) + " done, " + std::to_string(lines_.size()) + " under way";
  }

 private:
  struct Line {
    Json result = Json::object();
    quire::Request request;  // of it, the log-probabilities asked for
    Collector answer{0};
    bool done = false;
  };

  void submit(const std::string& text) {
    Line& line = lines_.emplace_back();
    quire::Request request = arguments_.defaults;
    const quire::Result<Json> value = examples::parse_json(text, read_);
    if (value && value->contains("id")) line.result.set("id", (*value)["id"]);
    const quire::Status status = value ? prepare(*value, request) : value.status();
    const quire::Result<quire::RequestId> id =
        status ? engine_.submit(request) : quire::Result<quire::RequestId>(status);
    if (!id) {
      const bool chat = !request.messages.empty() || !request.template_json.empty();
      const bool raw_helps = chat && !engine_.tokenizer().has_chat_template();
      line.result.set(
          "error",
          id.status().message() +
              (raw_helps ? "; with --raw or \"raw\": true a prompt is continued as it is" : ""));
      line.done = true;
      return;
    }
    line.answer = Collector(request.n);
    line.request.logprobs = request.logprobs;
    line.request.prompt_logprobs = request.prompt_logprobs;
    running_[*id] = &line;
  }

  quire::Status prepare(Json value, quire::Request& request) const {
    if (arguments_.raw && value.is_object() && !value.contains("raw")) value.set("raw", true);
    return examples::read_request(value, request);
  }

  quire::Engine& engine_;
  const Arguments& arguments_;
  std::istream& in_;
  std::ostream& out_;
  std::deque<Line> lines_;  // references stay valid: it grows and shrinks only at its ends
  std::map<quire::RequestId, Line*> running_;
  std::size_t read_ = 0;  // lines of the input, empty ones too
  std::uintmax_t bytes_read_ = 0;
  std::size_t written_ = 0;
};

std::string name_of(const std::string& path, const char* standard) {
  return path == "-" ? std::string("standard ") + standard : path;
}

quire::Status io_error(const std::string& what) {
  return {quire::StatusCode::io_error, what};
}

// Until all are answered and written.
quire::Status answer_all(quire::Engine& engine, const Arguments& arguments, std::istream& in,
                         std::ostream& out) {
  Batch batch(engine, arguments, in, out);
  std::error_code unknown;
  const bool whole = std::filesystem::is_regular_file(arguments.input, unknown);
  const std::uintmax_t bytes = whole ? std::filesystem::file_size(arguments.input, unknown) : 0;
  examples::ProgressBar progress("answering");
  while (true) {
    batch.submit_more();
    batch.write_finished();
    if (in.bad()) return io_error(name_of(arguments.input, "input") + ": cannot be read");
    if (!out) return io_error(name_of(arguments.output, "output") + ": cannot be written");
    if (batch.finished()) return {};
    const quire::Result<quire::StepReport> step = engine.step({.run_ahead = true});
    batch.deliver(engine.events());
    if (!step && !engine.has_work()) batch.fail(step.status());
    progress.show(batch.done(unknown ? 0 : bytes), batch.note());
  }
}

int run(const CommandLine& line, const Arguments& arguments) {
  std::ifstream input_file;
  if (arguments.input != "-") {
    input_file.open(arguments.input);
    if (!input_file) return line.failed(arguments.input + ": cannot be read");
  }
  std::istream& in = arguments.input == "-" ? std::cin : input_file;

  quire::Result<quire::Engine> engine = examples::open_engine(line, arguments.engine);
  if (!engine) return line.failed(engine.status());
  std::ofstream output_file;
  if (arguments.output != "-") {
    output_file.open(arguments.output);
    if (!output_file) return line.failed(arguments.output + ": cannot be written");
  }
  std::ostream& out = arguments.output == "-" ? std::cout : output_file;

  const quire::Status status = answer_all(*engine, arguments, in, out);
  return status ? 0 : line.failed(status);
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CommandLine line = describe(arguments);
  if (const std::optional<int> exit_code = line.parse(argc, argv)) return *exit_code;
  if (const auto complaint = check(arguments)) return line.wrong(*complaint);
  return run(line, arguments);
}
