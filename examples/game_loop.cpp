// A game's main loop: 60 frames a second, each gives the engine a few milliseconds. Four answers
// are being written when a long prompt arrives; the loop measures how well `step` keeps its time.

#include <chrono>
#include <cstdio>
#include <map>
#include <thread>

#include <quire/quire.h>

#include "support/command_line.h"
#include "support/engine_flags.h"
#include "support/files.h"
#include "support/json.h"
#include "support/progress_bar.h"
#include "support/statistics.h"

namespace {

using examples::CommandLine;
using examples::Json;
using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

struct Arguments {
  examples::EngineFlags engine;
  double seconds = 20;
  double budget_ms = 3;
  int answers = 4;
  int prompt_tokens = 700;
  bool json = false;
};

CommandLine describe(Arguments& arguments) {
  CommandLine line(
      "game_loop", "--model FILE [options]",
      "Runs a loop of 60 frames a second that gives the engine a slice of every frame,\n"
      "and prints by how much the slices were overrun.");
  examples::add_engine_flags(line, arguments.engine);
  line.option("--seconds", "S", arguments.seconds, "length of the loop [20]");
  line.option("--budget-ms", "MS", arguments.budget_ms, "slice of a frame [3]");
  line.option("--answers", "N", arguments.answers, "answers that run from the start [4]");
  line.option("--prompt-tokens", "N", arguments.prompt_tokens,
              "length of the prompt that arrives among them [700]");
  line.flag("--json", arguments.json, "print one JSON object");
  return line;
}

std::optional<std::string> check(const Arguments& arguments) {
  if (arguments.engine.model.empty()) return "--model is missing";
  if (!(arguments.seconds > 0 && arguments.seconds <= 3600)) return "--seconds: not in (0, 3600]";
  if (!(arguments.budget_ms > 0 && arguments.budget_ms <= 1000)) {
    return "--budget-ms: not in (0, 1000]";
  }
  if (arguments.answers < 0 || arguments.answers > 64) return "--answers: not in [0, 64]";
  if (arguments.prompt_tokens < 1) return "--prompt-tokens: less than 1";
  return std::nullopt;
}

// What one speaker of the game has said.
struct Speaker {
  const char* kind = "";
  Clock::time_point asked;
  double first_token_seconds = -1;  // none yet
  int tokens = 0;
  quire::Status status;
};

struct Frames {
  std::vector<double> overshoot_ms;  // of frames in which the engine had work
  int count = 0;
  int late = 0;  // frames that began after their time
};

class Game {
 public:
  Game(quire::Engine& engine, const Arguments& arguments)
      : engine_(engine), arguments_(arguments) {}

  quire::Status start_answers() {
    for (int i = 0; i < arguments_.answers; ++i) {
      quire::Request request;
      request.prompt = "Villager " + std::to_string(i + 1) + " tells the story of the old mill:";
      if (quire::Status status = ask("answer", std::move(request)); !status) return status;
    }
    return {};
  }

  quire::Status run() {
    const auto frame_time = std::chrono::duration_cast<Clock::duration>(Milliseconds(1000.0 / 60));
    const int frames = static_cast<int>(arguments_.seconds * 60);
    const int long_prompt_at = std::min(60, frames / 4);
    examples::ProgressBar progress("playing");
    Clock::time_point next = Clock::now();
    for (int frame = 0; frame < frames; ++frame) {
      if (frame == long_prompt_at) {
        if (quire::Status status = ask_long(); !status) return status;
      }
      if (quire::Status status = on_frame(); !status) return status;
      if (frame % 60 == 0) {  // after the engine's slice, in what is left of the frame
        const std::string second = std::to_string(frame / 60);
        progress.show(static_cast<double>(frame) / frames, second + " s");
      }
      next += frame_time;
      if (Clock::now() > next) {
        ++frames_.late;
        next = Clock::now();
      }
      std::this_thread::sleep_until(next);
    }
    return {};
  }

  const Frames& frames() const { return frames_; }
  const std::map<quire::RequestId, Speaker>& speakers() const { return speakers_; }

 private:
  quire::Status ask(const char* kind, quire::Request request) {
    request.sampling.ignore_eos = true;
    request.sampling.seed = speakers_.size();
    const quire::Result<quire::RequestId> id = engine_.submit(std::move(request));
    if (!id) return id.status();
    speakers_[*id] = {kind, Clock::now()};
    return {};
  }

