#include "text/tokenizer_json_steps.h"

#include <array>
#include <optional>
#include <utility>

#include "base/error.h"
#include "text/named_pre_tokenizers.h"

namespace quire::text {
namespace {

constexpr int deepest_sequence = 8;

// Runs of word characters or of anything else but white space. Unlike \w in a Split, a word here
// has no numbers of category No.
constexpr std::string_view words_and_symbols =
    R"([\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}]+|[^\s\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}]+)";

// Calls `visit(step)` for a step, or in order for the steps of a Sequence.
template <class Visit>
Status for_each_step(const Json& json, std::string_view list, const std::string& where, int depth,
                     const Visit& visit) {
  if (json.is_null()) return {};
  auto type = json_string(json, "type", "", where);
  if (!type) return type.status();
  if (*type != "Sequence") return visit(*type, json);
  const Json* steps = json.find(list);
  if (steps == nullptr || steps->array() == nullptr) {
    return error(StatusCode::malformed, "{}: a Sequence without \"{}\"", where, list);
  }
  if (depth == deepest_sequence) {
    return error(StatusCode::unsupported, "{}: more than {} nested Sequences", where, depth);
  }
  for (const Json& step : *steps->array()) {
    Status status = for_each_step(step, list, where, depth + 1, visit);
    if (!status) return status;
  }
  return {};
}

// {"String": ...} or {"Regex": ...}.
Result<SplitPattern> read_pattern(const Json& step, const std::string& where) {
  const Json* pattern = step.find("pattern");
  if (pattern != nullptr) {
    const Json* text = pattern->find("String");
    if (text != nullptr && text->string() != nullptr) return SplitPattern::literal(*text->string());
    text = pattern->find("Regex");
    if (text != nullptr && text->string() != nullptr) {
      return is_known_pattern(*text->string()) ? SplitPattern::compile(*text->string())
                                               : SplitPattern::compile_metered(*text->string());
    }
  }
  return error(StatusCode::malformed, "{}: a pattern that is neither String nor Regex", where);
}

std::optional<SplitBehavior> behavior_named(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, SplitBehavior>, 5> behaviors = {{
      {"Removed", SplitBehavior::removed},
      {"Isolated", SplitBehavior::isolated},
      {"MergedWithPrevious", SplitBehavior::merged_with_previous},
      {"MergedWithNext", SplitBehavior::merged_with_next},
      {"Contiguous", SplitBehavior::contiguous},
  }};
  for (const auto& [known, behavior] : behaviors) {
    if (known == name) return behavior;
  }
  return std::nullopt;
}

Status add_split(Result<SplitPattern> pattern, SplitBehavior behavior, bool invert,
                 PreTokenizerSteps& out) {
  if (!pattern) return pattern.status();
  out.steps.emplace_back(SplitStep{std::move(*pattern), behavior, invert});
  return {};
}

Status add_byte_level(const Json& step, const std::string& where, PreTokenizerSteps& out) {
  auto prefix = json_bool(step, "add_prefix_space", true, where);
  if (!prefix) return prefix.status();
  auto splits = json_bool(step, "use_regex", true, where);
  if (!splits) return splits.status();
  if (out.byte_level) return error(StatusCode::unsupported, "{}: two ByteLevel steps", where);
  if (*prefix) out.steps.emplace_back(PrefixSpaceStep{});
  if (*splits) {
    Status status =
        add_split(SplitPattern::compile(gpt2_pattern), SplitBehavior::isolated, false, out);
    if (!status) return status;
  }
  out.steps.emplace_back(SpellBytesStep{});
  out.byte_level = true;
  return {};
}

Status add_metaspace(const Json& step, const std::string& where, PreTokenizerSteps& out) {
  MetaspaceStep metaspace;
  auto replacement = json_string(step, "replacement", metaspace.replacement, where);
  if (!replacement) return replacement.status();
  metaspace.replacement = *replacement;
  auto prefix = json_bool(step, "add_prefix_space", true, where);
  if (!prefix) return prefix.status();
  auto scheme = json_string(step, "prepend_scheme", *prefix ? "always" : "never", where);
  if (!scheme) return scheme.status();
  if (*scheme == "first") {
    metaspace.prepend = MetaspaceStep::Prepend::first;
  } else if (*scheme == "never") {
    metaspace.prepend = MetaspaceStep::Prepend::never;
  } else if (*scheme != "always") {
    return error(StatusCode::unsupported, "{}: prepend_scheme \"{}\"", where, *scheme);
  }
  auto splits = json_bool(step, "split", true, where);
  if (!splits) return splits.status();
  out.steps.emplace_back(std::move(metaspace));
  if (!*splits) return {};
  return add_split(SplitPattern::literal(*replacement), SplitBehavior::merged_with_next, false,
                   out);
}

Status add_split_step(const Json& step, const std::string& where, PreTokenizerSteps& out) {
  auto name = json_string(step, "behavior", "Isolated", where);
  if (!name) return name.status();
  const auto behavior = behavior_named(*name);
  if (!behavior) return error(StatusCode::unsupported, "{}: behavior \"{}\"", where, *name);
  auto invert = json_bool(step, "invert", false, where);
  if (!invert) return invert.status();
  return add_split(read_pattern(step, where), *behavior, *invert, out);
}

Status add_pre_tokenizer(std::string_view type, const Json& step, const std::string& where,
                         PreTokenizerSteps& out) {
  if (type == "ByteLevel") return add_byte_level(step, where, out);
  if (type == "Metaspace") return add_metaspace(step, where, out);
  if (type == "Split") return add_split_step(step, where, out);
  if (type == "Digits") {
    auto individual = json_bool(step, "individual_digits", false, where);
    if (!individual) return individual.status();
    return add_split(SplitPattern::compile(*individual ? R"(\p{N})" : R"(\p{N}+)"),
                     SplitBehavior::isolated, false, out);
  }
  if (type == "Punctuation") {
    auto name = json_string(step, "behavior", "Isolated", where);
    if (!name) return name.status();
    const auto behavior = behavior_named(*name);
    if (!behavior) return error(StatusCode::unsupported, "{}: behavior \"{}\"", where, *name);
    return add_split(SplitPattern::compile(R"([\p{P}!-/:-@\[-`{-~])"), *behavior, false, out);
  }
  if (type == "Whitespace") {
    return add_split(SplitPattern::compile(words_and_symbols), SplitBehavior::removed, true, out);
  }
  if (type == "WhitespaceSplit") {
    return add_split(SplitPattern::compile(R"(\s)"), SplitBehavior::removed, false, out);
  }
  return error(
      StatusCode::unsupported,
      "{} \"{}\" is not one of: ByteLevel, Digits, Metaspace, Punctuation, Sequence, Split, "
      "Whitespace, WhitespaceSplit",
      where, type);
}

Status add_normalizer(std::string_view type, const Json& step, const std::string& where,
                      std::vector<NormalizerStep>& out) {
  constexpr std::array<std::pair<std::string_view, NormalizationForm>, 4> forms = {{
      {"NFC", NormalizationForm::nfc},
      {"NFD", NormalizationForm::nfd},
      {"NFKC", NormalizationForm::nfkc},
      {"NFKD", NormalizationForm::nfkd},
  }};
  for (const auto& [name, form] : forms) {
    if (name == type) {
      out.emplace_back(form);
      return {};
    }
  }
  if (type == "Replace") {
    auto content = json_string(step, "content", "", where);
    if (!content) return content.status();
    auto pattern = read_pattern(step, where);
    if (!pattern) return pattern.status();
    out.emplace_back(ReplaceStep{std::move(*pattern), std::move(*content)});
    return {};
  }
  if (type == "Prepend") {
    auto content = json_string(step, "prepend", "", where);
    if (!content) return content.status();
    out.emplace_back(PrependStep{std::move(*content)});
    return {};
  }
  return error(StatusCode::unsupported,
               "{} \"{}\" is not one of: NFC, NFD, NFKC, NFKD, Prepend, Replace, Sequence", where,
               type);
}

}  // namespace

Result<bool> json_bool(const Json& object, std::string_view key, bool absent,
                       const std::string& where) {
  const Json* value = object.find(key);
  if (value == nullptr || value->is_null()) return absent;
  if (value->boolean() == nullptr) {
    return error(StatusCode::malformed, "{}: \"{}\" is not true or false", where, key);
  }
  return *value->boolean();
}

Result<std::string> json_string(const Json& object, std::string_view key, std::string_view absent,
                                const std::string& where) {
  const Json* value = object.find(key);
  if (value == nullptr || value->is_null()) return std::string(absent);
  if (value->string() == nullptr) {
    return error(StatusCode::malformed, "{}: \"{}\" is not a string", where, key);
  }
  return *value->string();
}

Result<std::vector<NormalizerStep>> read_normalizer(const Json* json, const std::string& file) {
  std::vector<NormalizerStep> out;
  if (json == nullptr) return out;
  const std::string where = file + ": normalizer";
  Status status = for_each_step(
      *json, "normalizers", where, 0,
      [&](std::string_view type, const Json& s) { return add_normalizer(type, s, where, out); });
  if (!status) return status;
  return out;
}

Result<PreTokenizerSteps> read_pre_tokenizer(const Json* json, const std::string& file) {
  PreTokenizerSteps out;
  if (json == nullptr) return out;
  const std::string where = file + ": pre_tokenizer";
  Status status = for_each_step(
      *json, "pretokenizers", where, 0,
      [&](std::string_view type, const Json& s) { return add_pre_tokenizer(type, s, where, out); });
  if (!status) return status;
  if (!out.byte_level) return out;
  // Steps after ByteLevel see its spelling of the bytes; without such steps there is no need for
  // it.
  if (std::holds_alternative<SpellBytesStep>(out.steps.back())) {
    out.steps.pop_back();
  } else {
    out.steps.emplace_back(UnspellBytesStep{});
  }
  return out;
}

}  // namespace quire::text
