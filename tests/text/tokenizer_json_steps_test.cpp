#include "text/tokenizer_json_steps.h"

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "catch.h"

// Words and texts as huggingface/tokenizers 0.23.3 gives them (pre_tokenize_str, normalize_str).
namespace quire::text {
namespace {

struct SplitCases {
  const char* json;
  std::vector<std::pair<std::string, std::vector<std::string>>> cases;  // text, words
};

// clang-format off
const std::vector<SplitCases> split_cases = {
    {R"json({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true})json",
     {
      {"Hello, world! 123 abc4567", {"Hello", ",", " world", "!", " 123", " abc", "4567"}},
      {"  two  spaces \n\nnew\u00A0line\u180Ex\302\205y", {" ", " two", " ", " spaces", " \n", "\n", "new", "\u00A0", "line", "\u180E", "x", "\302\205", "y"}},
      {"it's I'M '\u017F we'LL x_y-z $5+3=8", {"it", "'s", " I", "'", "M", " '", "\u017F", " we", "'", "LL", " x", "_", "y", "-", "z", " $", "5", "+", "3", "=", "8"}},
      {"\u4F60\u597D\u4E16\u754C 3\u00B2\u0663\u0664 cafe\u0301 n\u0303", {"\u4F60\u597D\u4E16\u754C", " 3\u00B2\u0663\u0664", " cafe", "\u0301", " n", "\u0303"}},
     }},
    {R"json({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true})json",
     {
      {"Hello, world! 123 abc4567", {" Hello", ",", " world", "!", " 123", " abc", "4567"}},
      {"  two  spaces \n\nnew\u00A0line\u180Ex\302\205y", {" ", " two", " ", " spaces", " \n", "\n", "new", "\u00A0", "line", "\u180E", "x", "\302\205", "y"}},
      {"it's I'M '\u017F we'LL x_y-z $5+3=8", {" it", "'s", " I", "'", "M", " '", "\u017F", " we", "'", "LL", " x", "_", "y", "-", "z", " $", "5", "+", "3", "=", "8"}},
      {"\u4F60\u597D\u4E16\u754C 3\u00B2\u0663\u0664 cafe\u0301 n\u0303", {" \u4F60\u597D\u4E16\u754C", " 3\u00B2\u0663\u0664", " cafe", "\u0301", " n", "\u0303"}},
     }},
    {R"json({"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": true}, {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}]})json",
     {
      {"Hello, world! 123 abc4567", {"Hello", ",", " world", "!", " ", "1", "2", "3", " abc", "4", "5", "6", "7"}},
      {"  two  spaces \n\nnew\u00A0line\u180Ex\302\205y", {" ", " two", " ", " spaces", " \n", "\n", "new", "\u00A0", "line", "\u180E", "x", "\302\205", "y"}},
      {"it's I'M '\u017F we'LL x_y-z $5+3=8", {"it", "'s", " I", "'", "M", " '", "\u017F", " we", "'", "LL", " x", "_", "y", "-", "z", " $", "5", "+", "3", "=", "8"}},
      {"\u4F60\u597D\u4E16\u754C 3\u00B2\u0663\u0664 cafe\u0301 n\u0303", {"\u4F60\u597D\u4E16\u754C", " ", "3", "\u00B2", "\u0663", "\u0664", " cafe", "\u0301", " n", "\u0303"}},
     }},
    {R"json({"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}, "behavior": "Isolated", "invert": false}, {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]})json",
     {
      {"Hello, world! 123 abc4567", {"Hello", ",", " world", "!", " ", "123", " abc", "456", "7"}},
      {"  two  spaces \n\nnew\u00A0line\u180Ex\302\205y", {" ", " two", " ", " spaces", " \n\n", "new", "\u00A0line", "\u180Ex", "\302\205y"}},
      {"it's I'M '\u017F we'LL x_y-z $5+3=8", {"it", "'s", " I", "'M", " '", "\u017F", " we", "'LL", " x", "_y", "-z", " $", "5", "+", "3", "=", "8"}},
      {"\u4F60\u597D\u4E16\u754C 3\u00B2\u0663\u0664 cafe\u0301 n\u0303", {"\u4F60\u597D\u4E16\u754C", " ", "3\u00B2\u0663", "\u0664", " cafe", "\u0301", " n", "\u0303"}},
     }},
    {R"json({"type": "Sequence", "pretokenizers": [{"type": "Punctuation", "behavior": "Contiguous"}, {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}, {"type": "Digits", "individual_digits": false}, {"type": "Split", "pattern": {"Regex": "[0-9][0-9][0-9]"}, "behavior": "Isolated", "invert": false}]})json",
     {
      {"Hello, world! 123 abc4567", {"Hello", ",", " world", "!", " ", "123", " abc", "456", "7"}},
      {"  two  spaces \n\nnew\u00A0line\u180Ex\302\205y", {" ", " two", " ", " spaces", " \n", "\n", "new", "\u00A0", "line", "\u180E", "x", "\302\205", "y"}},
      {"it's I'M '\u017F we'LL x_y-z $5+3=8", {"it", "'", "s", " I", "'", "M", " ", "'", "\u017F", " we", "'", "LL", " x", "_", "y", "-", "z", " ", "$", "5", "+", "3", "=", "8"}},
      {"\u4F60\u597D\u4E16\u754C 3\u00B2\u0663\u0664 cafe\u0301 n\u0303", {"\344", "\275", "\240\345\245", "\275", "\u4E16\u754C", " ", "3", "\302", "\262", "\u0663\u0664", " cafe", "\u0301", " n", "\u0303"}},
     }},
    {R"json({"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": true})json",
     {
      {"Hello, world! 123 abc4567", {"\u2581Hello,", "\u2581world!", "\u2581123", "\u2581abc4567"}},
      {"  two  spaces \n\nnew\u00A0line\u180Ex\302\205y", {"\u2581", "\u2581two", "\u2581", "\u2581spaces", "\u2581\n\nnew\u00A0line\u180Ex\302\205y"}},
      {"it's I'M '\u017F we'LL x_y-z $5+3=8", {"\u2581it's", "\u2581I'M", "\u2581'\u017F", "\u2581we'LL", "\u2581x_y-z", "\u2581$5+3=8"}},
      {"\u4F60\u597D\u4E16\u754C 3\u00B2\u0663\u0664 cafe\u0301 n\u0303", {"\u2581\u4F60\u597D\u4E16\u754C", "\u25813\u00B2\u0663\u0664", "\u2581cafe\u0301", "\u2581n\u0303"}},
     }},
    {R"json({"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "never", "split": false})json",
     {
      {"Hello, world! 123 abc4567", {"Hello,\u2581world!\u2581123\u2581abc4567"}},
      {"  two  spaces \n\nnew\u00A0line\u180Ex\302\205y", {"\u2581\u2581two\u2581\u2581spaces\u2581\n\nnew\u00A0line\u180Ex\302\205y"}},
      {"it's I'M '\u017F we'LL x_y-z $5+3=8", {"it's\u2581I'M\u2581'\u017F\u2581we'LL\u2581x_y-z\u2581$5+3=8"}},
      {"\u4F60\u597D\u4E16\u754C 3\u00B2\u0663\u0664 cafe\u0301 n\u0303", {"\u4F60\u597D\u4E16\u754C\u25813\u00B2\u0663\u0664\u2581cafe\u0301\u2581n\u0303"}},
     }},
    {R"json({"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": true})json",
     {
      {"Hello, world! 123 abc4567", {"\u2581Hello,", "\u2581world!", "\u2581123", "\u2581abc4567"}},
      {"  two  spaces \n\nnew\u00A0line\u180Ex\302\205y", {"\u2581", "\u2581two", "\u2581", "\u2581spaces", "\u2581\n\nnew\u00A0line\u180Ex\302\205y"}},
      {"it's I'M '\u017F we'LL x_y-z $5+3=8", {"\u2581it's", "\u2581I'M", "\u2581'\u017F", "\u2581we'LL", "\u2581x_y-z", "\u2581$5+3=8"}},
      {"\u4F60\u597D\u4E16\u754C 3\u00B2\u0663\u0664 cafe\u0301 n\u0303", {"\u2581\u4F60\u597D\u4E16\u754C", "\u25813\u00B2\u0663\u0664", "\u2581cafe\u0301", "\u2581n\u0303"}},
     }},
    {R"json({"type": "Whitespace"})json",
     {
      {"Hello, world! 123 abc4567", {"Hello", ",", "world", "!", "123", "abc4567"}},
      {"  two  spaces \n\nnew\u00A0line\u180Ex\302\205y", {"two", "spaces", "new", "line", "\u180E", "x", "y"}},
      {"it's I'M '\u017F we'LL x_y-z $5+3=8", {"it", "'", "s", "I", "'", "M", "'", "\u017F", "we", "'", "LL", "x_y", "-", "z", "$", "5", "+", "3", "=", "8"}},
      {"\u4F60\u597D\u4E16\u754C 3\u00B2\u0663\u0664 cafe\u0301 n\u0303", {"\u4F60\u597D\u4E16\u754C", "3", "\u00B2", "\u0663\u0664", "cafe\u0301", "n\u0303"}},
     }},
    {R"json({"type": "WhitespaceSplit"})json",
     {
      {"Hello, world! 123 abc4567", {"Hello,", "world!", "123", "abc4567"}},
      {"  two  spaces \n\nnew\u00A0line\u180Ex\302\205y", {"two", "spaces", "new", "line\u180Ex", "y"}},
      {"it's I'M '\u017F we'LL x_y-z $5+3=8", {"it's", "I'M", "'\u017F", "we'LL", "x_y-z", "$5+3=8"}},
      {"\u4F60\u597D\u4E16\u754C 3\u00B2\u0663\u0664 cafe\u0301 n\u0303", {"\u4F60\u597D\u4E16\u754C", "3\u00B2\u0663\u0664", "cafe\u0301", "n\u0303"}},
     }},
    {R"json({"type": "Punctuation", "behavior": "Isolated"})json",
     {
      {"Hello, world! 123 abc4567", {"Hello", ",", " world", "!", " 123 abc4567"}},
      {"  two  spaces \n\nnew\u00A0line\u180Ex\302\205y", {"  two  spaces \n\nnew\u00A0line\u180Ex\302\205y"}},
      {"it's I'M '\u017F we'LL x_y-z $5+3=8", {"it", "'", "s I", "'", "M ", "'", "\u017F we", "'", "LL x", "_", "y", "-", "z ", "$", "5", "+", "3", "=", "8"}},
      {"\u4F60\u597D\u4E16\u754C 3\u00B2\u0663\u0664 cafe\u0301 n\u0303", {"\u4F60\u597D\u4E16\u754C 3\u00B2\u0663\u0664 cafe\u0301 n\u0303"}},
     }},
    {R"json({"type": "Digits", "individual_digits": false})json",
     {
      {"Hello, world! 123 abc4567", {"Hello, world! ", "123", " abc", "4567"}},
      {"  two  spaces \n\nnew\u00A0line\u180Ex\302\205y", {"  two  spaces \n\nnew\u00A0line\u180Ex\302\205y"}},
      {"it's I'M '\u017F we'LL x_y-z $5+3=8", {"it's I'M '\u017F we'LL x_y-z $", "5", "+", "3", "=", "8"}},
      {"\u4F60\u597D\u4E16\u754C 3\u00B2\u0663\u0664 cafe\u0301 n\u0303", {"\u4F60\u597D\u4E16\u754C ", "3\u00B2\u0663\u0664", " cafe\u0301 n\u0303"}},
     }},
    {R"json({"type": "Split", "pattern": {"String": " "}, "behavior": "Removed", "invert": false})json",
     {
      {"Hello, world! 123 abc4567", {"Hello,", "world!", "123", "abc4567"}},
      {"  two  spaces \n\nnew\u00A0line\u180Ex\302\205y", {"two", "spaces", "\n\nnew\u00A0line\u180Ex\302\205y"}},
      {"it's I'M '\u017F we'LL x_y-z $5+3=8", {"it's", "I'M", "'\u017F", "we'LL", "x_y-z", "$5+3=8"}},
      {"\u4F60\u597D\u4E16\u754C 3\u00B2\u0663\u0664 cafe\u0301 n\u0303", {"\u4F60\u597D\u4E16\u754C", "3\u00B2\u0663\u0664", "cafe\u0301", "n\u0303"}},
     }},
    {R"json({"type": "Split", "pattern": {"String": " "}, "behavior": "Removed", "invert": true})json",
     {
      {"Hello, world! 123 abc4567", {" ", " ", " "}},
      {"  two  spaces \n\nnew\u00A0line\u180Ex\302\205y", {" ", " ", " ", " ", " "}},
      {"it's I'M '\u017F we'LL x_y-z $5+3=8", {" ", " ", " ", " ", " "}},
      {"\u4F60\u597D\u4E16\u754C 3\u00B2\u0663\u0664 cafe\u0301 n\u0303", {" ", " ", " "}},
     }},
    {R"json({"type": "Split", "pattern": {"String": " "}, "behavior": "Isolated", "invert": false})json",
     {
      {"Hello, world! 123 abc4567", {"Hello,", " ", "world!", " ", "123", " ", "abc4567"}},
      {"  two  spaces \n\nnew\u00A0line\u180Ex\302\205y", {" ", " ", "two", " ", " ", "spaces", " ", "\n\nnew\u00A0line\u180Ex\302\205y"}},
      {"it's I'M '\u017F we'LL x_y-z $5+3=8", {"it's", " ", "I'M", " ", "'\u017F", " ", "we'LL", " ", "x_y-z", " ", "$5+3=8"}},
      {"\u4F60\u597D\u4E16\u754C 3\u00B2\u0663\u0664 cafe\u0301 n\u0303", {"\u4F60\u597D\u4E16\u754C", " ", "3\u00B2\u0663\u0664", " ", "cafe\u0301", " ", "n\u0303"}},
     }},
    {R"json({"type": "Split", "pattern": {"String": " "}, "behavior": "Isolated", "invert": true})json",
     {
      {"Hello, world! 123 abc4567", {"Hello,", " ", "world!", " ", "123", " ", "abc4567"}},
      {"  two  spaces \n\nnew\u00A0line\u180Ex\302\205y", {" ", " ", "two", " ", " ", "spaces", " ", "\n\nnew\u00A0line\u180Ex\302\205y"}},
      {"it's I'M '\u017F we'LL x_y-z $5+3=8", {"it's", " ", "I'M", " ", "'\u017F", " ", "we'LL", " ", "x_y-z", " ", "$5+3=8"}},
      {"\u4F60\u597D\u4E16\u754C 3\u00B2\u0663\u0664 cafe\u0301 n\u0303", {"\u4F60\u597D\u4E16\u754C", " ", "3\u00B2\u0663\u0664", " ", "cafe\u0301", " ", "n\u0303"}},
     }},
    {R"json({"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": false})json",
     {
      {"Hello, world! 123 abc4567", {"Hello, ", "world! ", "123 ", "abc4567"}},
      {"  two  spaces \n\nnew\u00A0line\u180Ex\302\205y", {" ", " ", "two ", " ", "spaces ", "\n\nnew\u00A0line\u180Ex\302\205y"}},
      {"it's I'M '\u017F we'LL x_y-z $5+3=8", {"it's ", "I'M ", "'\u017F ", "we'LL ", "x_y-z ", "$5+3=8"}},
      {"\u4F60\u597D\u4E16\u754C 3\u00B2\u0663\u0664 cafe\u0301 n\u0303", {"\u4F60\u597D\u4E16\u754C ", "3\u00B2\u0663\u0664 ", "cafe\u0301 ", "n\u0303"}},
     }},
    {R"json({"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": true})json",
     {
      {"Hello, world! 123 abc4567", {"Hello,", " world!", " 123", " abc4567"}},
      {"  two  spaces \n\nnew\u00A0line\u180Ex\302\205y", {" ", " two", " ", " spaces", " \n\nnew\u00A0line\u180Ex\302\205y"}},
      {"it's I'M '\u017F we'LL x_y-z $5+3=8", {"it's", " I'M", " '\u017F", " we'LL", " x_y-z", " $5+3=8"}},
      {"\u4F60\u597D\u4E16\u754C 3\u00B2\u0663\u0664 cafe\u0301 n\u0303", {"\u4F60\u597D\u4E16\u754C", " 3\u00B2\u0663\u0664", " cafe\u0301", " n\u0303"}},
     }},
    {R"json({"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithNext", "invert": false})json",
     {
      {"Hello, world! 123 abc4567", {"Hello,", " world!", " 123", " abc4567"}},
      {"  two  spaces \n\nnew\u00A0line\u180Ex\302\205y", {" ", " two", " ", " spaces", " \n\nnew\u00A0line\u180Ex\302\205y"}},
      {"it's I'M '\u017F we'LL x_y-z $5+3=8", {"it's", " I'M", " '\u017F", " we'LL", " x_y-z", " $5+3=8"}},
      {"\u4F60\u597D\u4E16\u754C 3\u00B2\u0663\u0664 cafe\u0301 n\u0303", {"\u4F60\u597D\u4E16\u754C", " 3\u00B2\u0663\u0664", " cafe\u0301", " n\u0303"}},
     }},
    {R"json({"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithNext", "invert": true})json",
     {
      {"Hello, world! 123 abc4567", {"Hello, ", "world! ", "123 ", "abc4567"}},
      {"  two  spaces \n\nnew\u00A0line\u180Ex\302\205y", {" ", " ", "two ", " ", "spaces ", "\n\nnew\u00A0line\u180Ex\302\205y"}},
      {"it's I'M '\u017F we'LL x_y-z $5+3=8", {"it's ", "I'M ", "'\u017F ", "we'LL ", "x_y-z ", "$5+3=8"}},
      {"\u4F60\u597D\u4E16\u754C 3\u00B2\u0663\u0664 cafe\u0301 n\u0303", {"\u4F60\u597D\u4E16\u754C ", "3\u00B2\u0663\u0664 ", "cafe\u0301 ", "n\u0303"}},
     }},
    {R"json({"type": "Split", "pattern": {"String": " "}, "behavior": "Contiguous", "invert": false})json",
     {
      {"Hello, world! 123 abc4567", {"Hello,", " ", "world!", " ", "123", " ", "abc4567"}},
      {"  two  spaces \n\nnew\u00A0line\u180Ex\302\205y", {"  ", "two", "  ", "spaces", " ", "\n\nnew\u00A0line\u180Ex\302\205y"}},
      {"it's I'M '\u017F we'LL x_y-z $5+3=8", {"it's", " ", "I'M", " ", "'\u017F", " ", "we'LL", " ", "x_y-z", " ", "$5+3=8"}},
      {"\u4F60\u597D\u4E16\u754C 3\u00B2\u0663\u0664 cafe\u0301 n\u0303", {"\u4F60\u597D\u4E16\u754C", " ", "3\u00B2\u0663\u0664", " ", "cafe\u0301", " ", "n\u0303"}},
     }},
    {R"json({"type": "Split", "pattern": {"String": " "}, "behavior": "Contiguous", "invert": true})json",
     {
      {"Hello, world! 123 abc4567", {"Hello,", " ", "world!", " ", "123", " ", "abc4567"}},
      {"  two  spaces \n\nnew\u00A0line\u180Ex\302\205y", {"  ", "two", "  ", "spaces", " ", "\n\nnew\u00A0line\u180Ex\302\205y"}},
      {"it's I'M '\u017F we'LL x_y-z $5+3=8", {"it's", " ", "I'M", " ", "'\u017F", " ", "we'LL", " ", "x_y-z", " ", "$5+3=8"}},
      {"\u4F60\u597D\u4E16\u754C 3\u00B2\u0663\u0664 cafe\u0301 n\u0303", {"\u4F60\u597D\u4E16\u754C", " ", "3\u00B2\u0663\u0664", " ", "cafe\u0301", " ", "n\u0303"}},
     }},
    {R"json({"type": "Split", "pattern": {"Regex": "\\w+|\\s"}, "behavior": "MergedWithNext", "invert": false})json",
     {
      {"Hello, world! 123 abc4567", {"Hello,", " ", "world!", " ", "123", " ", "abc4567"}},
      {"  two  spaces \n\nnew\u00A0line\u180Ex\302\205y", {" ", " ", "two", " ", " ", "spaces", " ", "\n", "\n", "new", "\u00A0", "line\u180E", "x", "\302\205", "y"}},
      {"it's I'M '\u017F we'LL x_y-z $5+3=8", {"it'", "s", " ", "I'", "M", " '", "\u017F", " ", "we'", "LL", " ", "x_y-", "z", " $", "5+", "3=", "8"}},
      {"\u4F60\u597D\u4E16\u754C 3\u00B2\u0663\u0664 cafe\u0301 n\u0303", {"\u4F60\u597D\u4E16\u754C", " ", "3\u00B2\u0663\u0664", " ", "cafe\u0301", " ", "n\u0303"}},
     }},
};

