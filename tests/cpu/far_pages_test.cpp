#include <sys/mman.h>
#include <unistd.h>

#include <array>

#include "cpu/device_fixture.h"

// Pages beyond 2 and 4 GiB from the first: offsets in 64 bits. Only the pages in use are backed by
// memory; all others of the range are reserved without access, so that a wrong address faults.
namespace quire {
namespace {

constexpr std::size_t kStride = 1'039'680;  // bytes from page to page, a multiple of 64
constexpr int kPageSize = 16, kTokens = 40, kHeads = 4, kKvHeads = 2, kHeadSize = 64;
constexpr std::array<PageId, 3> kNear = {0, 1, 2};
constexpr std::array<PageId, 3> kFar = {2066, 1, 4135};  // beyond 2^31 and 2^32 bytes
constexpr std::array<PageId, 3> kCopies = {4133, 2065, 4134};

class AddressRange {
 public:
  explicit AddressRange(std::size_t bytes) : bytes_(bytes) {
    void* start =
        mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE(start != MAP_FAILED);
    start_ = static_cast<std::byte*>(start);
  }
  AddressRange(const AddressRange&) = delete;
  AddressRange& operator=(const AddressRange&) = delete;
  ~AddressRange() { munmap(start_, bytes_); }
  std::byte* start() const { return start_; }

  void back_with_memory(std::size_t offset, std::size_t bytes) {
    const auto unit = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t first = offset / unit * unit;
    REQUIRE(mprotect(start_ + first, offset + bytes - first, PROT_READ | PROT_WRITE) == 0);
  }

 private:
  std::size_t bytes_;
  std::byte* start_ = nullptr;
};

struct Tokens {
  std::vector<float> query, keys, values;
};

// Writes the tokens to the given pages, and then attends from the last of them.
std::vector<float> attend(Device& device, cpu::Isa isa, const KvLayer& kv, const Tokens& tokens,
                          std::span<const PageId> written, std::span<const PageId> read) {
  const auto& cpu_device = static_cast<cpu::CpuDevice&>(device);
  const cpu::KvLayout layout = cpu_device.layout(kv.type, kPageSize, kHeadSize);
  const cpu::PairKernels* pairs = cpu_device.pairs(kv.type);
  const auto write = pairs ? pairs->write_key_value : cpu::row_kernels(isa).write_key_value;
  for (int token = 0; token < kTokens && !written.empty(); ++token) {
    std::byte* slab = kv.slab(written[static_cast<std::size_t>(token / kPageSize)]);
    for (int head = 0; head < kKvHeads; ++head) {
      const auto at = static_cast<std::size_t>((token * kKvHeads + head) * kHeadSize);
      write(layout, slab + layout.head_bytes * static_cast<std::size_t>(head), token % kPageSize,
            &tokens.keys[at], &tokens.values[at]);
    }
  }
  std::vector<float> output(tokens.query.size());
  const SequenceRows rows{0, 1, kTokens - 1, read.data(), static_cast<int>(read.size())};
  PagedAttentionArgs args;
  args.sequences = {&rows, 1};
  args.heads = kHeads;
  args.query = tokens.query.data();
  args.kv = kv;
  args.scale = 0.125f;
  args.output = output.data();
  test::require_ok(device.ops().paged_attention(device, args));
  return output;
}

}  // namespace

TEST_CASE("the address of a page is right beyond 2^31 and 2^32 bytes too") {
  constexpr std::uintptr_t kBase = 1 << 20;  // never dereferenced
  KvLayer kv;
  kv.base = reinterpret_cast<std::byte*>(kBase);
  kv.page_bytes = kStride;
  kv.layer_offset = 4096;
  const auto offset = [&](PageId page) {
    return reinterpret_cast<std::uintptr_t>(kv.slab(page)) - kBase;
  };
  CHECK(offset(2066) == 2'147'982'976u);
  CHECK(offset(4135) == 4'299'080'896u);
  kv.page_bytes = std::size_t{1} << 31;
  CHECK(offset(INT32_MAX) == (std::uintptr_t{INT32_MAX} << 31) + 4096);
}

TEST_CASE("pages that lie gigabytes apart are written, read and copied as near ones are") {
  constexpr std::size_t kOffset = 512 * 1024;  // of the layer inside its page
  std::mt19937 random(11);
  Tokens tokens;
  tokens.query = test::random_floats(kHeads * kHeadSize, random);
  tokens.keys = test::random_floats(kTokens * kKvHeads * kHeadSize, random);
  tokens.values = test::random_floats(kTokens * kKvHeads * kHeadSize, random);
  for (const cpu::Isa isa : test::available_isas()) {
    for (const KvType type : {KvType::f32, KvType::f16, KvType::bf16, KvType::int8}) {
      INFO(test::device_name(isa) << " type " << static_cast<int>(type));
      const std::unique_ptr<Device> device = test::open_test_device(isa, 1);
      WorkLimits limits;
      limits.rows = 1;
      limits.context = kTokens;
      limits.width = kHeads * kHeadSize;
      limits.heads = kHeads;
      limits.head_size = kHeadSize;
      test::require_ok(device->reserve(limits));
      const KvGroupSpec spec{1, kKvHeads, kHeadSize, 0};
      REQUIRE(kOffset + device->kv_layer_bytes(spec, type, kPageSize) <= kStride);
      test::PagePool pool(*device, spec, type, kPageSize, 3);
      const std::vector<float> near = attend(*device, isa, pool.kv(), tokens, kNear, kNear);

      AddressRange range(kStride * 4136);
      for (const auto& pages : {kFar, kCopies}) {
        for (const PageId page : pages) {
          range.back_with_memory(kStride * static_cast<std::size_t>(page), kStride);
        }
      }
      KvLayer kv = pool.kv();
      kv.base = range.start();
      kv.page_bytes = kStride;
      kv.layer_offset = kOffset;
      CHECK(test::same_bits(attend(*device, isa, kv, tokens, kFar, kFar), near));

      std::vector<PageCopy> copies;
      for (std::size_t i = 0; i < kFar.size(); ++i) {
        copies.push_back({0, kFar[i], kCopies[i], kPageSize});
      }
      KvLayer group = kv;
      group.layer_offset = 0;
      CopyPagesArgs copy;
      copy.copies = copies;
      copy.groups = {&group, 1};
      copy.specs = {&spec, 1};
      test::require_ok(device->ops().copy_pages(*device, copy));
      CHECK(test::same_bits(attend(*device, isa, kv, tokens, {}, kCopies), near));
    }
  }
}

}  // namespace quire
