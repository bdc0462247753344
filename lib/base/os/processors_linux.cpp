#include "base/os/processors.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/thread_pool.h"

namespace quire {
namespace {

std::string_view first_word(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\n");
  if (begin == std::string_view::npos) return {};
  const std::size_t end = text.find_first_of(" \t\n", begin);
  return text.substr(begin, end == std::string_view::npos ? end : end - begin);
}

std::optional<std::int64_t> positive_number(std::string_view text) {
  const std::string_view word = first_word(text);
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (code != std::errc() || end != word.data() + word.size() || value <= 0) return std::nullopt;
  return value;
}

std::optional<std::string> read_text(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

int affinity_processors() {
  // The kernel refuses a mask smaller than its own, so it grows until it is large enough.
  for (std::size_t processors = 1024; processors <= 1u << 20; processors *= 4) {
    std::vector<unsigned long> mask(processors / (8 * sizeof(unsigned long)));
    cpu_set_t* set = reinterpret_cast<cpu_set_t*>(mask.data());
    const std::size_t bytes = mask.size() * sizeof(unsigned long);
    if (sched_getaffinity(0, bytes, set) == 0) return CPU_COUNT_S(bytes, set);
  }
  return static_cast<int>(std::thread::hardware_concurrency());
}

// The smallest limit of a control group and those above it, `path` being relative to `root`.
template <class Limit>
std::optional<int> smallest_limit(const std::string& root, std::string path, Limit limit_of) {
  std::optional<int> smallest;
  while (true) {
    if (!path.empty() && path.back() == '/') path.pop_back();
    if (const std::optional<int> limit = limit_of(root + path)) {
      smallest = std::min(*limit, smallest.value_or(*limit));
    }
    const std::size_t slash = path.rfind('/');
    if (slash == std::string::npos) return smallest;
    path.resize(slash);
  }
}

std::optional<int> limit_v2(const std::string& folder) {
  const std::optional<std::string> text = read_text(folder + "/cpu.max");
  return text ? processors_of_cpu_max(*text) : std::nullopt;
}

std::optional<int> limit_v1(const std::string& folder) {
  const std::optional<std::string> quota = read_text(folder + "/cpu.cfs_quota_us");
  const std::optional<std::string> period = read_text(folder + "/cpu.cfs_period_us");
  return quota && period ? processors_of_quota(*quota, *period) : std::nullopt;
}

bool lists_cpu(std::string_view controllers) {
  while (!controllers.empty()) {
    const std::size_t comma = controllers.find(',');
    if (controllers.substr(0, comma) == "cpu") return true;
    if (comma == std::string_view::npos) break;
    controllers.remove_prefix(comma + 1);
  }
  return false;
}

std::optional<int> cgroup_processors() {
  std::ifstream file("/proc/self/cgroup");
  std::optional<int> smallest;
  std::string line;
  while (std::getline(file, line)) {  // hierarchy-id:controllers:path
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    std::optional<int> limit;
    if (controllers.empty()) {
      limit = smallest_limit("/sys/fs/cgroup", path, limit_v2);
    } else if (lists_cpu(controllers)) {
      limit = smallest_limit("/sys/fs/cgroup/" + controllers, path, limit_v1);
      if (!limit) limit = smallest_limit("/sys/fs/cgroup/cpu", path, limit_v1);
    }
    if (limit) smallest = std::min(*limit, smallest.value_or(*limit));
  }
  return smallest;
}

}  // namespace

std::optional<int> processors_of_quota(std::string_view quota, std::string_view period) {
  const std::optional<std::int64_t> quota_us = positive_number(quota);
  const std::optional<std::int64_t> period_us = positive_number(period);
  if (!quota_us || !period_us) return std::nullopt;
  return static_cast<int>(std::clamp<std::int64_t>(*quota_us / *period_us, 1, 1 << 20));
}

std::optional<int> processors_of_cpu_max(std::string_view text) {
  const std::string_view quota = first_word(text);
  if (quota.empty()) return std::nullopt;
  return processors_of_quota(
      quota, text.substr(static_cast<std::size_t>(quota.data() - text.data()) + quota.size()));
}

int available_processors() {
  const int allowed = std::max(1, affinity_processors());
  return std::min(allowed, cgroup_processors().value_or(allowed));
}

}  // namespace quire
