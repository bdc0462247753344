#include <ctime>

#include "emulated.h"
#include "text/named_pre_tokenizers.h"
#include "text_test_files.h"

// A megabyte of anything is encoded in about a second: nothing is quadratic.
namespace quire::text {
namespace {

constexpr std::size_t megabyte = 1 << 20;
constexpr double most_seconds = 5;  // of processor time, so that a loaded machine does not count

std::string repeated(std::string_view unit, std::size_t size, std::string_view end = "") {
  std::string text;
  text.reserve(size + unit.size() + end.size());
  while (text.size() < size) text += unit;
  return text += end;
}

double seconds_since(std::clock_t start) {
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

}  // namespace

TEST_CASE("a megabyte of one thing is encoded in time") {
  const auto path =
      GENERATE(as<std::string>(), real_model("SmolLM2-135M-Instruct.Q4_1.gguf"),
               real_model("gemma-3-270m-q4_k_m.gguf"), llama_cpp_vocabulary("llama-bpe"),
               llama_cpp_vocabulary("gemma-4"), llama_cpp_vocabulary("llama-spm"));
  const auto tokenizer = open_tokenizer(path);
  for (const std::string unit : {"a", " ", "\n", "\u0301"}) {
    const std::string text = repeated(unit, testing::kEmulated ? megabyte / 16 : megabyte);
    const std::clock_t start = std::clock();
    const auto ids = encode(*tokenizer, text, true);
    const double seconds = seconds_since(start);
    INFO(path << ": " << text.substr(0, 8) << "... " << seconds << " s");
    CHECK(!ids.empty());
    CHECK(seconds < most_seconds);
  }
}

TEST_CASE("every named pre-tokenizer is linear") {
  const std::string name =
      GENERATE("default", "gpt-2", "smollm", "llama-bpe", "qwen2", "qwen35", "falcon",
               "deepseek-llm", "deepseek-coder", "deepseek-v3", "tekken", "gpt-4o", "minicpm5",
               "bloom", "viking", "bailingmoe", "seed-coder");
  auto named = named_pre_tokenizer(name);
  REQUIRE(named);
  constexpr std::size_t size = megabyte / (testing::kEmulated ? 32 : 4);
  for (const std::string& input :
       {repeated("a", size), repeated("A", size, "1"), repeated(" ", size, "x"),
        repeated("\r\n", size, "x"), repeated(" \n", size, "x"), repeated("\u0301", size, "1"),
        repeated("!", size, "a"), repeated("1", size), repeated("\u4E2D", size),
        repeated("'s", size)}) {
    std::string text = input;
    std::vector<TextRange> ranges;
    const std::clock_t start = std::clock();
    const Status status = named->pre_tokenizer.split(text, SegmentPosition::start_of_text, ranges);
    const double seconds = seconds_since(start);
    INFO(name << ": " << input.substr(0, 8) << "... " << seconds << " s " << status.message());
    CHECK(status);
    CHECK(seconds < most_seconds);
  }
}

}  // namespace quire::text
