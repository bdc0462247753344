#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <quire/export.h>

namespace quire {

namespace literals {
constexpr std::size_t operator""_MiB(unsigned long long n) {
  return static_cast<std::size_t>(n) << 20;
}
constexpr std::size_t operator""_GiB(unsigned long long n) {
  return static_cast<std::size_t>(n) << 30;
}
}  // namespace literals

enum class LogLevel { info, warning, error };

// Type of the cached keys and values. int8 and fp8 (e4m3; on GPUs only, pages of 16 tokens or more)
// keep one float scale for each token and head.
enum class KvType { f32, f16, bf16, int8, fp8 };

// How weights of a quantised type are multiplied: `automatic` quantises activations to 8 bits in
// groups of 32; `f32` keeps them in float32 and expands the weights on the fly (slow, exact).
enum class Compute { automatic, f32 };

// Runs tasks on threads of the host. `post` must return at once and run `task(argument)` on some
// thread soon; up to `threads` - 1 tasks are posted for each phase of work.
struct Executor {
  std::function<void(void (*task)(void* argument), void* argument)> post;
  int threads = 1;
};

struct CacheOptions {
  bool enabled = true;         // the prefix cache
  int page_size = 0;           // tokens in a page: 8, 16, 32, 64 or 128; 0: the device's default
  std::optional<KvType> type;  // unset: what the device computes fastest without losing accuracy
};

struct SchedulingOptions {
  int max_running = 64;       // sequences that run at once
  int max_step_tokens = 512;  // tokens in a pass; >= max_running + 16
  // While answers run, prompts join a pass only as far as it lasts at most so long, or twice as
  // long as without them: no answer stands still for longer. 0: as far as max_step_tokens goes, for
  // the most tokens a second.
  std::chrono::milliseconds mixed_pass_time{20};
  int max_queued = 1024;  // requests that wait; one more is refused
  int max_bypasses = 8;   // later requests that may be admitted before a waiting one
};

struct CpuOptions {
  Compute compute = Compute::automatic;
  bool copy_weights = true;    // false: multiply weights where they are mapped (slower)
  int spin_microseconds = 50;  // how long an idle worker spins inside a step before it sleeps
};

struct CudaOptions {
  // A request's tokens do not depend on what else is computed with it, at some cost in speed.
  bool deterministic = false;
};

struct EngineOptions {
  // "cpu" (the best the processor has), "cpu:scalar", "cpu:avx2", "cpu:avx512", "cpu:avx512bf16";
  // "cuda" or "cuda:0" for the first NVIDIA GPU, "cuda:1" for the next.
  std::string device = "cpu";
  std::size_t memory_bytes = 0;  // most that weights, KV and scratch may use; 0: no limit
  std::size_t kv_bytes = 0;      // most for keys and values; 0: what `context` x 4 needs, capped
  int context = 0;               // most tokens of a sequence; 0: the model's, at most 8192
  int threads = 0;               // 0: the processors this process may use
  std::function<void(LogLevel, std::string_view)>
      log;                                            // called on the thread that calls the engine
  Executor executor;                                  // unset: the engine's own threads
  std::function<bool(double done)> on_load_progress;  // 0 ... 1; false stops the load
  CacheOptions cache;
  SchedulingOptions scheduling;
  CpuOptions cpu;
  CudaOptions cuda;
};

}  // namespace quire