struct NormalizeCases {
  const char* json;
  std::vector<std::pair<std::string, std::string>> cases;  // text, normalised
};

const std::vector<NormalizeCases> normalize_cases = {
    {R"json({"type": "NFC"})json",
     {
      {"cafe\u0301 \uFB01 \u212B \uAC01 \u1100\u1161\u11A8", "caf\u00E9 \uFB01 \u00C5 \uAC01 \uAC01"},
      {"a\u0323\u0307\u0301 q\u0307\u0323 \u0344 \u0958 \U0001D15E", "\u1EA1\u0307\u0301 q\u0323\u0307 \u0308\u0301 \u0915\u093C \U0001D157\U0001D165"},
      {"", ""},
      {" a  b \u2460\u2075", " a  b \u2460\u2075"},
     }},
    {R"json({"type": "NFD"})json",
     {
      {"cafe\u0301 \uFB01 \u212B \uAC01 \u1100\u1161\u11A8", "cafe\u0301 \uFB01 A\u030A \u1100\u1161\u11A8 \u1100\u1161\u11A8"},
      {"a\u0323\u0307\u0301 q\u0307\u0323 \u0344 \u0958 \U0001D15E", "a\u0323\u0307\u0301 q\u0323\u0307 \u0308\u0301 \u0915\u093C \U0001D157\U0001D165"},
      {"", ""},
      {" a  b \u2460\u2075", " a  b \u2460\u2075"},
     }},
    {R"json({"type": "NFKC"})json",
     {
      {"cafe\u0301 \uFB01 \u212B \uAC01 \u1100\u1161\u11A8", "caf\u00E9 fi \u00C5 \uAC01 \uAC01"},
      {"a\u0323\u0307\u0301 q\u0307\u0323 \u0344 \u0958 \U0001D15E", "\u1EA1\u0307\u0301 q\u0323\u0307 \u0308\u0301 \u0915\u093C \U0001D157\U0001D165"},
      {"", ""},
      {" a  b \u2460\u2075", " a  b 15"},
     }},
    {R"json({"type": "NFKD"})json",
     {
      {"cafe\u0301 \uFB01 \u212B \uAC01 \u1100\u1161\u11A8", "cafe\u0301 fi A\u030A \u1100\u1161\u11A8 \u1100\u1161\u11A8"},
      {"a\u0323\u0307\u0301 q\u0307\u0323 \u0344 \u0958 \U0001D15E", "a\u0323\u0307\u0301 q\u0323\u0307 \u0308\u0301 \u0915\u093C \U0001D157\U0001D165"},
      {"", ""},
      {" a  b \u2460\u2075", " a  b 15"},
     }},
    {R"json({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"}, {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]})json",
     {
      {"cafe\u0301 \uFB01 \u212B \uAC01 \u1100\u1161\u11A8", "\u2581cafe\u0301\u2581\uFB01\u2581\u212B\u2581\uAC01\u2581\u1100\u1161\u11A8"},
      {"a\u0323\u0307\u0301 q\u0307\u0323 \u0344 \u0958 \U0001D15E", "\u2581a\u0323\u0307\u0301\u2581q\u0307\u0323\u2581\u0344\u2581\u0958\u2581\U0001D15E"},
      {"", ""},
      {" a  b \u2460\u2075", "\u2581\u2581a\u2581\u2581b\u2581\u2460\u2075"},
     }},
    {R"json({"type": "Replace", "pattern": {"Regex": "\\s+"}, "content": "_"})json",
     {
      {"cafe\u0301 \uFB01 \u212B \uAC01 \u1100\u1161\u11A8", "cafe\u0301_\uFB01_\u212B_\uAC01_\u1100\u1161\u11A8"},
      {"a\u0323\u0307\u0301 q\u0307\u0323 \u0344 \u0958 \U0001D15E", "a\u0323\u0307\u0301_q\u0307\u0323_\u0344_\u0958_\U0001D15E"},
      {"", ""},
      {" a  b \u2460\u2075", "_a_b_\u2460\u2075"},
     }},
};
// clang-format on

