#include "matmul/product.h"

#include <algorithm>
#include <array>

#include "base/dependent_launch.h"
#include "base/error.h"
#include "matmul/device_matrix.h"
#include "matmul/gate_parts.h"
#include "matmul/gated.h"
#include "matmul/kernel_table.h"
#include "matmul/library_route.h"
#include "matmul/product_args.h"
#include "matmul/product_plan.h"
#include "matmul/tensor_map.h"

namespace quire::cuda {
namespace {

constexpr std::size_t kCounters = 16384;
constexpr std::size_t kPartialBytes = std::size_t{48} << 20;
constexpr int kGateRows = 64;  // of gate and up in memory, at least, when no launch does both
constexpr int kManyRows = 64;  // from here on there is scratch memory for the library's products
constexpr std::size_t kExpandBytes = std::size_t{64} << 20;
constexpr std::size_t kGateBytes = std::size_t{128} << 20;

// The parts of the workspace, in this order: counters, partial sums (also the library's workspace),
// values of gate and up, expanded weights. The last may be missing.
struct Workspace {
  std::byte *partials, *gate, *expanded;
  std::size_t gate_bytes, expanded_bytes;

  explicit Workspace(const ProductCall& call) {
    partials = call.workspace + kCounters * 4;
    gate = partials + kPartialBytes;
    const std::size_t rest = call.workspace_bytes - kCounters * 4 - kPartialBytes;
    expanded_bytes = rest >= kExpandBytes + kGateBytes ? kExpandBytes : 0;
    gate_bytes = rest - expanded_bytes;
    expanded = gate + gate_bytes;
  }
};

using Matrices = std::array<const DeviceMatrix*, 3>;

bool is_gated(Epilogue epilogue) {
  return epilogue == Epilogue::gated_silu || epilogue == Epilogue::gated_gelu_tanh;
}

// One launch can multiply both.
bool alike(const DeviceMatrix& a, const DeviceMatrix& b) {
  return a.kind() == b.kind() && a.table() == b.table();
}

Status check(const ProductCall& call, Matrices& matrices) {
  const auto wrong = [](const char* what) {
    return error(StatusCode::internal, "product: {}", what);
  };
  if (call.matrices < 1 || call.matrices > 3) return wrong("not one to three matrices");
  for (int i = 0; i < call.matrices; ++i) {
    matrices[static_cast<std::size_t>(i)] = dynamic_cast<const DeviceMatrix*>(call.weights[i]);
    const DeviceMatrix* matrix = matrices[static_cast<std::size_t>(i)];
    if (matrix == nullptr) return wrong("a matrix of another device");
    if (matrix->columns() != matrices[0]->columns()) return wrong("inputs of different lengths");
  }
  if (is_gated(call.epilogue) &&
      (call.matrices != 2 || matrices[0]->rows() != matrices[1]->rows())) {
    return wrong("a gate needs two matrices of one shape");
  }
  if (call.count != 0 && (call.matrices != 1 || call.first < 0 || call.count < 0 ||
                          call.first + call.count > matrices[0]->rows())) {
    return wrong("a range of outputs outside the only matrix");
  }
  const bool floats =
      call.epilogue == Epilogue::store_float || call.epilogue == Epilogue::add_residual;
  if (call.input == nullptr ||
      (floats ? call.out_float == nullptr : call.out_bfloat16 == nullptr)) {
    return wrong("no input or no output");
  }
  if (call.workspace == nullptr || call.workspace_bytes < product_workspace_bytes(0, 0)) {
    return wrong("no workspace");
  }
  return {};
}

// Outputs [begin, end) of a matrix, behind those that args has.
void add_part(ProductArgs& args, const DeviceMatrix& matrix, const float* bias, std::int64_t begin,
              std::int64_t end, std::int64_t out_column) {
  ProductPart& part = args.parts[args.part_count++];
  part.weights = matrix.packed();
  part.bias = bias;
  part.begin = static_cast<int>(begin);
  part.end = static_cast<int>(end);
  part.out_column = out_column;
  count_units(args, kUnitRows);
}

ProductArgs common_args(const Launch& launch, const ProductCall& call, const DeviceMatrix& matrix) {
  ProductArgs args;
  args.gated = is_gated(call.epilogue);
  args.panel_stride = matrix.panel_stride();
  const std::array<std::uint32_t, 4> table = matrix.table();
  std::copy(table.begin(), table.end(), args.table);
  args.input = call.input;
  args.tokens = call.rows;
  args.columns = static_cast<int>(matrix.columns());
  args.blocks = matrix.blocks();
  args.partial_chunks = launch.deterministic;
  args.counters = reinterpret_cast<std::uint32_t*>(call.workspace);
  args.partials = reinterpret_cast<float*>(call.workspace + kCounters * 4);
  args.epilogue = call.epilogue;
  args.residual_scale = call.residual_scale;
  args.out_float = call.out_float;
  args.out_bfloat16 = call.out_bfloat16;
  args.out_stride = call.out_stride;
  return args;
}

// Starts after the kernel before it has let it; the kernels wait for their inputs themselves.
// `maps`: of wide_tokens and stream_tokens.
Status start(const Launch& launch, const ProductPlan& plan, ProductArgs args,
             const WideMaps& maps) {
  Status status =
      status_of(cudaFuncSetAttribute(plan.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     static_cast<int>(plan.shared_bytes)),
                "shared memory of a product");
  if (!status) return status;
  args.chunk_blocks = plan.chunk_blocks;
  args.chunks = plan.chunks;
  args.slices = plan.slices;
  args.slice_chunks = plan.slice_chunks;
  args.groups = plan.groups;
  args.stages = plan.stages;
  args.unit_stages = plan.unit_stages;
  args.in_turn = !args.partial_chunks;
  args.cluster = plan.cluster;
  args.unit_rows = plan.unit_rows;
  count_units(args, plan.unit_rows);
  args.group_share = (65536 + plan.slice_chunks - 1) / plan.slice_chunks;
  const LaunchShape shape{plan.grid(), dim3(static_cast<unsigned>(plan.threads)), plan.shared_bytes,
                          static_cast<unsigned>(plan.cluster)};
  return launch_dependent(launch, plan.kernel, "product", shape, args, maps);
}

struct DeviceLimits {
  ProductLimits limits;
  int major = 0;  // of the compute capability
};

Result<DeviceLimits> device_limits(const Launch& launch) {
  int device = 0, shared = 0, major = 0;
  Status status = status_of(cudaGetDevice(&device), "the current device");
  if (status) {
    status =
        status_of(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
                  "shared memory of the device");
  }
  if (status) {
    status = status_of(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
                       "compute capability of the device");
  }
  if (!status) return status;
  return DeviceLimits{{launch.multiprocessors, static_cast<std::size_t>(shared), kPartialBytes,
                       kCounters, major >= 9},
                      major};
}

// Whether the kernel is in the program as code for compute capability 9.0a.
bool has_wide_code(const void* kernel) {
  cudaFuncAttributes attributes{};
  return kernel != nullptr && cudaFuncGetAttributes(&attributes, kernel) == cudaSuccess &&
         attributes.binaryVersion == 90;
}

// The kernel for the next of args' tokens; may leave some for another.
ProductPlan choose(const Launch& launch, const DeviceLimits& device, WeightKind kind, bool aligned,
                   ProductArgs& args, bool& wide) {
  ProductPlan plan = plan_few_tokens(args, kind, device.limits);
  wide = false;
  if (plan.kernel != nullptr || !aligned) return plan;
  if (!launch.deterministic && device.major == 9) {
    plan = kind == WeightKind::bfloat ? plan_stream_tokens(args, device.limits)
                                      : plan_wide_tokens(args, kind, device.limits);
    wide = has_wide_code(plan.kernel);
    if (wide && kind == WeightKind::bfloat) args.tokens = std::min(args.tokens, kStreamTokens);
    if (wide) return plan;
  }
  return plan_many_tokens(args, kind, device.limits);
}

Result<WideMaps> wide_maps(const ProductArgs& args, WeightKind kind, const ProductPlan& plan) {
  WideMaps maps{};
  Result<CUtensorMap> map = tensor_map(args.input, args.tokens, args.columns, plan.token_tiles * 8);
  if (!map) return map.status();
  maps.input = *map;
  if (kind != WeightKind::bfloat) return maps;
  for (int i = 0; i < args.part_count; ++i) {
    const ProductPart& part = args.parts[i];
    map = tensor_map(reinterpret_cast<const __nv_bfloat16*>(part.weights),
                     (std::int64_t{part.end} + kUnitRows - 1) / kUnitRows * kUnitRows,
                     std::int64_t{args.blocks} * kBlockColumns, plan.unit_rows / 2);
    if (!map) return map.status();
    maps.weights[i] = *map;
  }
  return maps;
}

// Runs args for all tokens; input rows that are no whole 16-byte pieces go few at a time.
Status run(const Launch& launch, WeightKind kind, ProductArgs args) {
  const Result<DeviceLimits> device = device_limits(launch);
  if (!device) return device.status();
  const bool aligned =
      args.columns % 8 == 0 && reinterpret_cast<std::uintptr_t>(args.input) % 16 == 0;
  const int tokens = args.tokens;
  for (int done = 0; done < tokens;) {
    args.tokens = aligned ? tokens - done : std::min(kFewTokens, tokens - done);
    bool wide = false;
    const ProductPlan plan = choose(launch, *device, kind, aligned, args, wide);
    if (plan.kernel == nullptr) {
      return error(StatusCode::unsupported,
                   "product: no kernel for {} x {} in {} bytes of shared memory",
                   args.units * kUnitRows, args.columns, device->limits.shared_bytes);
    }
    WideMaps maps{};
    if (wide) {
      Result<WideMaps> made = wide_maps(args, kind, plan);
      if (!made) return made.status();
      maps = *made;
    }
    Status status = start(launch, plan, args, maps);
    if (!status) return status;
    done += args.tokens;
    args.input += std::int64_t{args.tokens} * args.columns;
    if (args.out_float != nullptr) args.out_float += args.tokens * args.out_stride;
    if (args.out_bfloat16 != nullptr) args.out_bfloat16 += args.tokens * args.out_stride;
  }
  return {};
}

// Matrices [first, last) of a call, which are alike.
Status run_alike(const Launch& launch, const ProductCall& call, const Matrices& matrices,
                 std::size_t first, std::size_t last, std::int64_t out_column) {
  const Workspace workspace(call);
  const bool library = !is_gated(call.epilogue) &&
                       suits_library(launch, call, *matrices[first], workspace.expanded_bytes);
  ProductArgs args = common_args(launch, call, *matrices[first]);
  for (std::size_t i = first; i < last; ++i) {
    const std::int64_t begin = call.count > 0 ? call.first : 0;
    const std::int64_t end = call.count > 0 ? begin + call.count : matrices[i]->rows();
    if (library) {
      const bool twins = i + 1 < last && are_twins(*matrices[i], *matrices[i + 1]);
      Status status = multiply_by_library(
          launch, call, *matrices[i], twins ? matrices[i + 1] : nullptr, out_column,
          workspace.expanded, workspace.expanded_bytes, workspace.partials, kPartialBytes);
      if (!status) return status;
      if (twins) {
        out_column += end - begin;
        ++i;
      }
    } else {
      add_part(args, *matrices[i], call.bias[i], begin, end, out_column);
    }
    out_column += end - begin;
  }
  return library ? Status() : run(launch, matrices[first]->kind(), args);
}

}  // namespace

std::size_t product_workspace_bytes(int max_rows, std::int64_t widest) {
  const std::size_t gate = static_cast<std::size_t>(std::min(max_rows, kGateRows)) *
                           static_cast<std::size_t>(widest) * 2 * sizeof(float);
  return kCounters * 4 + kPartialBytes +
         (max_rows >= kManyRows ? std::max(gate, kGateBytes) + kExpandBytes : gate);
}

Status product(const Launch& launch, const ProductCall& call) {
  Matrices matrices{};
  if (Status status = check(call, matrices); !status) return status;
  if (call.rows <= 0) return {};
  if (is_gated(call.epilogue)) {
    const Workspace workspace(call);
    const bool one_kind = alike(*matrices[0], *matrices[1]);
    const bool library = suits_library(launch, call, *matrices[0], workspace.expanded_bytes);
    const GateMemory memory{workspace.gate, workspace.gate_bytes};
    if (one_kind && library && can_gate_in_place(matrices[0]->rows(), call.out_stride)) {
      return gate_in_place(launch, call, memory);
    }
    if (!one_kind || library) return gate_apart(launch, call, memory);
  }
  std::int64_t out_column = 0;
  const auto count = static_cast<std::size_t>(call.matrices);
  for (std::size_t first = 0, last = 0; first < count; first = last) {
    std::int64_t width = 0;
    for (; last < count && alike(*matrices[first], *matrices[last]); ++last) {
      width += matrices[last]->rows();
    }
    Status status = run_alike(launch, call, matrices, first, last, out_column);
    if (!status) return status;
    out_column += width;
  }
  return {};
}

}  // namespace quire::cuda
