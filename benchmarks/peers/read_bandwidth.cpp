// Bytes per second that N threads read from memory together: each its own part of 512 MB, the best
// and the median of eight passes. usage: read_bandwidth [THREADS]

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t all_words = std::size_t{64} << 20;
constexpr int passes = 8;

// Eight independent sums, so that additions never hold the loads up.
std::uint64_t sum_of(const std::uint64_t* data, std::size_t words) {
  std::uint64_t sums[8] = {};
  for (std::size_t i = 0; i + 8 <= words; i += 8) {
    for (std::size_t lane = 0; lane < 8; ++lane) sums[lane] += data[i + lane];
  }
  std::uint64_t sum = 0;
  for (const std::uint64_t part : sums) sum += part;
  return sum;
}

double one_pass(const std::uint64_t* data, std::size_t threads, std::vector<std::uint64_t>& sums) {
  const std::size_t words = all_words / threads;
  const Clock::time_point begin = Clock::now();
  std::vector<std::thread> others;
  for (std::size_t i = 1; i < threads; ++i) {
    others.emplace_back([&sums, data, words, i] { sums[i] = sum_of(data + i * words, words); });
  }
  sums[0] = sum_of(data, words);
  for (std::thread& thread : others) thread.join();
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return static_cast<double>(words * threads * sizeof(std::uint64_t)) / seconds / 1e9;
}

}  // namespace

int main(int argc, char** argv) {
  const int wanted =
      argc > 1 ? std::atoi(argv[1]) : static_cast<int>(std::thread::hardware_concurrency());
  if (wanted < 1 || wanted > 1024) {
    std::fprintf(stderr, "read_bandwidth: threads: not in [1, 1024]\n");
    return 2;
  }
  const std::size_t threads = static_cast<std::size_t>(wanted);
  const std::size_t bytes = all_words * sizeof(std::uint64_t);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    std::fprintf(stderr, "read_bandwidth: no %zu bytes of memory\n", bytes);
    return 1;
  }
  madvise(memory, bytes, MADV_HUGEPAGE);
  std::memset(memory, 1, bytes);
  std::vector<std::uint64_t> sums(threads);
  std::vector<double> speeds;
  for (int i = 0; i < passes; ++i) {
    speeds.push_back(one_pass(static_cast<const std::uint64_t*>(memory), threads, sums));
  }
  std::sort(speeds.begin(), speeds.end());
  std::uint64_t total = 0;
  for (const std::uint64_t sum : sums) total += sum;
  // The sum is printed so that the reads cannot be left out.
  std::printf("{\"threads\":%d,\"best_gb_per_s\":%.2f,\"median_gb_per_s\":%.2f,\"sum\":%llu}\n",
              wanted, speeds.back(), speeds[passes / 2], static_cast<unsigned long long>(total));
}