Json parse(const char* text) {
  auto json = parse_json(text);
  REQUIRE(json);
  return *json;
}

Result<PreTokenizerSteps> pre_tokenizer(const char* text) {
  const Json json = parse(text);
  return read_pre_tokenizer(&json, "tokenizer.json");
}

Result<std::vector<NormalizerStep>> normalizer(const char* text) {
  const Json json = parse(text);
  return read_normalizer(&json, "tokenizer.json");
}

}  // namespace

TEST_CASE("pre-tokenizers cut the words that the reference cuts") {
  for (const auto& [json, cases] : split_cases) {
    INFO(json);
    auto steps = pre_tokenizer(json);
    REQUIRE(steps);
    const PreTokenizer splitter(std::move(steps->steps));
    for (const auto& [input, expected] : cases) {
      INFO(input);
      std::string text = input;
      std::vector<TextRange> ranges;
      REQUIRE(splitter.split(text, SegmentPosition::start_of_text, ranges));
      std::vector<std::string> words;
      for (const auto& range : ranges) words.push_back(text.substr(range.begin, range.size()));
      CHECK(words == expected);
    }
  }
}

TEST_CASE("normalizers change text as the reference does") {
  for (const auto& [json, cases] : normalize_cases) {
    INFO(json);
    auto steps = normalizer(json);
    REQUIRE(steps);
    const Normalizer form(std::move(*steps));
    for (const auto& [input, expected] : cases) {
      INFO(input);
      std::string text = input;
      REQUIRE(form.apply(text));
      CHECK(text == expected);
    }
  }
}

