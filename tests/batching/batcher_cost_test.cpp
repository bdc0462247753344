#include <cstdio>
#include <ctime>

#include "batching/simulation.h"
#include "catch.h"

namespace quire::test {

TEST_CASE("planning and committing 256 running answers costs little") {
  BatcherOptions options;
  options.page_size = 16;
  options.page_counts = {256 * 40};
  options.windows = {0};
  options.context = 1024;
  options.max_running = 256;
  options.max_step_tokens = 4096;
  Batcher batcher(options);
  for (int i = 0; i < 256; ++i) {
    BatchRequest r = make_request(some_tokens(static_cast<std::uint64_t>(i), 100 + i % 50), 400);
    r.id = static_cast<RequestId>(i + 1);
    batcher.add(std::move(r), 0);
  }
  double planning = 0, committing = 0;
  int passes = 0;
  for (int step = 0; step < 300; ++step) {
    const std::clock_t start = std::clock();  // of this process, so a busy machine matters less
    const Plan plan = batcher.plan({}, step);
    const std::clock_t middle = std::clock();
    const std::vector<DrawOutcome> outcomes(plan.draws.size(), {step % 1000, true, false});
    const std::clock_t resumed = std::clock();
    batcher.commit(plan, outcomes, step);
    const std::clock_t end = std::clock();
    if (plan.decode_tokens < 256) continue;
    planning += static_cast<double>(middle - start) / CLOCKS_PER_SEC;
    committing += static_cast<double>(end - resumed) / CLOCKS_PER_SEC;
    ++passes;
  }
  REQUIRE(passes > 200);
  planning *= 1e6 / passes;
  committing *= 1e6 / passes;
  std::printf("256 decodes: plan %.1f us, commit %.1f us\n", planning, committing);
  CHECK(planning + committing < 20000);  // loose: sanitizers and busy machines
  CHECK(batcher.check_invariants().ok());
}

}  // namespace quire::test
