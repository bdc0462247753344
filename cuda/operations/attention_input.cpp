#include "attention/write_kv.h"
#include "base/error.h"
#include "operations/check.h"
#include "operations/kv_view_of.h"
#include "operations/multiply.h"
#include "operations/operations.h"
#include "operations/row_kernels.h"

namespace quire::cuda {
namespace {

// Otherwise the layer reads the keys and values of another one.
bool writes_keys(const AttentionInputArgs& args) {
  return args.k != nullptr && args.k->weight != nullptr;
}

Status check(CudaDevice& device, const AttentionInputArgs& args) {
  constexpr const char* kWhat = "attention_input";
  const CudaScratch& scratch = *device.scratch();
  const std::int64_t q = std::int64_t{args.heads} * args.kv.head_size;
  const std::int64_t kv = std::int64_t{args.kv.kv_heads} * args.kv.head_size;
  if (Status s = check_rows(device, kWhat, args.rows, args.width); !s.ok()) return s;
  if (Status s = check_linear(kWhat, args.q, q, args.width); !s.ok()) return s;
  if (q + 2 * kv > scratch.product_width() || args.rope.dimensions > args.kv.head_size ||
      args.rows != device.scratch()->tables().rows() || args.group < 0 ||
      args.group >= device.scratch()->tables().groups()) {
    return error(StatusCode::internal, "{}: {} and {} heads of {}, {} rows, group {}", kWhat,
                 args.heads, args.kv.kv_heads, args.kv.head_size, args.rows, args.group);
  }
  if (!writes_keys(args)) return {};
  if (Status s = check_linear(kWhat, args.k, kv, args.width); !s.ok()) return s;
  return check_linear(kWhat, args.v, kv, args.width);
}

QkNormKind kind_of(QkNorm norm) {
  switch (norm) {
    case QkNorm::none:
      return QkNormKind::none;
    case QkNorm::per_head:
      return QkNormKind::per_head;
    case QkNorm::whole:
      return QkNormKind::whole;
  }
  return QkNormKind::none;
}

}  // namespace

Status attention_input(CudaDevice& device, const AttentionInputArgs& args) {
  if (Status status = check(device, args); !status.ok()) return status;
  CudaScratch& scratch = *device.scratch();
  const Launch& launch = device.launch();
  Status status =
      norm_rows(launch, args.hidden, nullptr, args.rows, args.width, args.norm, scratch.normed());
  if (!status.ok()) return status;

  const bool writes = writes_keys(args);
  ProductCall product_call = product_of(device, scratch.normed(), args.rows, *args.q);
  product_call.bias[0] = nullptr;  // added below, with the norm and the rotation
  if (writes) {
    product_call.matrices = 3;
    product_call.weights[1] = args.k->weight.get();
    product_call.weights[2] = args.v->weight.get();
    product_call.out_stride += args.k->weight->rows() + args.v->weight->rows();
  }
  product_call.epilogue = Epilogue::store_float;
  product_call.out_float = scratch.product();
  if (status = product(launch, product_call); !status.ok()) return status;

  WriteKvCall call;
  call.rows = args.rows;
  call.heads = args.heads;
  call.projected = scratch.product();
  call.has_kv = writes;
  call.q_bias = args.q->bias;
  if (writes) {
    call.k_bias = args.k->bias;
    call.v_bias = args.v->bias;
  }
  call.norm = kind_of(args.qk_norm);
  call.q_norm = args.q_norm.weight;
  call.k_norm = args.k_norm.weight;
  call.epsilon = args.q_norm.epsilon;
  call.rope_dimensions = args.rope.dimensions;
  call.cosine = args.rope.cosine;
  call.sine = args.rope.sine;
  call.kv = kv_view_of(args.kv);
  call.sequences = scratch.tables().group(args.group);
  call.query = static_cast<__nv_bfloat16*>(args.query);
  return write_kv(launch, call);
}

}  // namespace quire::cuda
