#include "model/weights.h"

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "model/weight_plan.h"
#include "tensor/blocks.h"

namespace quire::model {
namespace {

Result<std::unique_ptr<DeviceBuffer>> load_vector(const VectorItem& item, Device& device) {
  const auto n = static_cast<std::size_t>(item.stored.elements());
  auto buffer = device.allocate(n * sizeof(float));
  if (!buffer) return buffer;
  std::vector<float> stored(n);
  dequantise(item.stored.type, item.stored.bytes.data(), item.stored.elements(), stored.data());
  for (float& value : stored) value += item.offset;
  if (item.unpermute_heads > 0) {
    const std::size_t heads = static_cast<std::size_t>(item.unpermute_heads), d = n / heads;
    std::vector<float> ordered(n);
    for (std::size_t h = 0; h < heads; ++h) {
      for (std::size_t i = 0; i < d; ++i)
        ordered[h * d + (i % 2) * (d / 2) + i / 2] = stored[h * d + i];
    }
    stored.swap(ordered);
  }
  Status written = device.write((*buffer)->data(), stored.data(), n * sizeof(float));
  if (!written.ok()) return written;
  return buffer;
}

}  // namespace

std::size_t Model::bytes() const {
  std::size_t total = 0;
  auto add = [&](const Linear& linear) { total += linear.weight ? linear.weight->bytes() : 0; };
  add(embedding);
  add(own_head);
  for (const LayerWeights& layer : layers) {
    for (const Linear* l : {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up,
                            &layer.down, &layer.router}) {
      add(*l);
    }
    for (const auto* experts : {&layer.expert_gate, &layer.expert_up, &layer.expert_down}) {
      for (const Linear& l : *experts) add(l);
    }
  }
  for (const auto& buffer : vectors) total += buffer->size();
  return total;
}

Result<std::unique_ptr<Model>> load_model(const format::ModelFiles& files, ModelConfig config,
                                          Device& device, bool keep_pages,
                                          const std::function<bool(double)>& progress) {
  auto model = std::make_unique<Model>();
  model->config = std::move(config);
  auto plan = plan_weights(files, *model);
  if (!plan) return plan.status();

  for (const VectorItem& item : plan->vectors) {
    auto buffer = load_vector(item, device);
    if (!buffer) return buffer.status();
    *item.to = reinterpret_cast<const float*>((*buffer)->data());
    model->vectors.push_back(std::move(*buffer));
  }
  double total = 0, done = 0;
  for (const MatrixItem& item : plan->matrices)
    total += static_cast<double>(item.stored.bytes.size());
  for (const MatrixItem& item : plan->matrices) {
    if (progress && !progress(total > 0 ? done / total : 0)) {
      return Status(StatusCode::cancelled,
                    files.name() + ": loading was stopped by on_load_progress");
    }
    auto packed = device.pack(item.stored, item.spec);
    if (!packed) return packed.status();
    item.to->weight = std::move(*packed);
    if (files.mapped() && !keep_pages) MappedFile::release(item.stored.bytes);
    done += static_cast<double>(item.stored.bytes.size());
  }
  if (progress && !progress(1)) {
    return Status(StatusCode::cancelled,
                  files.name() + ": loading was stopped by on_load_progress");
  }
  return model;
}

Result<WeightBytes> weight_bytes(const format::ModelFiles& files, const ModelConfig& config,
                                 const Device& device) {
  Model model;
  model.config = config;
  auto plan = plan_weights(files, model);
  if (!plan) return plan.status();
  WeightBytes bytes;
  CheckedSize total;
  for (const MatrixItem& item : plan->matrices) {
    total +=
        device.packed_bytes(item.stored.type, item.stored.rows(), item.stored.columns(), item.spec);
    bytes.largest_item = std::max(bytes.largest_item, item.stored.bytes.size());
  }
  for (const VectorItem& item : plan->vectors) {
    total += round_up<std::uint64_t>(
        static_cast<std::uint64_t>(item.stored.elements()) * sizeof(float), 64);
  }
  auto sum = total.get();
  if (!sum)
    return error(StatusCode::resource_exhausted, "{}: weights do not fit the address space",
                 files.name());
  bytes.resident = *sum;
  return bytes;
}

}  // namespace quire::model
