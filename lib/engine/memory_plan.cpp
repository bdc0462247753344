#include "engine/memory_plan.h"

#include <algorithm>

#include "base/checked.h"
#include "base/error.h"
#include "engine/page_division.h"
#include "model/weights.h"

namespace quire {
namespace {

constexpr int kDefaultContext = 8192;
constexpr std::size_t kDefaultKvBytes = std::size_t{2} << 30;

Status refuse(std::string_view option, long long found, std::string_view wanted) {
  return error(StatusCode::invalid_argument, "EngineOptions: {} is {}, wanted {}", option, found,
               wanted);
}

// Enumerations come from the host as numbers: a cast makes any value.
bool known(KvType type) {
  switch (type) {
    case KvType::f32:
    case KvType::f16:
    case KvType::bf16:
    case KvType::int8:
    case KvType::fp8:
      return true;
  }
  return false;
}

bool known(Compute compute) {
  return compute == Compute::automatic || compute == Compute::f32;
}

Status check_options(const EngineOptions& options, const model::ModelConfig& config) {
  const SchedulingOptions& s = options.scheduling;
  if (s.max_running < 1 || s.max_running > 4096) {
    return refuse("scheduling.max_running", s.max_running, "1 to 4096");
  }
  if (s.max_step_tokens < s.max_running + 16 || s.max_step_tokens > 65536) {
    return refuse("scheduling.max_step_tokens", s.max_step_tokens,
                  fmt::format("{} (max_running + 16) to 65536", s.max_running + 16));
  }
  if (s.mixed_pass_time.count() < 0) {
    return refuse("scheduling.mixed_pass_time", s.mixed_pass_time.count(), "at least 0 ms");
  }
  if (s.max_queued < 1) return refuse("scheduling.max_queued", s.max_queued, "at least 1");
  if (s.max_bypasses < 0) return refuse("scheduling.max_bypasses", s.max_bypasses, "at least 0");
  if (options.context < 0 || options.context > config.context) {
    return refuse("context", options.context,
                  fmt::format("0 to {}, the model's own", config.context));
  }
  const int page = options.cache.page_size;
  const bool known_page =
      page == 0 || page == 8 || page == 16 || page == 32 || page == 64 || page == 128;
  if (!known_page) return refuse("cache.page_size", page, "8, 16, 32, 64 or 128");
  if (options.cache.type && !known(*options.cache.type)) {
    return refuse("cache.type", static_cast<int>(*options.cache.type), "a KvType");
  }
  if (!known(options.cpu.compute)) {
    return refuse("cpu.compute", static_cast<int>(options.cpu.compute), "a Compute");
  }
  if (options.threads < 0 || options.threads > 1024)
    return refuse("threads", options.threads, "0 to 1024");
  if (options.executor.post && (options.executor.threads < 1 || options.executor.threads > 1024)) {
    return refuse("executor.threads", options.executor.threads, "1 to 1024");
  }
  if (options.cpu.spin_microseconds < 0) {
    return refuse("cpu.spin_microseconds", options.cpu.spin_microseconds, "at least 0");
  }
  return {};
}

}  // namespace

Result<MemoryPlan> plan_memory(const format::ModelFiles& files, const model::ModelConfig& config,
                               const Device& device, const EngineOptions& options,
                               std::size_t owned_file_bytes) {
  if (Status status = check_options(options, config); !status.ok()) return status;
  MemoryPlan plan;
  Estimate& estimate = plan.estimate;
  model::DecoderLimits& limits = plan.limits;
  estimate.context =
      options.context > 0 ? options.context : std::min(config.context, kDefaultContext);
  limits.context = estimate.context;
  limits.rows = options.scheduling.max_step_tokens;
  limits.sequences = options.scheduling.max_running;
  limits.logit_rows =
      std::min(device.head_block(config.vocabulary).rows, options.scheduling.max_running);
  limits.page_size =
      options.cache.page_size > 0 ? options.cache.page_size : device.default_page_size();
  limits.kv_type = options.cache.type.value_or(device.default_kv_type());
  for (const KvGroupSpec& group : config.kv_groups) {
    Status status = device.check_kv(group, limits.kv_type, limits.page_size);
    if (!status.ok()) return status;
  }

  auto weights = model::weight_bytes(files, config, device);
  if (!weights) return weights.status();
  estimate.weight_bytes = weights->resident;
  const std::size_t second_copy = std::max(weights->largest_item, owned_file_bytes);
  const auto scratch =
      (CheckedSize(model::Decoder::activation_bytes(config, limits, device)) +
       CheckedSize(device.scratch_bytes(model::Decoder::work_limits(config, limits))))
          .get();
  CheckedSize all_groups;  // a page of each
  PageDemand demand{.max_running = options.scheduling.max_running,
                    .max_step_tokens = options.scheduling.max_step_tokens,
                    .page_size = limits.page_size,
                    .prefix_cache = options.cache.enabled};
  for (const KvGroupSpec& group : config.kv_groups) {
    const std::size_t bytes =
        model::Decoder::page_bytes(group, device, limits.kv_type, limits.page_size);
    all_groups += bytes;
    plan.page_bytes.push_back(bytes);
    demand.groups.push_back({group.window, bytes});
  }
  const std::size_t page_bytes = all_groups.get().value_or(SIZE_MAX);
  const auto fixed =
      (CheckedSize(scratch.value_or(SIZE_MAX)) + weights->resident + second_copy).get();
  if (!scratch || !fixed || page_bytes == SIZE_MAX) {
    return error(StatusCode::resource_exhausted, "{}: the model does not fit the address space",
                 files.name());
  }
  estimate.scratch_bytes = *scratch;
  const std::size_t token_bytes = ceil_div(page_bytes, static_cast<std::size_t>(limits.page_size));
  estimate.kv_bytes_per_token = token_bytes;

  const std::size_t page_count_of_context =
      static_cast<std::size_t>(ceil_div(estimate.context, limits.page_size)) + 1;
  std::size_t kv_bytes = options.kv_bytes;
  if (kv_bytes == 0) {
    kv_bytes = std::max(page_count_of_context * page_bytes,
                        std::min(4 * page_count_of_context * page_bytes, kDefaultKvBytes));
    if (options.memory_bytes > 0) {
      kv_bytes = std::min(kv_bytes, options.memory_bytes - std::min(options.memory_bytes, *fixed));
    }
  }
  const PageDivision division = divide_pages(demand, kv_bytes);
  const bool fits =
      options.memory_bytes == 0 ||
      (CheckedSize(*fixed) + division.bytes).get().value_or(SIZE_MAX) <= options.memory_bytes;
  if (!fits || (division.bytes == 0 && options.kv_bytes == 0)) {
    return error(
        StatusCode::resource_exhausted,
        "memory_bytes {} is too small: weights take {}, {} more while loading, activations {}, "
        "and a page of keys and values {}",
        options.memory_bytes, estimate.weight_bytes, second_copy, estimate.scratch_bytes,
        std::max(page_bytes, division.bytes));
  }
  if (division.bytes == 0) {
    return error(StatusCode::resource_exhausted,
                 "kv_bytes {} holds {} tokens of this model ({} bytes each); at least one page of "
                 "{} is needed",
                 kv_bytes, kv_bytes / token_bytes, token_bytes, limits.page_size);
  }
  limits.page_counts = division.page_counts;
  estimate.kv_bytes = division.bytes;
  estimate.max_tokens = division.tokens;
  estimate.load_peak_bytes = *fixed + estimate.kv_bytes;
  return plan;
}

}  // namespace quire