TEST_CASE("unknown steps are errors that name them and list the known") {
  const auto split = pre_tokenizer(R"({"type": "UnicodeScripts"})");
  CHECK(split.status().code() == StatusCode::unsupported);
  CHECK(split.status().message() ==
        "tokenizer.json: pre_tokenizer \"UnicodeScripts\" is not one of: ByteLevel, Digits, "
        "Metaspace, "
        "Punctuation, Sequence, Split, Whitespace, WhitespaceSplit");
  CHECK(normalizer(R"({"type": "Lowercase"})").status().message() ==
        "tokenizer.json: normalizer \"Lowercase\" is not one of: NFC, NFD, NFKC, NFKD, Prepend, "
        "Replace, Sequence");
}

TEST_CASE("steps that break their format are errors") {
  CHECK(pre_tokenizer(R"({"type": "Sequence"})").status().code() == StatusCode::malformed);
  CHECK(pre_tokenizer(R"({"type": 3})").status().code() == StatusCode::malformed);
  CHECK(pre_tokenizer(R"({"type": "Split"})").status().code() == StatusCode::malformed);
  CHECK(pre_tokenizer(R"({"type": "Split", "pattern": {"Regex": "("}})").status().code() ==
        StatusCode::malformed);
  CHECK(pre_tokenizer(R"({"type": "Split", "pattern": {"Regex": "[a&&b]"}})").status().code() ==
        StatusCode::unsupported);
  CHECK(pre_tokenizer(R"({"type": "ByteLevel", "use_regex": 1})").status().code() ==
        StatusCode::malformed);
  std::string nested = R"({"type": "NFC"})";
  for (int i = 0; i < 20; ++i) nested = R"({"type": "Sequence", "normalizers": [)" + nested + "]}";
  CHECK(normalizer(nested.c_str()).status().code() == StatusCode::unsupported);
}

TEST_CASE("a pattern that backtracks without end is stopped") {
  auto steps = pre_tokenizer(
      R"({"type": "Split", "pattern": {"Regex": "(a|aa)+$"}, "behavior": "Isolated"})");
  REQUIRE(steps);
  const PreTokenizer splitter(std::move(steps->steps));
  std::string text = std::string(200, 'a') + "b";
  std::vector<TextRange> ranges;
  const Status status = splitter.split(text, SegmentPosition::start_of_text, ranges);
  CHECK(status.code() == StatusCode::resource_exhausted);
}

TEST_CASE("a megabyte of combining marks is normalised in time") {
  const auto start = std::chrono::steady_clock::now();
  std::string text = "a";
  for (int i = 0; i < 250'000; ++i) text += "\u0301\u0323";  // out of order all the way
  std::vector<NormalizerStep> steps;
  steps.emplace_back(NormalizationForm::nfc);
  REQUIRE(Normalizer(std::move(steps)).apply(text));
  CHECK(text.substr(0, 5) == "\u1EA1\u0323");
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(10));
}

}  // namespace quire::text
