#include "matmul/product.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "matmul/device_matrix.h"
#include "matmul/gated.h"
#include "matmul/product_args.h"
#include "matmul/product_plan.h"

namespace quire::cuda {
namespace {

constexpr std::size_t kCounters = 16384;
constexpr std::size_t kPartialBytes = std::size_t{48} << 20;
constexpr int kGateRows = 64;  // of gate and up in memory, when they cannot share a launch

using Matrices = std::array<const DeviceMatrix*, 3>;

ProductKernels kernels_of(WeightKind kind) {
  switch (kind) {
    case WeightKind::bfloat:
      return product_kernels<WeightKind::bfloat>();
    case WeightKind::float32:
      return product_kernels<WeightKind::float32>();
    case WeightKind::code8:
      return product_kernels<WeightKind::code8>();
    case WeightKind::code4:
      return product_kernels<WeightKind::code4>();
    case WeightKind::code4_offset:
      return product_kernels<WeightKind::code4_offset>();
    case WeightKind::code4_table:
      return product_kernels<WeightKind::code4_table>();
    case WeightKind::code5:
      return product_kernels<WeightKind::code5>();
    case WeightKind::code5_offset:
      return product_kernels<WeightKind::code5_offset>();
    case WeightKind::code6:
      return product_kernels<WeightKind::code6>();
    case WeightKind::code3:
      return product_kernels<WeightKind::code3>();
    case WeightKind::code2_offset:
      return product_kernels<WeightKind::code2_offset>();
  }
  return {};
}

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

// The units of outputs [begin, end) of a matrix, behind those that args has.
void add_part(ProductArgs& args, const DeviceMatrix& matrix, const float* bias, std::int64_t begin,
              std::int64_t end, std::int64_t out_column) {
  ProductPart& part = args.parts[args.part_count++];
  part.weights = matrix.packed();
  part.bias = bias;
  part.first_unit = args.units;
  part.begin = static_cast<int>(begin);
  part.end = static_cast<int>(end);
  part.out_column = out_column;
  if (args.gated) {
    args.units = static_cast<int>((end + kPanelRows - 1) / kPanelRows);
    return;
  }
  part.skipped_units = static_cast<int>(begin / kUnitRows);
  args.units += static_cast<int>((end + kUnitRows - 1) / kUnitRows) - part.skipped_units;
}

ProductArgs common_args(const Launch& launch, const ProductCall& call, const DeviceMatrix& matrix) {
  ProductArgs args;
  const ChunkPlan chunks(matrix.columns());
  args.gated = is_gated(call.epilogue);
  args.panel_stride = matrix.panel_stride();
  const std::array<std::uint32_t, 4> table = matrix.table();
  std::copy(table.begin(), table.end(), args.table);
  args.input = call.input;
  args.tokens = call.rows;
  args.columns = static_cast<int>(matrix.columns());
  args.blocks = chunks.blocks;
  args.chunk_blocks = chunks.chunk_blocks;
  args.chunks = chunks.chunks;
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
Status start(const Launch& launch, const void* kernel, const ProductPlan& plan, ProductArgs args,
             bool early) {
  Status status =
      status_of(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     static_cast<int>(plan.shared_bytes)),
                "shared memory of a product");
  if (!status) return status;
  args.slices = plan.slices;
  args.slice_chunks = plan.slice_chunks;
  args.groups = plan.groups;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(plan.thread_blocks));
  config.blockDim = dim3(static_cast<unsigned>(plan.threads));
  config.dynamicSmemBytes = plan.shared_bytes;
  config.stream = launch.stream;
  config.attrs = &attribute;
  config.numAttrs = early ? 1 : 0;
  void* arguments[] = {&args};
  return status_of(cudaLaunchKernelExC(&config, kernel, arguments), "product");
}

struct DeviceLimits {
  ProductLimits limits;
  bool early = false;  // has programmatic dependent launch
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
  return DeviceLimits{
      {launch.multiprocessors, static_cast<std::size_t>(shared), kPartialBytes, kCounters},
      major >= 9};
}

// Runs args for all tokens; input rows that are no whole 16-byte pieces go 16 at a time.
Status run(const Launch& launch, WeightKind kind, ProductArgs args) {
  const Result<DeviceLimits> device = device_limits(launch);
  if (!device) return device.status();
  const ProductKernels kernels = kernels_of(kind);
  const bool aligned =
      args.columns % 8 == 0 && reinterpret_cast<std::uintptr_t>(args.input) % 16 == 0;
  const int tokens = args.tokens;
  for (int done = 0; done < tokens;) {
    args.tokens = aligned ? tokens - done : std::min(16, tokens - done);
    ProductPlan plan = plan_few_tokens(args, kind, device->limits);
    if (!plan.possible && aligned) plan = plan_many_tokens(args, kind, device->limits);
    if (!plan.possible) {
      return error(StatusCode::unsupported,
                   "product: no plan for {} x {} with {} bytes of shared "
                   "memory",
                   args.units * kUnitRows, args.columns, device->limits.shared_bytes);
    }
    const void* kernel =
        plan.few ? kernels.few[plan.token_tiles / 2] : kernels.tile[plan.token_tiles / 8];
    if (Status status = start(launch, kernel, plan, args, device->early); !status) return status;
    done += args.tokens;
    args.input += std::int64_t{args.tokens} * args.columns;
    if (args.out_float != nullptr) args.out_float += args.tokens * args.out_stride;
    if (args.out_bfloat16 != nullptr) args.out_bfloat16 += args.tokens * args.out_stride;
  }
  return {};
}

// Gate and up of different kinds: both to memory, a few rows at a time, then the gate.
Status run_gate_apart(const Launch& launch, const ProductCall& call, const Matrices& matrices) {
  const std::int64_t width = matrices[0]->rows();
  float* values = reinterpret_cast<float*>(call.workspace + kCounters * 4 + kPartialBytes);
  const int most = std::min(call.rows, kGateRows);
  if (call.workspace_bytes < product_workspace_bytes(most, width)) {
    return error(StatusCode::internal, "product: {} bytes of workspace for {} outputs",
                 call.workspace_bytes, width);
  }
  for (int done = 0; done < call.rows; done += most) {
    ProductCall part = call;
    part.rows = std::min(most, call.rows - done);
    part.input += done * matrices[0]->columns();
    part.epilogue = Epilogue::store_float;
    part.out_float = values;
    part.out_stride = 2 * width;
    if (Status status = product(launch, part); !status) return status;
    Status status = apply_gate(launch, call.epilogue, values, part.rows, static_cast<int>(width),
                               call.out_bfloat16 + done * call.out_stride, call.out_stride);
    if (!status) return status;
  }
  return {};
}

}  // namespace

