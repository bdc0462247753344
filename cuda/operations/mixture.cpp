#include "operations/mixture.h"

#include <algorithm>

#include "base/error.h"
#include "operations/check.h"
#include "operations/mixture_kernels.h"
#include "operations/multiply.h"
#include "operations/row_kernels.h"

namespace quire::cuda {
namespace {

// Orders the places of the pass by expert, on the host and the device.
Status sort_places(CudaDevice& device, const MixtureSpec& mixture, int rows,
                   const std::int32_t* chosen) {
  CudaScratch& scratch = *device.scratch();
  const auto count = static_cast<std::size_t>(rows) * static_cast<std::size_t>(mixture.top_k);
  std::vector<std::int32_t> experts(count);
  Status status = device.read(experts.data(), chosen, count * sizeof(std::int32_t));
  if (!status.ok()) return status;
  std::vector<int>& starts = scratch.expert_starts();
  starts.assign(static_cast<std::size_t>(mixture.experts) + 1, 0);
  for (const std::int32_t expert : experts) {
    if (expert < 0 || expert >= mixture.experts) {
      return error(StatusCode::internal, "mlp_input: expert {} of {}", expert, mixture.experts);
    }
    ++starts[static_cast<std::size_t>(expert) + 1];
  }
  for (std::size_t e = 1; e < starts.size(); ++e) starts[e] += starts[e - 1];
  std::vector<int> next = starts;
  for (std::size_t place = 0; place < count; ++place) {
    const auto expert = static_cast<std::size_t>(experts[place]);
    scratch.host_places()[next[expert]++] = static_cast<std::int32_t>(place);
  }
  return status_of(
      cudaMemcpyAsync(scratch.places(), scratch.host_places(), count * sizeof(std::int32_t),
                      cudaMemcpyHostToDevice, device.launch().stream),
      "mlp_input");
}

// Calls body(expert, its places, how many) for each expert that has any.
template <class Body>
Status each_expert(CudaDevice& device, int experts, Body&& body) {
  CudaScratch& scratch = *device.scratch();
  const std::vector<int>& starts = scratch.expert_starts();
  if (starts.size() != static_cast<std::size_t>(experts) + 1) {
    return error(StatusCode::internal, "mlp_output: no experts were chosen");
  }
  for (int e = 0; e < experts; ++e) {
    const auto at = static_cast<std::size_t>(e);
    const int count = starts[at + 1] - starts[at];
    if (count == 0) continue;
    Status status = body(e, scratch.places() + starts[at], count);
    if (!status.ok()) return status;
  }
  return {};
}

}  // namespace

Status check_mixture(CudaDevice& device, const char* what, const MlpSpec& mlp, int width) {
  const MixtureSpec& m = mlp.mixture;
  const WorkLimits& limits = device.scratch()->limits();
  if (m.top_k < 1 || m.top_k > m.experts || m.top_k > limits.experts_used ||
      m.experts > limits.experts || m.gate == nullptr || m.up == nullptr || m.down == nullptr) {
    return error(StatusCode::internal, "{}: {} of {} experts", what, m.top_k, m.experts);
  }
  if (Status s = check_linear(what, m.router, m.experts, width); !s.ok()) return s;
  for (int e = 0; e < m.experts; ++e) {
    if (Status s = check_linear(what, m.gate + e, mlp.ff, width); !s.ok()) return s;
    if (Status s = check_linear(what, m.up + e, mlp.ff, width); !s.ok()) return s;
    if (Status s = check_linear(what, m.down + e, width, mlp.ff); !s.ok()) return s;
  }
  return {};
}

Status mixture_input(CudaDevice& device, const MlpInputArgs& args) {
  const MlpSpec& mlp = *args.mlp;
  const MixtureSpec& mixture = mlp.mixture;
  const Launch& launch = device.launch();
  CudaScratch& scratch = *device.scratch();
  ProductCall route = product_of(device, scratch.normed(), args.rows, *mixture.router);
  route.epilogue = Epilogue::store_float;
  route.out_float = scratch.product();
  if (Status s = product(launch, route); !s.ok()) return s;
  Status status = choose_experts(launch, scratch.product(), args.rows, mixture.experts,
                                 mixture.top_k, mixture.renormalise, args.chosen, args.weights);
  if (!status.ok()) return status;
  if (status = sort_places(device, mixture, args.rows, args.chosen); !status.ok()) return status;

  return each_expert(
      device, mixture.experts, [&](int expert, const std::int32_t* places, int count) -> Status {
        Status s = gather_places(launch, scratch.normed(), places, count, mixture.top_k, args.width,
                                 scratch.gathered());
        if (!s.ok()) return s;
        ProductCall call = product_of(device, scratch.gathered(), count, mixture.gate[expert]);
        call.matrices = 2;
        call.weights[1] = mixture.up[expert].weight.get();
        call.bias[1] = mixture.up[expert].bias;
        call.epilogue = Epilogue::store_float;
        call.out_float = scratch.product();
        call.out_stride = 2 * std::int64_t{mlp.ff};
        if (s = product(launch, call); !s.ok()) return s;
        return activate_rows(launch, mlp.activation, scratch.product(), count, mlp.ff, places,
                             static_cast<__nv_bfloat16*>(args.inner));
      });
}

Status mixture_output(CudaDevice& device, const MlpOutputArgs& args) {
  const MlpSpec& mlp = *args.mlp;
  const MixtureSpec& mixture = mlp.mixture;
  const Launch& launch = device.launch();
  CudaScratch& scratch = *device.scratch();
  const auto elements = static_cast<std::size_t>(args.rows) * static_cast<std::size_t>(args.width);
  Status status =
      status_of(cudaMemsetAsync(scratch.expert_sums(), 0, elements * sizeof(float), launch.stream),
                "mlp_output");
  if (!status.ok()) return status;
  status = each_expert(
      device, mixture.experts, [&](int expert, const std::int32_t* places, int count) -> Status {
        Status s = gather_places(launch, static_cast<const __nv_bfloat16*>(args.inner), places,
                                 count, 1, mlp.ff, scratch.gathered());
        if (!s.ok()) return s;
        ProductCall call = product_of(device, scratch.gathered(), count, mixture.down[expert]);
        call.epilogue = Epilogue::store_float;
        call.out_float = scratch.product();
        if (s = product(launch, call); !s.ok()) return s;
        return add_places(launch, scratch.product(), places, args.weights, count, mixture.top_k,
                          args.width, scratch.expert_sums());
      });
  if (!status.ok()) return status;
  return add_rows(launch, scratch.expert_sums(), args.rows, args.width, args.post_norm,
                  args.residual_scale, args.hidden);
}

}  // namespace quire::cuda
