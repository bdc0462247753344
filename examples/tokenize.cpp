// Text to token ids, token ids to text, and conversations to text, on standard input and output.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <limits>

#include <quire/quire.h>

#include "support/command_line.h"
#include "support/files.h"
#include "support/json.h"

namespace {

using examples::CommandLine;
using examples::Json;

// A time as "2025-03-09T08:05:07" (UTC).
struct Time {
  std::int64_t seconds = 0;  // since 1970
};

bool parse_value(std::string_view text, Time& into) {
  using examples::parse_value;
  if (text.size() != 19 || text[4] != '-' || text[7] != '-' || text[10] != 'T' || text[13] != ':' ||
      text[16] != ':') {
    return false;
  }
  int year = 0;
  unsigned month = 0, day = 0, hour = 0, minute = 0, second = 0;
  if (!parse_value(text.substr(0, 4), year) || !parse_value(text.substr(5, 2), month) ||
      !parse_value(text.substr(8, 2), day) || !parse_value(text.substr(11, 2), hour) ||
      !parse_value(text.substr(14, 2), minute) || !parse_value(text.substr(17, 2), second)) {
    return false;
  }
  const std::chrono::year_month_day date(std::chrono::year{year}, std::chrono::month{month},
                                         std::chrono::day{day});
  if (!date.ok() || hour > 23 || minute > 59 || second > 59) return false;
  const std::int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  into.seconds = ((days * 24 + hour) * 60 + minute) * 60 + second;
  return true;
}

struct Arguments {
  std::string model;
  quire::EncodeOptions encode;
  bool decode = false;
  bool decode_stream = false;
  bool render = false;
  std::string messages_file;
  std::optional<bool> add_generation_prompt;
  std::optional<std::string> template_file, bos, eos;
  std::optional<Time> now;
};

CommandLine describe(Arguments& arguments) {
  CommandLine line(
      "tokenize",
      "--model FILE [options] < text\n"
      "       tokenize --model FILE (--decode | --decode-stream) < ids.json\n"
      "       tokenize (--model FILE | --template-file F) --template --messages F.json",
      "Prints the token ids of standard input as a JSON array, or the other way.");
  line.option("--model", "FILE", arguments.model,
              "GGUF file or Hugging Face folder; a vocabulary alone is enough");
  line.option("--add-special", "0|1", arguments.encode.add_special,
              "add the tokens that the model wants around a text [1]");
  line.option("--parse-special", "0|1", arguments.encode.parse_special,
              "names of special tokens in the text are those tokens [0]");
  line.flag("--decode", arguments.decode, "JSON array of ids to text");
  line.flag("--decode-stream", arguments.decode_stream,
            "JSON array of ids to the JSON array of streamed pieces");
  line.flag("--template", arguments.render, "print a conversation as the model reads it");
  line.option("--messages", "FILE", arguments.messages_file,
              "JSON: messages, or an object with \"messages\" and template variables");
  line.option("--add-generation-prompt", "0|1", arguments.add_generation_prompt,
              "end where the model's answer begins [1]");
  line.option("--template-file", "FILE", arguments.template_file,
              "this chat template instead of the model's");
  line.option("--bos", "TEXT", arguments.bos, "with --template-file: bos_token");
  line.option("--eos", "TEXT", arguments.eos, "with --template-file: eos_token");
  line.option("--now", "TIME", arguments.now,
              "time for the template, such as 2025-03-09T08:05:07 (UTC)");
  return line;
}

std::optional<std::string> check(const Arguments& arguments) {
  if (arguments.decode + arguments.decode_stream + arguments.render > 1) {
    return "--decode, --decode-stream and --template exclude one another";
  }
  if (arguments.render && arguments.messages_file.empty()) return "--template needs --messages";
  if (!arguments.render && (arguments.template_file || !arguments.messages_file.empty() ||
                            arguments.now || arguments.add_generation_prompt)) {
    return "--messages, --template-file, --add-generation-prompt and --now need --template";
  }
  if ((arguments.bos || arguments.eos) && !arguments.template_file) {
    return "--bos and --eos need --template-file";
  }
  const bool needs_model = !arguments.template_file;
  if (needs_model && arguments.model.empty()) return "--model is missing";
  return std::nullopt;
}

// The variables of the template from the file of messages.
quire::Result<Json> read_variables(const Arguments& arguments) {
  quire::Result<Json> value = examples::read_json_file(arguments.messages_file);
  if (!value) return value.status();
  Json variables = value->is_array() ? Json{{"messages", *value}} : *value;
  if (!variables["messages"].is_array()) {
    return quire::Status(
        quire::StatusCode::malformed,
        arguments.messages_file + ": expected an array of messages or an object with \"messages\"");
  }
  if (arguments.add_generation_prompt) {
    variables.set("add_generation_prompt", *arguments.add_generation_prompt);
  } else if (!variables.contains("add_generation_prompt")) {
    variables.set("add_generation_prompt", true);
  }
  return variables;
}

quire::Result<std::string> render_file(const Arguments& arguments, Json variables) {
  const quire::Result<std::string> source = examples::read_file(*arguments.template_file);
  if (!source) return source.status();
  if (arguments.bos) variables.set("bos_token", *arguments.bos);
  if (arguments.eos) variables.set("eos_token", *arguments.eos);
  // Defined even when there are none: templates are written for that.
  for (const char* name : {"tools", "documents"}) {
    if (!variables.contains(name)) variables.set(name, nullptr);
  }
  return quire::render_chat_template(*source, examples::to_text(variables),
                                     arguments.now.value_or(Time()).seconds);
}

quire::Result<std::string> render(const quire::Tokenizer& tokenizer, const Arguments& arguments,
                                  Json variables) {
  quire::TemplateOptions options;
  options.now = arguments.now.value_or(Time()).seconds;
  options.add_generation_prompt = variables["add_generation_prompt"].boolean().value_or(true);
  variables.erase("add_generation_prompt");
  options.variables_json = examples::to_text(variables);
  return tokenizer.apply_chat_template({}, options);
}

quire::Result<std::string> encode(const quire::Tokenizer& tokenizer, const Arguments& arguments) {
  const quire::Result<std::string> text = examples::read_standard_input();
  if (!text) return text.status();
  const auto ids = tokenizer.encode(*text, arguments.encode);
  if (!ids) return ids.status();
  return examples::to_text(*ids) + "\n";
}

quire::Result<std::vector<std::int32_t>> ids_of(const Json& value) {
  const auto malformed = [](const std::string& message) {
    return quire::Status(quire::StatusCode::malformed, "token ids: " + message);
  };
  if (!value.is_array()) return malformed("expected an array of integers");
  std::vector<std::int32_t> ids;
  for (const Json& element : value.elements()) {
    const std::int64_t id = element.integer().value_or(-1);
    if (id < 0 || id > std::numeric_limits<std::int32_t>::max()) {
      return malformed(examples::to_text(element) + " is no token id");
    }
    ids.push_back(static_cast<std::int32_t>(id));
  }
  return ids;
}

quire::Result<std::string> decode(const quire::Tokenizer& tokenizer, const Arguments& arguments) {
  const quire::Result<std::string> text = examples::read_standard_input();
  if (!text) return text.status();
  const quire::Result<Json> value = examples::parse_json(*text);
  if (!value) return value.status();
  const auto ids = ids_of(*value);
  if (!ids) return ids.status();
  if (!arguments.decode_stream) return tokenizer.decode(*ids);
  const auto pieces = tokenizer.decode_stream(*ids);
  if (!pieces) return pieces.status();
  return examples::to_text(*pieces) + "\n";
}

quire::Result<std::string> run(const Arguments& arguments) {
  Json variables;
  if (arguments.render) {
    quire::Result<Json> read = read_variables(arguments);
    if (!read) return read.status();
    variables = std::move(*read);
    if (arguments.template_file) return render_file(arguments, std::move(variables));
  }
  const quire::Result<quire::Tokenizer> tokenizer = quire::Tokenizer::open(arguments.model);
  if (!tokenizer) return tokenizer.status();
  if (arguments.render) return render(*tokenizer, arguments, std::move(variables));
  if (arguments.decode || arguments.decode_stream) return decode(*tokenizer, arguments);
  return encode(*tokenizer, arguments);
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CommandLine line = describe(arguments);
  if (const std::optional<int> exit_code = line.parse(argc, argv)) return *exit_code;
  if (const auto complaint = check(arguments)) return line.wrong(*complaint);
  const quire::Result<std::string> output = run(arguments);
  if (!output) return line.failed(output.status());
  examples::print(*output);
  if (quire::Status status = examples::finish_output(); !status) return line.failed(status);
  return 0;
}
