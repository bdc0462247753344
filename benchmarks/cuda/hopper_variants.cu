#include "hopper_variants.h"

#include "attention/hopper/forward.cuh"

namespace benchmarks {
namespace {

using namespace quire;
using cuda::hopper::ForwardPolicy;

struct Turns128 {
  static constexpr ForwardPolicy kPolicy{128, 3, 80, 2, true, true, false, 32, 160, 2, 3};
};
struct Overlap128 {
  static constexpr ForwardPolicy kPolicy{128, 3, 80, 2, false, true, true, 32, 160, 2, 3};
};
struct Eager128 {
  static constexpr ForwardPolicy kPolicy{128, 3, 80, 2, false, false, false, 32, 160, 2, 3};
};
struct Narrow128 {
  static constexpr ForwardPolicy kPolicy{128, 3, 64, 2, false, true, false, 32, 160, 2, 3};
};
struct TwoStages128 {
  static constexpr ForwardPolicy kPolicy{128, 3, 80, 2, false, true, false, 32, 160, 2, 2};
};
struct FourStages128 {
  static constexpr ForwardPolicy kPolicy{128, 3, 80, 1, false, true, false, 32, 160, 2, 4};
};
struct Two128 {
  static constexpr ForwardPolicy kPolicy{128, 2, 80, 2, false, true, true, 40, 232, 2, 3};
};
struct TwoWide128 {
  static constexpr ForwardPolicy kPolicy{128, 2, 128, 2, false, true, true, 40, 232};
};
struct TwoWider128 {
  static constexpr ForwardPolicy kPolicy{128, 2, 160, 2, false, true, true, 40, 232};
};
struct Two96 {
  static constexpr ForwardPolicy kPolicy{96, 2, 128, 2, false, true, true, 40, 232};
};
struct Wide96 {
  static constexpr ForwardPolicy kPolicy{96, 3, 112, 2, false, true, false, 32, 160};
};
struct NoTurns64 {
  static constexpr ForwardPolicy kPolicy{64, 3, 128, 2, false, false, false, 32, 160};
};
struct Overlap64 {
  static constexpr ForwardPolicy kPolicy{64, 3, 128, 2, true, false, true, 32, 160};
};
struct Lazy64 {
  static constexpr ForwardPolicy kPolicy{64, 3, 128, 2, true, true, false, 32, 160};
};
struct Narrow64 {
  static constexpr ForwardPolicy kPolicy{64, 3, 64, 2, true, false, false, 32, 160};
};
struct Four64 {
  static constexpr ForwardPolicy kPolicy{64, 4, 64, 2, true, false, false, 24, 112};
};
struct Apart256 {
  static constexpr ForwardPolicy kPolicy{256, 2, 80, 1, false, true, false, 40, 232};
};
struct Turns256 {
  static constexpr ForwardPolicy kPolicy{256, 2, 80, 1, true, true, true, 40, 232};
};
struct Narrow256 {
  static constexpr ForwardPolicy kPolicy{256, 2, 64, 1, false, true, true, 40, 232};
};
struct Fp8Turns128 {
  static constexpr ForwardPolicy kPolicy{128, 3, 96, 1, true, false, true, 32, 160, 1};
};
struct Fp8Two128 {
  static constexpr ForwardPolicy kPolicy{128, 2, 128, 2, false, false, true, 40, 232, 1};
};
struct Fp8Wide128 {
  static constexpr ForwardPolicy kPolicy{128, 2, 192, 1, false, false, true, 40, 232, 1};
};
struct Fp8Narrow128 {
  static constexpr ForwardPolicy kPolicy{128, 3, 64, 1, false, false, true, 32, 160, 1};
};
struct Fp8Turns64 {
  static constexpr ForwardPolicy kPolicy{64, 3, 128, 2, true, false, true, 32, 160, 1};
};
struct Fp8Wide64 {
  static constexpr ForwardPolicy kPolicy{64, 2, 192, 2, false, false, true, 40, 232, 1};
};

const Variant kVariants[] = {
    {"turns", 128, cuda::hopper::forward_instance<Turns128, false>},
    {"overlap", 128, cuda::hopper::forward_instance<Overlap128, false>},
    {"eager rescale", 128, cuda::hopper::forward_instance<Eager128, false>},
    {"64 keys", 128, cuda::hopper::forward_instance<Narrow128, false>},
    {"2 stages", 128, cuda::hopper::forward_instance<TwoStages128, false>},
    {"4 stages", 128, cuda::hopper::forward_instance<FourStages128, false>},
    {"2 warpgroups", 128, cuda::hopper::forward_instance<Two128, false>},
    {"2 warpgroups, 128 keys", 128, cuda::hopper::forward_instance<TwoWide128, false>},
    {"2 warpgroups, 160 keys", 128, cuda::hopper::forward_instance<TwoWider128, false>},
    {"2 warpgroups, 128 keys", 96, cuda::hopper::forward_instance<Two96, false>},
    {"112 keys", 96, cuda::hopper::forward_instance<Wide96, false>},
    {"no turns", 64, cuda::hopper::forward_instance<NoTurns64, false>},
    {"overlap", 64, cuda::hopper::forward_instance<Overlap64, false>},
    {"lazy rescale", 64, cuda::hopper::forward_instance<Lazy64, false>},
    {"2 warpgroups", 64, cuda::hopper::forward_instance<cuda::hopper::Forward64Capped, false>},
    {"4 warpgroups, 64 keys", 64, cuda::hopper::forward_instance<Four64, false>},
    {"64 keys", 64, cuda::hopper::forward_instance<Narrow64, false>},
    {"no overlap", 256, cuda::hopper::forward_instance<Apart256, false>},
    {"turns", 256, cuda::hopper::forward_instance<Turns256, false>},
    {"64 keys", 256, cuda::hopper::forward_instance<Narrow256, false>},
    {"turns", 128, cuda::hopper::forward_instance<Fp8Turns128, false, __nv_fp8_e4m3>, KvType::fp8},
    {"2 warpgroups", 128,
     cuda::hopper::forward_instance<cuda::hopper::Fp8Forward128Short, false, __nv_fp8_e4m3>,
     KvType::fp8},
    {"2 warpgroups, 128 keys", 128, cuda::hopper::forward_instance<Fp8Two128, false, __nv_fp8_e4m3>,
     KvType::fp8},
    {"2 warpgroups, 192 keys", 128,
     cuda::hopper::forward_instance<Fp8Wide128, false, __nv_fp8_e4m3>, KvType::fp8},
    {"64 keys", 128, cuda::hopper::forward_instance<Fp8Narrow128, false, __nv_fp8_e4m3>,
     KvType::fp8},
    {"turns", 64, cuda::hopper::forward_instance<Fp8Turns64, false, __nv_fp8_e4m3>, KvType::fp8},
    {"2 warpgroups", 64,
     cuda::hopper::forward_instance<cuda::hopper::Fp8Forward64Short, false, __nv_fp8_e4m3>,
     KvType::fp8},
    {"2 warpgroups, 192 keys", 64, cuda::hopper::forward_instance<Fp8Wide64, false, __nv_fp8_e4m3>,
     KvType::fp8},
};

}  // namespace

std::span<const Variant> hopper_variants() {
  return kVariants;
}

}  // namespace benchmarks