std::size_t product_workspace_bytes(int max_rows, std::int64_t widest) {
  return kCounters * 4 + kPartialBytes +
         static_cast<std::size_t>(std::min(max_rows, kGateRows)) *
             static_cast<std::size_t>(widest) * 2 * sizeof(float);
}

Status product(const Launch& launch, const ProductCall& call) {
  Matrices matrices{};
  if (Status status = check(call, matrices); !status) return status;
  if (call.rows <= 0) return {};
  if (is_gated(call.epilogue) && !alike(*matrices[0], *matrices[1])) {
    return run_gate_apart(launch, call, matrices);
  }
  std::int64_t out_column = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(call.matrices);) {
    const DeviceMatrix& first = *matrices[i];
    ProductArgs args = common_args(launch, call, first);
    do {
      const std::int64_t begin = call.count > 0 ? call.first : 0;
      const std::int64_t end = call.count > 0 ? begin + call.count : matrices[i]->rows();
      add_part(args, *matrices[i], call.bias[i], begin, end, out_column);
      out_column += end - begin;
      ++i;
    } while (i < static_cast<std::size_t>(call.matrices) && alike(first, *matrices[i]));
    if (Status status = run(launch, first.kind(), args); !status) return status;
  }
  return {};
}

}  // namespace quire::cuda
