// A program outside quire's tree: opens a model, generates once and prints the tokens.
#include <cstdio>

#include <quire/quire.h>

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s MODEL\n", argv[0]);
    return 2;
  }
  auto engine = quire::Engine::open(argv[1]);
  if (!engine) {
    std::fprintf(stderr, "%s\n", engine.status().message().c_str());
    return 1;
  }
  quire::Request request;
  request.prompt = "Name three rivers.";
  request.max_tokens = 8;
  request.sampling.temperature = 0.0f;
  request.sampling.ignore_eos = true;
  const auto answer = engine->generate(request);
  if (!answer) {
    std::fprintf(stderr, "%s\n", answer.status().message().c_str());
    return 1;
  }
  for (const std::int32_t token : answer->choices.at(0).tokens) std::printf("%d ", token);
  std::printf("\n");
  return answer->choices.at(0).tokens.size() == 8 ? 0 : 1;
}
