#include <string>
#include <utility>

#include "base/error.h"
#include "cpu/cpu_device.h"
#include "cpu/isa.h"
#include "device/backends.h"

namespace quire::cpu {
namespace {

std::string available_names() {
  std::string names = "cpu";
  for (Isa isa : kIsas) {
    if (supports(isa)) names += ", cpu:" + std::string(isa_name(isa));
  }
  return names;
}

Result<Isa> choose(const std::string& name) {
  if (name == "cpu") return best_isa();
  for (Isa isa : kIsas) {
    if (name != "cpu:" + std::string(isa_name(isa))) continue;
    if (supports(isa)) return isa;
    return error(StatusCode::unsupported,
                 "device \"{}\" is not available on this processor or in this build; there is: {}",
                 name, available_names());
  }
  return error(StatusCode::invalid_argument, "unknown device \"{}\"; there is: {}", name,
               available_names());
}

}  // namespace

Result<std::unique_ptr<Device>> open_cpu_device(const EngineOptions& options) {
  return guarded("open_cpu_device", [&]() -> Result<std::unique_ptr<Device>> {
    const Result<Isa> isa = choose(options.device);
    if (!isa) return isa.status();
    ThreadPoolOptions pool_options;
    pool_options.threads = options.threads;
    pool_options.spin_microseconds = options.cpu.spin_microseconds;
    pool_options.executor = options.executor;
    Result<std::unique_ptr<ThreadPool>> pool = ThreadPool::create(pool_options);
    if (!pool) return pool.status();
    return std::unique_ptr<Device>(
        std::make_unique<CpuDevice>(*isa, options.cpu, std::move(*pool)));
  });
}

}  // namespace quire::cpu
