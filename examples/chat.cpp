// A conversation on the terminal. Ctrl-C cancels the answer that is being written, not the program.

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include <quire/quire.h>

#include "support/command_line.h"
#include "support/engine_flags.h"
#include "support/files.h"

namespace {

using examples::CommandLine;

// Ctrl-C writes a byte into this pipe: whoever waits for input can wait for that too, whichever
// thread the signal arrives on.
int interrupts[2];

void on_interrupt(int) {
  const int error = errno;
  [[maybe_unused]] const ssize_t count = write(interrupts[1], "c", 1);
  errno = error;
}

bool catch_interrupts() {
  if (pipe(interrupts) != 0) return false;
  for (const int end : interrupts) fcntl(end, F_SETFL, O_NONBLOCK);
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  return sigaction(SIGINT, &action, nullptr) == 0;
}

// True if Ctrl-C was pressed since the last call.
bool interrupted() {
  char bytes[16];
  bool any = false;
  while (read(interrupts[0], bytes, sizeof bytes) > 0) any = true;
  return any;
}

struct Arguments {
  examples::EngineFlags engine;
  quire::Request request;
  std::optional<std::string> system;
};

CommandLine describe(Arguments& arguments) {
  CommandLine line(
      "chat", "--model FILE [options]",
      "A conversation on the terminal. Ctrl-C stops an answer; Ctrl-D ends the program.\n"
      "/clear forgets the conversation.");
  examples::add_engine_flags(line, arguments.engine);
  line.option("--system", "TEXT", arguments.system, "what the model is told first");
  line.option("--max-tokens", "N", arguments.request.max_tokens,
              "most tokens of an answer [what the context leaves]");
  examples::add_sampling_flags(line, arguments.request.sampling);
  return line;
}

enum class Input { line, interrupt, end };

// Reads one line of standard input without its end.
Input read_line(std::string& line) {
  line.clear();
  char c = 0;
  pollfd sources[] = {{STDIN_FILENO, POLLIN, 0}, {interrupts[0], POLLIN, 0}};
  while (true) {
    if (poll(sources, 2, -1) < 0) continue;  // a signal: look again
    if (interrupted()) return Input::interrupt;
    if (sources[0].revents == 0) continue;
    const ssize_t count = read(STDIN_FILENO, &c, 1);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return line.empty() ? Input::end : Input::line;
    if (c == '\n') return Input::line;
    line += c;
  }
}

class Chat {
 public:
  Chat(quire::Engine& engine, const Arguments& arguments)
      : engine_(engine), arguments_(arguments), terminal_(isatty(STDIN_FILENO) == 1) {
    clear();
  }

  // Talks until the input ends.
  quire::Status run() {
    bool leaving = false;  // Ctrl-C was pressed at the prompt; once more ends
    std::string text;
    while (true) {
      say(terminal_ ? "> " : "");
      const Input input = read_line(text);
      if (input == Input::end || (input == Input::interrupt && leaving)) break;
      leaving = input == Input::interrupt;
      if (leaving) {
        say("\n(Ctrl-C again or Ctrl-D ends)\n");
      } else if (text == "/clear") {
        clear();
      } else if (!text.empty()) {
        if (quire::Status status = answer(text); !status) return status;
      }
    }
    say(terminal_ ? "\n" : "");
    return examples::finish_output();
  }

 private:
  void clear() {
    history_.clear();
    if (arguments_.system) history_.push_back({"system", *arguments_.system});
  }

  // Answers one message and remembers both. Not ok if the engine can go on no more.
  quire::Status answer(const std::string& text) {
    history_.push_back({"user", text});
    quire::Request request = arguments_.request;
    request.messages = history_;
    const quire::Result<quire::RequestId> id = engine_.submit(std::move(request));
    if (!id) {
      history_.pop_back();
      const bool full = id.status().code() == quire::StatusCode::resource_exhausted;
      say("(" + id.status().message() + (full ? "; /clear begins anew" : "") + ")\n");
      return {};
    }
    std::string answer;
    if (quire::Status status = stream(*id, answer); !status) return status;
    history_.push_back({"assistant", answer});
    return examples::finish_output();
  }

  // Prints the answer as it comes, until it ends or Ctrl-C cancels it.
  quire::Status stream(quire::RequestId id, std::string& answer) {
    quire::FinishReason reason = quire::FinishReason::none;
    while (engine_.has_work()) {
      if (interrupted()) {
        engine_.cancel(id);
        reason = quire::FinishReason::cancelled;
        break;
      }
      const quire::Result<quire::StepReport> step =
          engine_.step({.time = std::chrono::milliseconds(100)});
      for (const quire::TokenEvent& event : engine_.events()) {
        answer += event.text;
        say(event.text);
        if (!event.finished) continue;
        reason = event.finish_reason;
        if (reason == quire::FinishReason::error) say("\n(" + event.status.message() + ")");
      }
      if (!step) return step.status();
    }
    say("\n");
    if (reason == quire::FinishReason::cancelled) say("(cancelled)\n");
    if (reason == quire::FinishReason::length) {
      say(arguments_.request.max_tokens ? "(--max-tokens reached)\n"
                                        : "(the context is full; /clear begins anew)\n");
    }
    return {};
  }

  static void say(std::string_view text) {
    examples::print(text);
    std::fflush(stdout);
  }

  quire::Engine& engine_;
  const Arguments& arguments_;
  bool terminal_;
  std::vector<quire::ChatMessage> history_;
};

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CommandLine line = describe(arguments);
  if (const std::optional<int> exit_code = line.parse(argc, argv)) return *exit_code;
  if (arguments.engine.model.empty()) return line.wrong("--model is missing");
  quire::Result<quire::Engine> engine = examples::open_engine(line, arguments.engine);
  if (!engine) return line.failed(engine.status());
  if (!engine->tokenizer().has_chat_template()) {
    return line.failed(
        arguments.engine.model +
        ": the model has no usable chat template; `generate --raw` continues a text");
  }
  if (!catch_interrupts()) return line.failed("Ctrl-C cannot be caught");
  if (quire::Status status = Chat(*engine, arguments).run(); !status) return line.failed(status);
  return 0;
}
