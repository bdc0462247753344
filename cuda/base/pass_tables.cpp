#include "base/pass_tables.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>

#include "base/checked.h"
#include "base/error.h"

namespace quire::cuda {
namespace {

// Arrays begin at whole lines, in integers.
constexpr std::size_t kLine = 32;

constexpr std::size_t kPrefixIntegers = sizeof(SharedPrefix) / sizeof(std::int32_t);
static_assert(kPrefixIntegers * sizeof(std::int32_t) == sizeof(SharedPrefix));

// KV groups that a shape of passes can name.
constexpr std::size_t kMostSharingGroups = 64;

std::uint64_t table_pages(const WorkLimits& limits) {
  return static_cast<std::uint64_t>(ceil_div(limits.context, limits.page_size));
}

// A sequence's partly filled page may be copied when it is admitted and again when it grows.
std::uint64_t most_copies(const WorkLimits& limits) {
  return 2 * static_cast<std::uint64_t>(limits.sequences) *
         static_cast<std::uint64_t>(limits.groups);
}

}  // namespace

std::size_t PassTables::capacity(const WorkLimits& limits) {
  const auto rows = static_cast<std::uint64_t>(limits.rows);
  const auto sequences = static_cast<std::uint64_t>(limits.sequences);
  const auto groups = static_cast<std::uint64_t>(limits.groups);
  const CheckedSize total = CheckedSize(6 * rows) + 3 * sequences +
                            CheckedSize(groups) * sequences * (table_pages(limits) + 1) +
                            kPrefixIntegers * groups + most_copies(limits) * 3 +
                            kLine * (10 + 2 * groups) + kLine * most_copies(limits);
  return total.get().value_or(SIZE_MAX);
}

std::size_t PassTables::device_bytes(const WorkLimits& limits) {
  return (CheckedSize(capacity(limits)) * sizeof(std::int32_t)).get().value_or(SIZE_MAX);
}

Result<std::unique_ptr<PassTables>> PassTables::create(int ordinal, const WorkLimits& limits) {
  std::unique_ptr<PassTables> tables(new PassTables(limits));
  auto host = pinned_bytes(device_bytes(limits));
  if (!host) return host.status();
  auto device = CudaBuffer::create(ordinal, device_bytes(limits));
  if (!device) return device.status();
  auto copied = create_event();
  if (!copied) return copied.status();
  tables->host_ = std::move(*host);
  tables->device_ = std::move(*device);
  tables->copied_ = std::move(*copied);
  return tables;
}

Result<PassTables::Room> PassTables::take(std::size_t count) {
  if (count > capacity(limits_) - used_) {
    return error(StatusCode::internal, "begin_pass: {} more integers, {} of {} are used", count,
                 used_, capacity(limits_));
  }
  Room room;
  room.host = reinterpret_cast<std::int32_t*>(host_.get()) + used_;
  room.device = reinterpret_cast<const std::int32_t*>(device_->data()) + used_;
  used_ = std::min(capacity(limits_), round_up(used_ + count, kLine));
  return room;
}

Result<const std::int32_t*> PassTables::add(std::span<const std::int32_t> values) {
  auto room = take(values.size());
  if (!room) return room.status();
  std::copy(values.begin(), values.end(), room->host);
  return room->device;
}

Status PassTables::check(const BeginPassArgs& args) const {
  constexpr const char* kWhat = "begin_pass";
  const auto rows = static_cast<std::int64_t>(args.tokens.size());
  if (rows < 1 || rows > limits_.rows || args.positions.size() != args.tokens.size() ||
      args.rope_choices.size() != args.tokens.size() ||
      args.logit_rows.size() > args.tokens.size() ||
      (!args.token_draws.empty() && args.token_draws.size() != args.tokens.size())) {
    return error(StatusCode::internal, "{}: {} tokens (at most {}), {} positions, {} choices",
                 kWhat, rows, limits_.rows, args.positions.size(), args.rope_choices.size());
  }
  for (const std::vector<SequenceRows>& sequences : args.groups) {
    std::int64_t next = 0;
    for (const SequenceRows& sequence : sequences) {
      const std::int64_t end = std::int64_t{sequence.first_position} + sequence.rows;
      if (sequence.first_row != next || sequence.rows < 1 || sequence.first_position < 0 ||
          end > std::int64_t{sequence.page_count} * limits_.page_size || end > limits_.context) {
        return error(StatusCode::internal,
                     "{}: rows {} to {} at position {} after {} of {} rows, {} pages of {}", kWhat,
                     sequence.first_row, sequence.first_row + sequence.rows,
                     sequence.first_position, next, rows, sequence.page_count, limits_.page_size);
      }
      next += sequence.rows;
      for (std::int64_t page = sequence.first_position / limits_.page_size;
           page <= (end - 1) / limits_.page_size; ++page) {
        if (sequence.pages[page] >= 0) continue;
        return error(StatusCode::internal, "{}: page {} of a sequence is gone but still needed",
                     kWhat, page);
      }
    }
    if (next != rows || sequences.size() > static_cast<std::size_t>(limits_.sequences)) {
      return error(StatusCode::internal, "{}: {} sequences (at most {}) of {} rows, wanted {}",
                   kWhat, sequences.size(), limits_.sequences, next, rows);
    }
  }
  return {};
}

Status PassTables::add_sequences(const BeginPassArgs& args) {
  groups_.clear();
  groups_with_prefix_ = groups_with_long_prefix_ = 0;
  if (args.groups.empty()) return {};
  const std::vector<SequenceRows>& sequences = args.groups.front();
  const std::size_t count = sequences.size();
  std::vector<std::int32_t> row_sequence(args.tokens.size());
  std::vector<std::int32_t> first_row(count), rows(count), first_position(count);
  SequenceTable table;
  table.capacity = limits_.sequences;
  table.count = static_cast<int>(count);
  table.total_rows = rows_;
  for (std::size_t i = 0; i < count; ++i) {
    const SequenceRows& sequence = sequences[i];
    first_row[i] = sequence.first_row;
    rows[i] = sequence.rows;
    first_position[i] = sequence.first_position;
    std::fill_n(row_sequence.begin() + sequence.first_row, sequence.rows,
                static_cast<std::int32_t>(i));
    table.max_rows = std::max(table.max_rows, sequence.rows);
    table.max_keys = std::max(table.max_keys, sequence.first_position + sequence.rows);
  }
  if (table.max_rows == 1) {
    // A bound that seldom changes from one pass to the next.
    const unsigned bound = std::bit_ceil(static_cast<unsigned>(std::max(table.max_keys, 512)));
    table.max_keys = std::min(limits_.context, static_cast<int>(bound));
  }
  for (auto [to, values] : {std::pair{&table.first_row, &first_row},
                            {&table.rows, &rows},
                            {&table.first_position, &first_position},
                            {&table.row_sequence, &row_sequence}}) {
    auto added = add(*values);
    if (!added) return added.status();
    *to = *added;
  }
  table.row_position = positions_;

  // Page numbers last, since their count changes from pass to pass: what is before them, and the
  // place where they begin, depends on the numbers of rows and sequences alone.
  const std::size_t group_count = args.groups.size();
  auto starts = take(count * group_count);
  if (!starts) return starts.status();
  auto prefixes = take(kPrefixIntegers * group_count);
  if (!prefixes) return prefixes.status();
  const auto* device_prefixes = reinterpret_cast<const SharedPrefix*>(prefixes->device);
  std::size_t pages = 0;
  for (const std::vector<SequenceRows>& group : args.groups) {
    for (const SequenceRows& sequence : group) {
      pages += static_cast<std::size_t>(sequence.page_count);
    }
  }
  auto ids = take(pages);
  if (!ids) return ids.status();
  table.pages = ids->device;
  std::size_t next = 0;
  for (std::size_t g = 0; g < group_count; ++g) {
    table.first_page = starts->device + g * count;
    for (std::size_t i = 0; i < count; ++i) {
      const SequenceRows& sequence = args.groups[g][i];
      starts->host[g * count + i] = static_cast<std::int32_t>(next);
      std::copy_n(sequence.pages, sequence.page_count, ids->host + next);
      next += static_cast<std::size_t>(sequence.page_count);
    }
    SharedPrefix prefix;
    if (table.max_rows == 1 && g < kMostSharingGroups) {
      prefix = prefix_finder_.find(args.groups[g], limits_.page_size);
    }
    std::memcpy(prefixes->host + g * kPrefixIntegers, &prefix, sizeof(prefix));
    groups_.push_back(table);
    add_prefix(g, prefix, device_prefixes + g);
  }
  return {};
}

void PassTables::add_prefix(std::size_t group, const SharedPrefix& prefix,
                            const SharedPrefix* device) {
  const std::int64_t key_bytes = std::int64_t{4} * limits_.kv_heads * limits_.head_size;
  const std::int64_t saved = std::int64_t{prefix.sequences - 1} * prefix.keys * key_bytes;
  if (prefix.sequences == 0 || saved < prefix_limits_.least_bytes) return;
  SequenceTable& table = groups_[group];
  table.prefix = device;
  table.long_prefix = saved >= prefix_limits_.long_bytes && prefix.keys >= prefix_limits_.long_keys;
  const std::uint64_t bit = std::uint64_t{1} << group;
  groups_with_prefix_ |= bit;
  if (table.long_prefix) groups_with_long_prefix_ |= bit;
}

Status PassTables::add_copies(const BeginPassArgs& args) {
  copies_.clear();
  std::vector<KvCopy> batch;
  int group = 0;
  std::set<PageId> written, read;
  auto flush = [&]() -> Status {
    if (batch.empty()) return {};
    static_assert(sizeof(KvCopy) == 3 * sizeof(std::int32_t));
    auto room = take(3 * batch.size());
    if (!room) return room.status();
    std::memcpy(room->host, batch.data(), batch.size() * sizeof(KvCopy));
    copies_.push_back(
        {group, reinterpret_cast<const KvCopy*>(room->device), static_cast<int>(batch.size())});
    batch.clear();
    written.clear();
    read.clear();
    return {};
  };
  for (const PageCopy& copy : args.copies) {
    if (copy.group < 0 || static_cast<std::size_t>(copy.group) >= args.groups.size() ||
        copy.from < 0 || copy.to < 0 || copy.tokens < 0 || copy.tokens > limits_.page_size) {
      return error(StatusCode::internal, "begin_pass: copy of {} tokens of page {} to {}, group {}",
                   copy.tokens, copy.from, copy.to, copy.group);
    }
    if (copy.from == copy.to) continue;
    if (copy.group != group || written.count(copy.from) || written.count(copy.to) ||
        read.count(copy.to)) {
      if (Status status = flush(); !status.ok()) return status;
    }
    group = copy.group;
    batch.push_back({copy.from, copy.to, copy.tokens});
    written.insert(copy.to);
    read.insert(copy.from);
  }
  return flush();
}

Status PassTables::upload(cudaStream_t stream, const BeginPassArgs& args) {
  if (Status status = check(args); !status.ok()) return status;
  // The pass before may not have ended if it failed.
  Status status = status_of(cudaEventSynchronize(copied_.get()), "begin_pass");
  if (!status.ok()) return status;
  used_ = 0;
  rows_ = static_cast<int>(args.tokens.size());
  logit_row_count_ = static_cast<int>(args.logit_rows.size());
  for (auto [to, values] : {std::pair{&tokens_, args.tokens},
                            {&positions_, args.positions},
                            {&rope_choices_, args.rope_choices},
                            {&logit_rows_, args.logit_rows}}) {
    auto added = add(values);
    if (!added) return added.status();
    *to = *added;
  }
  if (status = add_sequences(args); !status.ok()) return status;
  if (status = add_copies(args); !status.ok()) return status;
  drawn_tokens_ = nullptr;
  token_draws_ = nullptr;
  if (!args.token_draws.empty()) {
    auto added = add(args.token_draws);
    if (!added) return added.status();
    token_draws_ = *added;
    drawn_tokens_ = reinterpret_cast<std::int32_t*>(device_->data()) +
                    (tokens_ - reinterpret_cast<const std::int32_t*>(device_->data()));
  }
  status = status_of(cudaMemcpyAsync(device_->data(), host_.get(), used_ * sizeof(std::int32_t),
                                     cudaMemcpyHostToDevice, stream),
                     "begin_pass");
  if (!status.ok()) return status;
  return status_of(cudaEventRecord(copied_.get(), stream), "begin_pass");
}

}  // namespace quire::cuda
