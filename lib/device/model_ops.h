#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <quire/status.h>

#include "device/kv_cache.h"
#include "device/packed_matrix.h"
#include "sampling/draw.h"

namespace quire {

class Device;

// Argument structs of the model operations. "row" is a token of the pass. Pointers are to device
// memory, arrays row-major, and do not alias unless said; spans are host memory. float means
// float32, void an element type of the device's own (Device::activation_bytes), or whatever the
// next operation wants of the array in a place of the device's own. Every result of a row depends
// only on that row's own inputs: its bits do not change with the number of rows, threads or pages.

enum class Activation { silu, gelu_tanh, swiglu_clamped };  // the last: gpt-oss's

// x * rsqrt(mean(x^2) + epsilon) * weight. A null weight means no norm at all: the input as it is.
struct RmsNorm {
  const float* weight = nullptr;  // [width]
  float epsilon = 0;
};

// The rotations of one RoPE table: cosine[row][i] = magnitude * cos(position * frequency[i]), sine
// likewise, with the row's choice of frequencies.
struct RotationArgs {
  int dimensions = 0;              // even
  const float* frequency[2] = {};  // [dimensions / 2]: the short (or only) ones, the long ones
  float magnitude[2] = {1, 1};     // of either
  float* cosine = nullptr;         // out [rows][dimensions / 2]
  float* sine = nullptr;           // same shape
};

// What a pass computes. The first operation of every pass; the arrays that it names stay as they
// are until `end_pass`, or until `sample` leaves draws to be awaited, so that later operations may
// refer to a copy of them.
struct BeginPassArgs {
  std::span<const std::int32_t> tokens;        // [rows]
  std::span<const std::int32_t> positions;     // [rows]
  std::span<const std::int32_t> rope_choices;  // [rows]: 1 takes a table's long frequencies
  // [rows] or empty: row i's token is what draw token_draws[i] of the awaited draws chooses; its
  // entry in `tokens` says nothing.
  std::span<const std::int32_t> token_draws;
  std::uint64_t awaited = 0;                // 0: none; what was awaited till now is forgotten
  std::span<const RotationArgs> rotations;  // computed here
  std::span<const std::vector<SequenceRows>>
      groups;                                // [KV group]: the sequences, covering all rows
  std::span<const std::int32_t> logit_rows;  // rows whose logits are wanted, ascending
  std::span<const PageCopy> copies;          // those of copy_pages
};

// Row i of the output = scale * row tokens[i] of the table.
struct EmbedArgs {
  std::span<const std::int32_t> tokens;  // [rows]: those of the pass
  const PackedMatrix* table = nullptr;   // [vocabulary][width], packed with `gather`
  float scale = 1;
  float* hidden = nullptr;  // out [rows][width]
};

// Where each row's rotation comes from: halves are rotated (element i with i + dimensions / 2), the
// elements from `dimensions` on are left alone.
struct RopeRows {
  int dimensions = 0;             // even; 0: no rotation in this layer
  const float* cosine = nullptr;  // [rows][dimensions / 2], attention factor included
  const float* sine = nullptr;    // same shape
};

// Normalisation of Q and K after their projection.
enum class QkNorm { none, per_head, whole };  // whole: over all heads of the projection together

struct AttentionInputArgs {
  int rows = 0;
  int width = 0;                  // of the residual stream
  const float* hidden = nullptr;  // [rows][width]
  RmsNorm norm;
  const Linear* q = nullptr;  // [heads * head_size][width]
  const Linear* k = nullptr;  // [kv_heads * head_size][width]; null: K and V are another layer's
  const Linear* v = nullptr;
  int heads = 0;
  QkNorm qk_norm = QkNorm::none;
  RmsNorm q_norm, k_norm;  // weight [head_size], or of the whole projection
  RopeRows rope;
  void* query = nullptr;                    // out [rows][heads][head_size]
  KvLayer kv;                               // K and V of each row are written to its page
  std::span<const SequenceRows> sequences;  // cover all rows
  int group = 0;                            // `sequences` is groups[group] of the pass
};

struct PagedAttentionArgs {
  std::span<const SequenceRows> sequences;  // cover all rows
  int group = 0;                            // `sequences` is groups[group] of the pass
  int heads = 0;                            // a multiple of kv.kv_heads
  const void* query = nullptr;              // [rows][heads][head_size]
  KvLayer kv;
  int window = 0;                // a key at distance d is seen if d < window; 0: all before
  float scale = 1;               // of query . key
  float soft_cap = 0;            // c * tanh(score / c) if > 0
  const float* sinks = nullptr;  // [heads]: a logit that takes part in the softmax, or null
  void* output = nullptr;        // [rows][heads][head_size]
};

// hidden += residual_scale * post_norm(W input + b).
struct AttentionOutputArgs {
  int rows = 0;
  int width = 0;
  const void* input = nullptr;  // [rows][in]
  const Linear* o = nullptr;    // [width][in]
  RmsNorm post_norm;
  float residual_scale = 1;
  float* hidden = nullptr;  // [rows][width], updated
};

// A mixture of experts: the router picks top_k experts by logit; their weights are a softmax over
// the chosen logits (renormalise) or over all of them.
struct MixtureSpec {
  int experts = 0;  // 0: dense
  int top_k = 0;
  bool renormalise = true;
  const Linear* router = nullptr;  // [experts][width]
  const Linear* gate = nullptr;    // experts of them, each [ff][width]
  const Linear* up = nullptr;
  const Linear* down = nullptr;  // each [width][ff]
};

struct MlpSpec {
  const Linear* gate = nullptr;  // [ff][width]
  const Linear* up = nullptr;    // [ff][width]
  const Linear* down = nullptr;  // [width][ff]
  int ff = 0;                    // inner width (of one expert)
  Activation activation = Activation::silu;
  MixtureSpec mixture;
};

// inner = activation(gate(norm(hidden))) * up(norm(hidden)); for a mixture, of each chosen expert.
struct MlpInputArgs {
  int rows = 0;
  int width = 0;
  const float* hidden = nullptr;  // [rows][width]
  RmsNorm norm;
  const MlpSpec* mlp = nullptr;
  void* inner = nullptr;           // out [rows][ff], or [rows][top_k][ff]
  std::int32_t* chosen = nullptr;  // out [rows][top_k] experts, for a mixture
  float* weights = nullptr;        // out [rows][top_k] their weights
};

// hidden += residual_scale * post_norm(down(inner)), or the weighted sum over chosen experts.
struct MlpOutputArgs {
  int rows = 0;
  int width = 0;
  const void* inner = nullptr;
  const std::int32_t* chosen = nullptr;
  const float* weights = nullptr;
  const MlpSpec* mlp = nullptr;
  RmsNorm post_norm;
  float residual_scale = 1;
  float* hidden = nullptr;  // [rows][width], updated
};

// output row i = norm(hidden row rows[i]).
struct FinalNormArgs {
  std::span<const std::int32_t> rows;
  int width = 0;
  const float* hidden = nullptr;  // [pass rows][width]
  RmsNorm norm;
  void* output = nullptr;  // [rows.size()][width]
  int first = 0;           // `rows` are logit_rows[first ...] of the pass
};

// Columns [first, first + count) of logits = soft_cap(scale * W x): a block of the vocabulary.
struct HeadArgs {
  int rows = 0;
  int width = 0;
  const void* input = nullptr;   // [rows][width]
  const Linear* head = nullptr;  // [vocabulary][width]
  std::int64_t first = 0;        // a multiple of 64
  std::int64_t count = 0;
  float scale = 1;
  float soft_cap = 0;
  float* logits = nullptr;  // [rows][vocabulary]
};

// Draws tokens and computes log-probabilities; see sampling/draw.h. The results are there when the
// operation returns; or, if `awaited` is given and comes back as another number than 0, when
// await_draws has brought them. At most two passes can have awaited draws.
struct SampleArgs {
  std::span<const DrawArgs> draws;
  std::span<DrawResult> results;     // one for each draw
  std::uint64_t* awaited = nullptr;  // out
};

enum class DrawsState {
  ready,
  computing,
  lost,  // a draw needs what the device does not keep: the pass has to be computed again
};

// Results of draws that are awaited, the earlier ones first.
struct AwaitDrawsArgs {
  std::uint64_t awaited = 0;
  std::span<DrawResult> results;  // one for each draw of that SampleArgs, when ready
  bool wait = true;               // else the state may be `computing`
  DrawsState* state = nullptr;    // out
};

// Copies inside the page pool of each group: copies[i].group indexes `groups`.
struct CopyPagesArgs {
  std::span<const PageCopy> copies;
  std::span<const KvLayer> groups;  // layer 0 of each group: base, page_bytes, shape
  std::span<const KvGroupSpec> specs;
};

// Waits until everything of the pass is computed. Not for passes of which draws are awaited.
struct EndPassArgs {};

// One operation of a backend. It has no default, so a table that forgets one does not compile.
template <class Args>
class Operation {
 public:
  using Function = Status (*)(Device&, const Args&);
  explicit constexpr Operation(Function function) : function_(function) {}
  Status operator()(Device& device, const Args& args) const { return function_(device, args); }

 private:
  Function function_;
};

// What a backend computes. Each may use all of the device's threads and returns when it is done
// (or, on a GPU, queued). Errors: device_error, out_of_memory, internal.
struct ModelOps {
  Operation<BeginPassArgs> begin_pass;
  Operation<EmbedArgs> embed;
  Operation<AttentionInputArgs> attention_input;
  Operation<PagedAttentionArgs> paged_attention;
  Operation<AttentionOutputArgs> attention_output;
  Operation<MlpInputArgs> mlp_input;
  Operation<MlpOutputArgs> mlp_output;
  Operation<FinalNormArgs> final_norm;
  Operation<HeadArgs> head;
  Operation<SampleArgs> sample;
  Operation<AwaitDrawsArgs> await_draws;
  Operation<CopyPagesArgs> copy_pages;
  Operation<EndPassArgs> end_pass;
};

}  // namespace quire
