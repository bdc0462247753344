#pragma once

#include <optional>
#include <string_view>

namespace quire {

// Whole processors that a cgroup quota leaves, at least 1; nothing if it sets no limit or cannot be
// read. `text` is cgroup v2's cpu.max: "max 100000" or "150000 100000" (quota and period).
std::optional<int> processors_of_cpu_max(std::string_view text);

// The same for cgroup v1's cpu.cfs_quota_us (-1: no limit) and cpu.cfs_period_us.
std::optional<int> processors_of_quota(std::string_view quota, std::string_view period);

}  // namespace quire
