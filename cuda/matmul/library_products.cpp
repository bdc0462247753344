#include "matmul/library_products.h"

#include <cublasLt.h>
#include <dlfcn.h>

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <tuple>

#include "base/error.h"

namespace quire::cuda {
namespace {

struct CloseLibrary {
  void operator()(void* library) const { dlclose(library); }
};
using Library = std::unique_ptr<void, CloseLibrary>;

// The functions of the library that are used.
struct Functions {
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtDestroy) destroy = nullptr;
  decltype(&cublasLtMatmulDescCreate) create_operation = nullptr;
  decltype(&cublasLtMatmulDescDestroy) destroy_operation = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) set_operation = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) create_layout = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) destroy_layout = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) create_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference = nullptr;
  decltype(&cublasLtMatrixLayoutSetAttribute) set_layout = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) choose = nullptr;
  decltype(&cublasLtMatmulAlgoCheck) check = nullptr;
  decltype(&cublasLtMatmul) multiply = nullptr;

  bool load(void* library) {
    return load(library, "cublasLtCreate", create) && load(library, "cublasLtDestroy", destroy) &&
           load(library, "cublasLtMatmulDescCreate", create_operation) &&
           load(library, "cublasLtMatmulDescDestroy", destroy_operation) &&
           load(library, "cublasLtMatmulDescSetAttribute", set_operation) &&
           load(library, "cublasLtMatrixLayoutCreate", create_layout) &&
           load(library, "cublasLtMatrixLayoutDestroy", destroy_layout) &&
           load(library, "cublasLtMatmulPreferenceCreate", create_preference) &&
           load(library, "cublasLtMatmulPreferenceDestroy", destroy_preference) &&
           load(library, "cublasLtMatmulPreferenceSetAttribute", set_preference) &&
           load(library, "cublasLtMatrixLayoutSetAttribute", set_layout) &&
           load(library, "cublasLtMatmulAlgoGetHeuristic", choose) &&
           load(library, "cublasLtMatmulAlgoCheck", check) &&
           load(library, "cublasLtMatmul", multiply);
  }

 private:
  template <class Function>
  static bool load(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    return function != nullptr;
  }
};