  quire::Status ask_long() {
    const quire::Tokenizer& tokenizer = engine_.tokenizer();
    const auto sentence = tokenizer.encode(" The road to the castle was long, and it rained.",
                                           {.add_special = false});
    if (!sentence) return sentence.status();
    quire::Request request;
    for (int i = 0; i < arguments_.prompt_tokens; ++i) {
      request.tokens.push_back((*sentence)[i % sentence->size()]);
    }
    return ask("long prompt", std::move(request));
  }

  quire::Status on_frame() {
    const bool work = engine_.has_work();
    const auto budget =
        std::chrono::duration_cast<std::chrono::nanoseconds>(Milliseconds(arguments_.budget_ms));
    const Clock::time_point begin = Clock::now();
    const quire::Result<quire::StepReport> step = engine_.step({.time = budget});
    const Milliseconds taken = Clock::now() - begin;
    for (const quire::TokenEvent& event : engine_.events()) hear(event);
    ++frames_.count;
    if (work) frames_.overshoot_ms.push_back(std::max(0.0, taken.count() - arguments_.budget_ms));
    return step ? quire::Status() : step.status();
  }

  void hear(const quire::TokenEvent& event) {
    Speaker& speaker = speakers_[event.request];
    speaker.tokens += static_cast<int>(event.tokens.size());
    if (speaker.first_token_seconds < 0 && speaker.tokens > 0) {
      speaker.first_token_seconds =
          std::chrono::duration<double>(Clock::now() - speaker.asked).count();
    }
    if (event.finish_reason == quire::FinishReason::error) speaker.status = event.status;
  }

  quire::Engine& engine_;
  const Arguments& arguments_;
  Frames frames_;
  std::map<quire::RequestId, Speaker> speakers_;
};

Json summary(const Arguments& arguments, const Game& game) {
  const Frames& frames = game.frames();
  Json speakers = Json::array();
  for (const auto& [id, speaker] : game.speakers()) {
    Json entry = {{"kind", speaker.kind}, {"tokens", speaker.tokens}};
    entry.set("ttft_s",
              speaker.first_token_seconds < 0 ? Json(nullptr) : Json(speaker.first_token_seconds));
    speakers.push_back(std::move(entry));
  }
  return {{"frames", frames.count},
          {"late_frames", frames.late},
          {"budget_ms", arguments.budget_ms},
          {"overshoot_ms",
           {{"p50", examples::percentile(frames.overshoot_ms, 0.5)},
            {"p99", examples::percentile(frames.overshoot_ms, 0.99)},
            {"max", examples::percentile(frames.overshoot_ms, 1)}}},
          {"speakers", std::move(speakers)}};
}

void print_summary(const Arguments& arguments, const Game& game) {
  const Frames& frames = game.frames();
  std::printf("%d frames, %d late; slices of %.1f ms overrun by p50 %.3f, p99 %.3f, max %.3f ms\n",
              frames.count, frames.late, arguments.budget_ms,
              examples::percentile(frames.overshoot_ms, 0.5),
              examples::percentile(frames.overshoot_ms, 0.99),
              examples::percentile(frames.overshoot_ms, 1));
  for (const auto& [id, speaker] : game.speakers()) {
    std::printf("%-12s %5d tokens", speaker.kind, speaker.tokens);
    if (speaker.first_token_seconds >= 0) {
      std::printf(", the first after %.2f s", speaker.first_token_seconds);
    }
    std::printf("\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CommandLine line = describe(arguments);
  if (const std::optional<int> exit_code = line.parse(argc, argv)) return *exit_code;
  if (const auto complaint = check(arguments)) return line.wrong(*complaint);
  quire::Result<quire::Engine> engine = examples::open_engine(line, arguments.engine);
  if (!engine) return line.failed(engine.status());
  Game game(*engine, arguments);
  if (quire::Status status = game.start_answers(); !status) return line.failed(status);
  if (quire::Status status = game.run(); !status) return line.failed(status);
  for (const auto& [id, speaker] : game.speakers()) {
    if (!speaker.status) return line.failed(speaker.status);
  }
  if (arguments.json) {
    examples::print(examples::to_text(summary(arguments, game)) + "\n");
  } else {
    print_summary(arguments, game);
  }
  if (quire::Status status = examples::finish_output(); !status) return line.failed(status);
  return 0;
}
