#include "text/named_pre_tokenizers.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace quire::text {
namespace {

// Every pattern is the one in the tokenizer.json of the model that gave the name. They run in time
// linear in the text; where the published one does not, a comment says what was changed.
constexpr std::string_view gpt2 = gpt2_pattern;
constexpr std::string_view one_digit = R"(\p{N})";
constexpr std::string_view three_digits = R"(\p{N}{1,3})";
constexpr std::string_view cjk = R"([\x{4e00}-\x{9fa5}\x{3040}-\x{309f}\x{30a0}-\x{30ff}]+)";
constexpr std::string_view cjk_and_hangul =
    R"([\x{4e00}-\x{9fa5}\x{800}-\x{4e00}\x{ac00}-\x{d7ff}]+)";

constexpr std::string_view llama3_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view qwen2_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view qwen35_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N})"
    R"(| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view minicpm5_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+)"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view tekken_pattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view gpt4o_pattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view deepseek3_pattern =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
    R"(| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view seed_coder_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1})"
    R"(| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view bailing_pattern =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*)"
    R"(|\s*[\r\n]|\s+(?!\S)|\s+)";
constexpr std::string_view bloom_pattern =
    R"( ?[^(\s|.,!?\x{2026}\x{3002}\x{ff0c}\x{3001}\x{964}\x{6d4}\x{60c})]+)";
constexpr std::string_view falcon_punctuation = R"([\p{P}\$\+<=>\^~\|`]+)";
constexpr std::string_view default_punctuation = R"([\p{P}\$\+<=>\^~\|]+)";
constexpr std::string_view deepseek_letters =
    R"re(\s?[)re"
    R"re(A-Za-z\x{b5}\x{c0}-\x{d6}\x{d8}-\x{f6}\x{f8}-\x{1ba}\x{1bc}-\x{1bf}\x{1c4}-\x{293})re"
    R"re(\x{295}-\x{2af}\x{370}-\x{373}\x{376}\x{377}\x{37b}-\x{37d}\x{37f}\x{386}\x{388}-)re"
    R"re(\x{38a}\x{38c}\x{38e}-\x{3a1}\x{3a3}-\x{3f5}\x{3f7}-\x{481}\x{48a}-\x{52f}\x{531}-)re"
    R"re(\x{556}\x{10a0}-\x{10c5}\x{13a0}-\x{13f5}\x{13f8}-\x{13fd}\x{1c90}-\x{1cba}\x{1cbd}-)re"
    R"re(\x{1cbf}\x{1d00}-\x{1d2b}\x{1d6b}-\x{1d77}\x{1d79}-\x{1d9a}\x{1e00}-\x{1f15}\x{1f18})re"
    R"re(-\x{1f1d}\x{1f20}-\x{1f45}\x{1f48}-\x{1f4d}\x{1f50}-\x{1f57}\x{1f59}\x{1f5b}\x{1f5d})re"
    R"re(\x{1f5f}-\x{1f7d}\x{1f80}-\x{1fb4}\x{1fb6}-\x{1fbc}\x{1fbe}\x{1fc2}-\x{1fc4}\x{1fc6})re"
    R"re(-\x{1fcc}\x{1fd0}-\x{1fd3}\x{1fd6}-\x{1fdb}\x{1fe0}-\x{1fec}\x{1ff2}-\x{1ff4})re"
    R"re(\x{1ff6}-\x{1ffc}\x{2102}\x{2107}\x{210a}-\x{2113}\x{2115}\x{2119}-\x{211d}\x{2124})re"
    R"re(\x{2126}\x{2128}\x{212a}-\x{212d}\x{212f}-\x{2134}\x{2139}\x{213c}-\x{213f}\x{2145}-)re"
    R"re(\x{2149}\x{214e}\x{2183}\x{2184}\x{2c00}-\x{2c7b}\x{2c7e}-\x{2ce4}\x{2ceb}-\x{2cee})re"
    R"re(\x{2cf2}\x{2cf3}\x{a640}-\x{a66d}\x{a680}-\x{a69b}\x{a722}-\x{a76f}\x{a771}-\x{a787})re"
    R"re(\x{a78b}-\x{a78e}\x{ab70}-\x{abbf}\x{fb00}-\x{fb06}\x{fb13}-\x{fb17}\x{ff21}-)re"
    R"re(\x{ff3a}\x{ff41}-\x{ff5a}\x{10400}-\x{1044f}\x{104b0}-\x{104d3}\x{104d8}-\x{104fb})re"
    R"re(\x{10c80}-\x{10cb2}\x{10cc0}-\x{10cf2}\x{118a0}-\x{118df}\x{1e900}-\x{1e943})re"
    R"re(]+)re";
constexpr std::string_view deepseek_punctuation =
    R"(\s?[!-/:-~\x{ff01}-\x{ff0f}\x{ff1a}-\x{ff5e}\x{2018}-\x{201f}\x{3000}-\x{3002}]+)";
// \s+$ in the original, which tries every start in a run of white space.
constexpr std::string_view white_space_at_end = R"((?<!\s)\s++$)";

// Up to six patterns, one after the other; each isolates its matches.
struct Scheme {
  std::array<std::string_view, 6> patterns;
  bool ignore_merges = false;
  bool adds_bos = false;
};

