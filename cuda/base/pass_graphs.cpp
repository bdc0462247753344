#include "base/pass_graphs.h"

#include <algorithm>

#include "base/launch.h"

namespace quire::cuda {
namespace {

// Passes of a shape before it is recorded: the first ones also load kernels and choose plans, and
// recording takes some milliseconds.
constexpr int kPassesBefore = 3;
constexpr std::size_t kMostShapes = 128;

}  // namespace

PassGraphs::Graph PassGraphs::end_recording(cudaStream_t stream, Status& status) {
  cudaGraph_t graph = nullptr;
  status = status_of(cudaStreamEndCapture(stream, &graph), "recording a pass");
  return Graph(graph);
}

PassGraphs::Entry& PassGraphs::entry_of(const PassShape& shape) {
  if (entries_.size() >= kMostShapes && entries_.count(shape) == 0) {
    entries_.erase(std::min_element(entries_.begin(), entries_.end(), [](auto& a, auto& b) {
      return a.second.used < b.second.used;
    }));
  }
  Entry& entry = entries_[shape];
  entry.used = ++clock_;
  return entry;
}

void PassGraphs::begin(cudaStream_t stream, const std::optional<PassShape>& shape) {
  if (state_ == State::recording) {
    Status ignored;
    end_recording(stream, ignored);
  }
  state_ = State::direct;
  if (!shape || failed_) return;
  shape_ = *shape;
  state_ = State::begun;
}

Result<bool> PassGraphs::enter(cudaStream_t stream) {
  if (state_ != State::begun) return state_ == State::queued;
  state_ = State::direct;
  Entry& entry = entry_of(shape_);
  if (entry.graph) {
    Status status = status_of(cudaGraphLaunch(entry.graph.get(), stream), "a recorded pass");
    if (!status.ok()) return status;
    state_ = State::queued;
    return true;
  }
  if (++entry.passes <= kPassesBefore) return false;
  Status status = status_of(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
                            "recording a pass");
  if (!status.ok()) return status;
  state_ = State::recording;
  return false;
}

Status PassGraphs::leave(cudaStream_t stream) {
  const State state = state_;
  state_ = State::direct;
  if (state != State::recording) return {};
  Status status;
  const Graph graph = end_recording(stream, status);
  cudaGraphExec_t exec = nullptr;
  if (status.ok()) {
    status = status_of(cudaGraphInstantiate(&exec, graph.get(), 0), "recording a pass");
  }
  if (status.ok()) {
    Entry& entry = entry_of(shape_);
    entry.graph.reset(exec);
    status = status_of(cudaGraphLaunch(exec, stream), "a recorded pass");
  }
  failed_ = !status.ok();
  return status;
}

}  // namespace quire::cuda
