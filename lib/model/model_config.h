#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "device/kv_cache.h"
#include "device/model_ops.h"

namespace quire::model {

// Frequencies of one RoPE variant of a model. Position p rotates pair i by p *
// inverse_frequency[i].
struct RopeTable {
  std::vector<float> inverse_frequency;  // [dimensions / 2]; the only or the short factors
  std::vector<float>
      long_inverse_frequency;  // same size where the model has long factors, else empty
  float magnitude = 1;         // cosine and sine are multiplied by it
  float long_magnitude = 1;
  int dimensions() const { return static_cast<int>(2 * inverse_frequency.size()); }
};

// What one layer computes; see AttentionInputArgs and MlpSpec for the meaning.
struct LayerSpec {
  int window = 0;  // 0: all tokens
  int rope = 0;    // index into ModelConfig::ropes; -1: no rotation
  int heads = 0;
  int kv_heads = 0;
  int head_size = 0;
  float query_scale = 0;
  float attention_soft_cap = 0;
  QkNorm qk_norm = QkNorm::none;
  bool sinks = false;
  int ff = 0;
  Activation activation = Activation::silu;
  int experts = 0;  // 0: dense
  int experts_used = 0;
  bool renormalise_experts = true;
  int kv_group = 0;  // filled in by finish_config
  int kv_layer = 0;  // index inside the group, likewise
};

// A tensor's name in GGUF and in Hugging Face files; "{}" is the layer, a second "{}" the expert.
// An empty name: the format does not have it under that role.
struct TensorName {
  std::string_view gguf;
  std::string_view hf;
};

// Names of a layer's tensors without ".weight" and ".bias". Both names empty: the layer does
// without.
struct LayerNames {
  TensorName attention_norm{"blk.{}.attn_norm", "model.layers.{}.input_layernorm"};
  TensorName q{"blk.{}.attn_q", "model.layers.{}.self_attn.q_proj"};
  TensorName k{"blk.{}.attn_k", "model.layers.{}.self_attn.k_proj"};
  TensorName v{"blk.{}.attn_v", "model.layers.{}.self_attn.v_proj"};
  TensorName qkv;  // rows of q, then k, then v; if set, the three above are not used
  TensorName o{"blk.{}.attn_output", "model.layers.{}.self_attn.o_proj"};
  TensorName q_norm{"blk.{}.attn_q_norm", "model.layers.{}.self_attn.q_norm"};
  TensorName k_norm{"blk.{}.attn_k_norm", "model.layers.{}.self_attn.k_norm"};
  TensorName sinks{"blk.{}.attn_sinks.weight", "model.layers.{}.self_attn.sinks"};
  TensorName post_attention_norm;
  TensorName mlp_norm{"blk.{}.ffn_norm", "model.layers.{}.post_attention_layernorm"};
  TensorName gate{"blk.{}.ffn_gate", "model.layers.{}.mlp.gate_proj"};
  TensorName up{"blk.{}.ffn_up", "model.layers.{}.mlp.up_proj"};
  TensorName gate_up;  // rows of gate, then up; if set, the two above are not used
  TensorName down{"blk.{}.ffn_down", "model.layers.{}.mlp.down_proj"};
  TensorName post_mlp_norm;
  TensorName router{"blk.{}.ffn_gate_inp", "model.layers.{}.mlp.gate"};
  // Experts: stacked [experts][rows][columns] in GGUF, a tensor each in Hugging Face files.
  TensorName expert_gate{"blk.{}.ffn_gate_exps", "model.layers.{}.mlp.experts.{}.gate_proj"};
  TensorName expert_up{"blk.{}.ffn_up_exps", "model.layers.{}.mlp.experts.{}.up_proj"};
  TensorName expert_down{"blk.{}.ffn_down_exps", "model.layers.{}.mlp.experts.{}.down_proj"};
};

// Everything that distinguishes one model from another, as data. Made by the file of its
// architecture in architectures/; shapes are checked against the weights when they are loaded.
struct ModelConfig {
  std::string architecture;
  int width = 0;             // of the residual stream
  int vocabulary = 0;        // rows of the head
  int context = 0;           // most tokens of a sequence
  int original_context = 0;  // above it the long RoPE factors are taken; 0: there are none
  float epsilon = 0;         // of all norms
  float embedding_scale = 1;
  float residual_scale = 1;
  float logit_scale = 1;  // logits are multiplied by it
  float logit_soft_cap = 0;
  float norm_offset = 0;     // added to every stored norm weight (1 in Gemma's Hugging Face files)
  bool permuted_qk = false;  // rows of Q and K stand in the order of GGUF's converter
  bool require_qkv_bias = false;
  std::vector<RopeTable> ropes;
  std::vector<LayerSpec> layers;
  LayerNames names;
  TensorName embedding{"token_embd", "model.embed_tokens"};
  TensorName final_norm{"output_norm", "model.norm"};
  TensorName head{"output", "lm_head"};
  std::vector<KvGroupSpec> kv_groups;  // filled in by finish_config

  bool has_long_rope() const { return original_context > 0; }
};

}  // namespace quire::model