constexpr Scheme default_scheme = {{default_punctuation, gpt2, R"(\p{N}+)", "[0-9][0-9][0-9]"}};
constexpr Scheme gpt2_scheme = {{gpt2}};
constexpr Scheme starcoder_scheme = {{one_digit, gpt2}};
constexpr Scheme llama3_scheme = {{llama3_pattern}, true, true};
constexpr Scheme glm4_scheme = {{llama3_pattern}, true, false};
constexpr Scheme dbrx_scheme = {{llama3_pattern}};
constexpr Scheme qwen2_scheme = {{qwen2_pattern}};
constexpr Scheme qwen35_scheme = {{qwen35_pattern}};
constexpr Scheme falcon_scheme = {{falcon_punctuation, gpt2, "[0-9][0-9][0-9]"}};
constexpr Scheme deepseek_llm_scheme = {{"[\r\n]", deepseek_letters, deepseek_punctuation,
                                         white_space_at_end, cjk_and_hangul, R"(\p{N}+)"}};
constexpr Scheme deepseek_coder_scheme = {
    {"[\r\n]", R"(\s?\p{L}+)", R"(\s?\p{P}+)", cjk_and_hangul, one_digit}};
constexpr Scheme deepseek3_scheme = {{three_digits, cjk, deepseek3_pattern}};
constexpr Scheme tekken_scheme = {{tekken_pattern}, true, true};
constexpr Scheme gpt4o_scheme = {{gpt4o_pattern}};
constexpr Scheme minicpm5_scheme = {{three_digits, minicpm5_pattern}, true, false};
constexpr Scheme bloom_scheme = {{bloom_pattern}};
constexpr Scheme viking_scheme = {{bloom_pattern, one_digit}};
constexpr Scheme bailing_scheme = {{bailing_pattern}};
constexpr Scheme seed_coder_scheme = {{seed_coder_pattern}};

struct Name {
  std::string_view name;
  const Scheme& scheme;
};

constexpr Name names[] = {
    {"a.x-4.0", gpt2_scheme},
    {"bailingmoe", bailing_scheme},
    {"bailingmoe2", bailing_scheme},
    {"bloom", bloom_scheme},
    {"chatglm-bpe", dbrx_scheme},
    {"codeshell", starcoder_scheme},
    {"command-r", starcoder_scheme},
    {"dbrx", dbrx_scheme},
    {"deepseek-coder", deepseek_coder_scheme},
    {"deepseek-llm", deepseek_llm_scheme},
    {"deepseek-r1-qwen", qwen2_scheme},
    {"deepseek-v3", deepseek3_scheme},
    {"default", default_scheme},
    {"exaone", starcoder_scheme},
    {"exaone4", gpt2_scheme},
    {"f2llmv2", qwen2_scheme},
    {"falcon", falcon_scheme},
    {"falcon-h1", llama3_scheme},
    {"falcon3", llama3_scheme},
    {"gigachat", gpt2_scheme},
    {"glm4", glm4_scheme},
    {"gpt-2", gpt2_scheme},
    {"gpt-4o", gpt4o_scheme},
    {"gpt3-finnish", bloom_scheme},
    {"granite-docling", gpt2_scheme},
    {"grok-2", qwen2_scheme},
    {"hunyuan", qwen2_scheme},
    {"hunyuan-dense", deepseek3_scheme},
    {"jais", gpt2_scheme},
    {"kanana2", gpt4o_scheme},
    {"kormo", qwen2_scheme},
    {"lfm2", llama3_scheme},
    {"llada-moe", bailing_scheme},
    {"llama-bpe", llama3_scheme},
    {"llama-v3", llama3_scheme},
    {"llama3", llama3_scheme},
    {"llama4", gpt4o_scheme},
    {"megrez", qwen2_scheme},
    {"mellum", gpt2_scheme},
    {"midm-2.0", llama3_scheme},
    {"minerva-7b", starcoder_scheme},
    {"minicpm5", minicpm5_scheme},
    {"minimax-m2", gpt4o_scheme},
    {"mpt", gpt2_scheme},
    {"olmo", gpt2_scheme},
    {"phi-2", gpt2_scheme},
    {"pixtral", llama3_scheme},
    {"poro-chat", bloom_scheme},
    {"qwen2", qwen2_scheme},
    {"qwen35", qwen35_scheme},
    {"refact", starcoder_scheme},
    {"seed-coder", seed_coder_scheme},
    {"smaug-bpe", dbrx_scheme},
    {"smollm", starcoder_scheme},
    {"solar-open", qwen2_scheme},
    {"stablelm2", qwen2_scheme},
    {"starcoder", starcoder_scheme},
    {"tekken", tekken_scheme},
    {"trillion", gpt2_scheme},
    {"viking", viking_scheme},
};

}  // namespace

Result<NamedPreTokenizer> named_pre_tokenizer(std::string_view name) {
  const std::string_view wanted = name.empty() ? "default" : name;
  const auto found = std::find_if(std::begin(names), std::end(names),
                                  [&](const Name& known) { return known.name == wanted; });
  if (found == std::end(names)) {
    std::string known;
    for (const Name& entry : names) known.append(known.empty() ? "" : ", ").append(entry.name);
    return error(StatusCode::unsupported, "pre-tokenizer \"{}\" is not one of: {}", name, known);
  }
  std::vector<PreTokenizerStep> steps;
  for (const std::string_view pattern : found->scheme.patterns) {
    if (pattern.empty()) break;
    auto compiled = SplitPattern::compile(pattern);
    if (!compiled) return compiled.status();
    steps.emplace_back(SplitStep{std::move(*compiled)});
  }
  return NamedPreTokenizer{PreTokenizer(std::move(steps)), found->scheme.ignore_merges,
                           found->scheme.adds_bos};
}

bool is_known_pattern(std::string_view pattern) {
  return !pattern.empty() &&
         std::any_of(std::begin(names), std::end(names), [&](const Name& known) {
           const auto& patterns = known.scheme.patterns;
           return std::find(patterns.begin(), patterns.end(), pattern) != patterns.end();
         });
}

}  // namespace quire::text
