#include "text/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/error.h"
#include "text/utf8.h"

namespace quire::text {
namespace {

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

int combining_class(utf8proc_int32_t c) {
  return utf8proc_get_property(c)->combining_class;
}

// Canonical ordering: a stable sort of each run of combining marks. utf8proc's own swaps
// neighbours, which is quadratic in a long run.
void order_marks(std::vector<utf8proc_int32_t>& text) {
  for (auto begin = text.begin(); begin != text.end();) {
    if (combining_class(*begin) == 0) {
      ++begin;
      continue;
    }
    const auto end =
        std::find_if(begin, text.end(), [](utf8proc_int32_t c) { return combining_class(c) == 0; });
    std::stable_sort(begin, end, [](utf8proc_int32_t a, utf8proc_int32_t b) {
      return combining_class(a) < combining_class(b);
    });
    begin = end;
  }
}

Status run(NormalizationForm form, std::string& text) {
  if (is_ascii(text)) return {};
  const bool compatible = form == NormalizationForm::nfkc || form == NormalizationForm::nfkd;
  const bool compose = form == NormalizationForm::nfc || form == NormalizationForm::nfkc;
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE |
                                                      (compatible ? UTF8PROC_COMPAT : 0));
  std::vector<utf8proc_int32_t> points;
  points.reserve(text.size());
  std::array<utf8proc_int32_t, 32> parts;
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Step step = next_utf8(std::string_view(text).substr(at));
    int boundary = 0;
    const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(step.code_point),
                                               parts.data(), parts.size(), options, &boundary);
    if (count < 0 || count > static_cast<utf8proc_ssize_t>(parts.size())) {
      return error(StatusCode::internal, "normalizer: U+{:04X} decomposes into {} characters",
                   static_cast<std::uint32_t>(step.code_point), count);
    }
    points.insert(points.end(), parts.begin(), parts.begin() + count);
    at += step.length;
  }
  order_marks(points);
  if (compose) {
    const auto length = utf8proc_normalize_utf32(
        points.data(), static_cast<utf8proc_ssize_t>(points.size()),
        static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    if (length < 0) return error(StatusCode::internal, "normalizer: {}", utf8proc_errmsg(length));
    points.resize(static_cast<std::size_t>(length));
  }
  text.clear();
  for (const utf8proc_int32_t c : points) append_utf8(static_cast<char32_t>(c), text);
  return {};
}

Status run(const ReplaceStep& step, std::string& text) {
  std::vector<TextRange> matches;
  if (Status status = step.pattern.find_all(text, matches); !status) return status;
  if (matches.empty()) return {};
  const std::size_t longest = std::size_t{1} << 30;
  if (text.size() + matches.size() * step.content.size() > longest) {
    return error(StatusCode::resource_exhausted, "normalizer: {} replacements by {} bytes",
                 matches.size(), step.content.size());
  }
  std::string out;
  out.reserve(text.size() + matches.size() * step.content.size());
  std::size_t at = 0;
  for (const TextRange& match : matches) {
    out.append(text, at, match.begin - at);
    out += step.content;
    at = match.end;
  }
  out.append(text, at);
  text = std::move(out);
  return {};
}

Status run(const PrependStep& step, std::string& text) {
  if (!text.empty()) text.insert(0, step.content);
  return {};
}

}  // namespace

Status Normalizer::apply(std::string& text) const {
  for (const NormalizerStep& step : steps_) {
    Status status = std::visit([&](const auto& s) { return run(s, text); }, step);
    if (!status) return status;
  }
  return {};
}

}  // namespace quire::text
