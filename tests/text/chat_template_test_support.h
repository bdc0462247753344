#pragma once

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/json.h"
#include "text/chat_template.h"

// 2025-03-09T08:05:07Z, the time of the golden renderings.
inline constexpr std::int64_t kGoldenNow = 1741507507;

inline std::string read_whole_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The value of an environment variable, or "" if it is not set.
inline std::string environment_path(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

inline std::string joined(const std::vector<quire::text::RenderedPiece>& pieces) {
  std::string text;
  for (const auto& piece : pieces) text += piece.text;
  return text;
}

// The bytes of all pieces, untrusted ones in ‹›.
inline std::string marked(const std::vector<quire::text::RenderedPiece>& pieces) {
  std::string text;
  for (const auto& piece : pieces) text += piece.trusted ? piece.text : "‹" + piece.text + "›";
  return text;
}

// The rendered text, or "error: " and the message.
inline std::string render_text(const std::string& source, const quire::Json& variables,
                               const quire::text::TemplateBudget& budget = {}) {
  auto parsed = quire::text::ChatTemplate::parse(source);
  if (!parsed) return "error: " + parsed.status().message();
  auto rendered = parsed->render(variables, kGoldenNow, budget);
  return rendered ? joined(*rendered) : "error: " + rendered.status().message();
}
