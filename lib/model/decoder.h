#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <quire/status.h>

#include "batching/plan.h"
#include "device/device.h"
#include "model/weights.h"

namespace quire::model {

struct DecoderLimits {
  int rows = 0;        // tokens of a pass
  int sequences = 0;   // of a pass
  int logit_rows = 0;  // rows whose logits are held at once
  int context = 0;     // tokens of a sequence
  int page_size = 0;
  std::vector<int> page_counts;  // of each KV group
  KvType kv_type = KvType::f16;
};

// Which row's logits a draw reads, and the draw itself (its `logits` is filled in by the decoder).
struct RowDraw {
  int row = 0;  // of the pass; ascending over the list
  DrawArgs args;
};

// Computes passes of one model: the loop over layers, written once for every device. Resumable:
// each call of `run_operation` computes one operation, so that a caller can stop between any two.
class Decoder {
 public:
  // Allocates the KV pools and the activations, and reserves the device's scratch memory.
  static Result<std::unique_ptr<Decoder>> create(const Model& model, Device& device,
                                                 const DecoderLimits& limits);

  ~Decoder();
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  // Bytes that create would allocate: activations and logits, without KV and the device's scratch.
  static std::size_t activation_bytes(const ModelConfig& config, const DecoderLimits& limits,
                                      const Device& device);
  static WorkLimits work_limits(const ModelConfig& config, const DecoderLimits& limits);
  // Bytes of one page of a group: all of its layers.
  static std::size_t page_bytes(const KvGroupSpec& group, const Device& device, KvType type,
                                int page_size);

  // Starts a pass. The plan and what the draws point to must live until it has no more operations.
  // `awaits`: the device may leave the results of the draws to `await`.
  enum class Awaits { no, yes };
  Status begin(const Plan& plan, std::vector<RowDraw> draws, Awaits awaits);
  // Starts a pass that was planned ahead, on top of one without operations left whose draws are
  // awaited.
  Status begin_ahead(const Plan& plan, std::vector<RowDraw> draws);
  // Whether the pass begun last has operations left.
  bool has_operations() const { return stage_ != Stage::idle; }
  // Computes the next operation; on failure that pass is over.
  Status run_operation();
  // Whether the draws of a pass without operations left are awaited.
  bool is_awaited() const { return earlier_.number != 0 || own_.number != 0; }
  // Whether the last pass was begun ahead of one whose draws are awaited still.
  bool is_ahead() const { return earlier_.number != 0; }
  // When ready: a result for each draw of the earliest pass that is awaited. With `lost`, and on
  // failure, no pass is left.
  Status await(bool wait, DrawsState& state, std::vector<DrawResult>& results);
  // The same of the pass begun last, if that has no operations left and is not awaited.
  std::vector<DrawResult> take_results() { return std::move(own_.results); }
  // Forgets the pass begun last, but not the one that it was begun ahead of.
  void abandon_last();
  // Forgets every pass.
  void abandon();

 private:
  enum class Stage {
    idle,
    begin_pass,
    copy_pages,
    embed,
    attention_input,
    paged_attention,
    attention_output,
    mlp_input,
    mlp_output,
    final_norm,
    head,
    sample,
    end_pass,
  };

  // Draws of a pass that has no operations left, where the device gives them back later.
  struct AwaitedDraws {
    std::uint64_t number = 0;  // 0: none
    std::vector<DrawResult> results;
  };

  Decoder(const Model& model, Device& device, const DecoderLimits& limits);
  class Memory;
  Status allocate();
  void allocate_activations(Memory& memory);
  void allocate_rotation(Memory& memory, const RopeTable& rope);
  void allocate_pool(Memory& memory, std::size_t index);
  KvLayer kv_layer(const LayerSpec& spec) const;
  RopeRows rope_rows(const LayerSpec& spec) const;

  Status run_begin_pass();
  Status run_attention_input();
  Status run_paged_attention();
  Status run_attention_output();
  Status run_mlp_input();
  Status run_mlp_output();
  Status run_final_norm();
  Status run_head();
  Status run_sample();
  void next_logit_block(std::size_t first_draw);

  const Model& model_;
  Device& device_;
  DecoderLimits limits_;
  std::int64_t head_columns_;  // of one head operation

  // Device memory; shapes for limits_.rows rows.
  std::vector<std::unique_ptr<DeviceBuffer>> buffers_;
  std::vector<KvLayer> groups_;          // layer 0 of each KV group
  float* hidden_ = nullptr;              // [rows][width]
  void* query_ = nullptr;                // [rows][heads * head_size]
  void* attention_ = nullptr;            // same shape
  void* inner_ = nullptr;                // [rows][experts used or 1][ff]
  std::int32_t* chosen_ = nullptr;       // [rows][experts used]
  float* expert_weights_ = nullptr;      // same shape
  void* normed_ = nullptr;               // [logit_rows][width]
  float* logits_ = nullptr;              // [logit_rows][vocabulary]
  std::vector<RotationArgs> rotations_;  // for each RoPE table

  AwaitedDraws earlier_;  // of the pass that the last one was begun ahead of
  AwaitedDraws own_;      // of the last one; not awaited: number 0

  // The pass begun last.
  Stage stage_ = Stage::idle;
  const Plan* plan_ = nullptr;
  Awaits awaits_ = Awaits::no;
  int rows_ = 0;
  int layer_ = 0;
  std::vector<std::vector<SequenceRows>> sequences_;  // [group]
  std::vector<RowDraw> draws_;
  std::vector<std::int32_t> logit_rows_;       // distinct rows of the draws
  std::size_t first_draw_ = 0, end_draw_ = 0;  // of the logit block
  std::size_t first_logit_row_ = 0, end_logit_row_ = 0;
  std::int64_t head_column_ = 0;  // vocabulary computed so far
};

}  // namespace quire::model