// Everything that cublasLtMatmul takes beside pointers. cuBLAS counts column-major: it computes
// out^T [outputs][rows] = weights input^T.
class Plan {
 public:
  explicit Plan(const Functions& functions) : functions_(functions) {}
  ~Plan() {
    if (operation_ != nullptr) functions_.destroy_operation(operation_);
    for (cublasLtMatrixLayout_t layout : {weights_, input_, out_}) {
      if (layout != nullptr) functions_.destroy_layout(layout);
    }
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  // Layouts for call's shape with `rows` rows.
  cublasStatus_t make(const LibraryCall& call, int rows) {
    const auto n = static_cast<std::uint64_t>(call.outputs);
    const auto k = static_cast<std::uint64_t>(call.columns);
    const auto m = static_cast<std::uint64_t>(rows);
    const cublasOperation_t transposed = CUBLAS_OP_T;
    cublasStatus_t status =
        functions_.create_operation(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    if (status == 0) {
      status = functions_.set_operation(operation_, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                        sizeof transposed);
    }
    if (status == 0) {
      status = functions_.create_layout(&weights_, CUDA_R_16BF, k, n, call.weight_stride);
    }
    if (status == 0) status = functions_.create_layout(&input_, CUDA_R_16BF, k, m, call.columns);
    if (status == 0) {
      status = functions_.create_layout(&out_, call.out_float ? CUDA_R_32F : CUDA_R_16BF, n, m,
                                        call.out_stride);
    }
    if (status != 0 || call.second == 0) return status;
    for (auto [layout, stride] :
         {std::pair{weights_, call.second}, {input_, std::int64_t{0}}, {out_, call.outputs}}) {
      const std::int32_t matrices = 2;
      status = functions_.set_layout(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &matrices,
                                     sizeof matrices);
      if (status == 0) status = set_stride(layout, stride);
      if (status != 0) return status;
    }
    return status;
  }

  // The library's first choice of an algorithm.
  cublasStatus_t choose(cublasLtHandle_t handle, std::size_t workspace_bytes) {
    cublasLtMatmulPreference_t preference = nullptr;
    cublasStatus_t status = functions_.create_preference(&preference);
    if (status != 0) return status;
    status = functions_.set_preference(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                       &workspace_bytes, sizeof workspace_bytes);
    cublasLtMatmulHeuristicResult_t result{};
    int count = 0;
    if (status == 0) {
      status = functions_.choose(handle, operation_, weights_, input_, out_, out_, preference, 1,
                                 &result, &count);
    }
    functions_.destroy_preference(preference);
    if (status == 0 && count == 0) status = CUBLAS_STATUS_NOT_SUPPORTED;
    algorithm_ = result.algo;
    return status;
  }
  // Another plan's algorithm; false if it does not suit.
  bool take(cublasLtHandle_t handle, const cublasLtMatmulAlgo_t& algorithm,
            std::size_t workspace_bytes) {
    cublasLtMatmulHeuristicResult_t result{};
    algorithm_ = algorithm;
    return functions_.check(handle, operation_, weights_, input_, out_, out_, &algorithm_,
                            &result) == 0 &&
           result.state == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= workspace_bytes;
  }
  const cublasLtMatmulAlgo_t& algorithm() const { return algorithm_; }

  cublasStatus_t run(cublasLtHandle_t handle, const Launch& launch, const LibraryCall& call) const {
    if (call.second != 0) {
      const cublasStatus_t status = set_stride(weights_, call.second);
      if (status != 0) return status;
    }
    const float beta = call.adds ? 1.0f : 0.0f;
    return functions_.multiply(handle, operation_, &call.scale, call.weights, weights_, call.input,
                               input_, &beta, call.out, out_, call.out, out_, &algorithm_,
                               call.workspace, call.workspace_bytes, launch.stream);
  }

 private:
  cublasStatus_t set_stride(cublasLtMatrixLayout_t layout, std::int64_t elements) const {
    return functions_.set_layout(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &elements,
                                 sizeof elements);
  }

  const Functions& functions_;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t weights_ = nullptr, input_ = nullptr, out_ = nullptr;
  cublasLtMatmulAlgo_t algorithm_{};
};

// Numbers of rows up to the same eighth of a power of two share an algorithm.
int like_rows(int rows) {
  const int step = std::max(8, static_cast<int>(std::bit_ceil(static_cast<unsigned>(rows))) / 8);
  return (rows + step - 1) / step * step;
}

constexpr std::size_t kMostPlans = 4096;  // a model has few shapes, but prompts many lengths

class CublasProducts final : public LibraryProducts {
 public:
  static std::unique_ptr<LibraryProducts> open() {
    auto products = std::make_unique<CublasProducts>();
    for (const char* name : {"libcublasLt.so.13", "libcublasLt.so.12"}) {
      products->library_.reset(dlopen(name, RTLD_NOW | RTLD_LOCAL));
      if (products->library_ && products->functions_.load(products->library_.get())) break;
      products->library_.reset();
    }
    if (!products->library_ || products->functions_.create(&products->handle_) != 0) return nullptr;
    return products;
  }
  ~CublasProducts() override {
    plans_.clear();
    if (handle_ != nullptr) functions_.destroy(handle_);
  }

  Status multiply(const Launch& launch, const LibraryCall& call) override {
    const Key key = key_of(call, call.rows);
    if (plans_.size() >= kMostPlans) plans_.clear();
    std::unique_ptr<Plan>& plan = plans_[key];
    if (!plan) {
      auto made = std::make_unique<Plan>(functions_);
      if (Status status = status_of(make(*made, call), call); !status) return status;
      plan = std::move(made);
    }
    return status_of(plan->run(handle_, launch, call), call);
  }

 private:
  using Key = std::tuple<int, bool, std::int64_t, std::int64_t, std::int64_t, bool, std::int64_t>;

  static Key key_of(const LibraryCall& call, int rows) {
    return {rows,           call.second != 0, call.outputs, call.columns, call.weight_stride,
            call.out_float, call.out_stride};
  }

  cublasStatus_t make(Plan& plan, const LibraryCall& call) {
    cublasStatus_t status = plan.make(call, call.rows);
    if (status != 0) return status;
    const int like = like_rows(call.rows);
    auto& algorithm = algorithms_[key_of(call, like)];
    if (!algorithm && like != call.rows) {
      Plan model(functions_);
      if (model.make(call, like) == 0 && model.choose(handle_, call.workspace_bytes) == 0) {
        algorithm = model.algorithm();
      }
    }
    if (algorithm && plan.take(handle_, *algorithm, call.workspace_bytes)) return status;
    status = plan.choose(handle_, call.workspace_bytes);
    if (status == 0 && !algorithm) algorithm = plan.algorithm();
    return status;
  }

  static Status status_of(cublasStatus_t code, const LibraryCall& call) {
    if (code == CUBLAS_STATUS_SUCCESS) return {};
    return error(StatusCode::device_error, "cuBLASLt: status {} for {} x {} x {}",
                 static_cast<int>(code), call.rows, call.outputs, call.columns);
  }

  Library library_;
  Functions functions_;
  cublasLtHandle_t handle_ = nullptr;
  std::map<Key, std::unique_ptr<Plan>> plans_;
  std::map<Key, std::optional<cublasLtMatmulAlgo_t>> algorithms_;  // rows: as of like_rows
};

}  // namespace

std::unique_ptr<LibraryProducts> LibraryProducts::open() {
  return CublasProducts::open();
}

}  // namespace quire::cuda
