#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include <cuda_runtime_api.h>

#include <quire/status.h>

namespace quire::cuda {

// All that the launches of a pass depend on, beside what is in device memory: two passes of one
// shape queue the same kernels with the same arguments.
struct PassShape {
  int rows = 0;
  int logit_rows = 0;
  int max_keys = 0;  // bound of the keys of a sequence
  std::uint64_t groups_with_prefix = 0, groups_with_long_prefix = 0;  // see PassTables
  auto operator<=>(const PassShape&) const = default;
};

// CUDA graphs of the operations of a pass from `embed` to the last `head`. A shape that has come a
// few times is recorded while its operations queue their work, and from then on queued whole by one
// call, so that the processor is not what a small model waits for. Used by one thread at a time.
class PassGraphs {
 public:
  // A pass begins; without a shape its operations are queued one by one. Drops what a failed pass
  // has left recorded.
  void begin(cudaStream_t stream, const std::optional<PassShape>& shape);

  // Before each operation: whether its work is queued already, with the graph of the pass. The
  // first call of a pass queues the graph or begins to record. Errors: device_error.
  Result<bool> enter(cudaStream_t stream);

  // After the last operation: queues what was recorded. Errors: device_error, out_of_memory; then
  // later passes are not recorded.
  Status leave(cudaStream_t stream);

 private:
  struct GraphDestroy {
    void operator()(cudaGraph_t graph) const { cudaGraphDestroy(graph); }
  };
  struct ExecDestroy {
    void operator()(cudaGraphExec_t graph) const { cudaGraphExecDestroy(graph); }
  };
  using Graph = std::unique_ptr<CUgraph_st, GraphDestroy>;
  using Exec = std::unique_ptr<CUgraphExec_st, ExecDestroy>;
  struct Entry {
    int passes = 0;  // so far
    std::uint64_t used = 0;
    Exec graph;
  };
  enum class State { direct, begun, recording, queued };

  Entry& entry_of(const PassShape& shape);
  static Graph end_recording(cudaStream_t stream, Status& status);

  std::map<PassShape, Entry> entries_;
  std::uint64_t clock_ = 0;
  PassShape shape_;
  State state_ = State::direct;
  bool failed_ = false;
};

}  // namespace quire::cuda
