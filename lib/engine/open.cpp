#include <cmath>

#include "base/error.h"
#include "base/hash.h"
#include "engine/engine_impl.h"
#include "model/architecture.h"

namespace quire {
namespace {

// Sampling defaults of the model's generation_config, where its values make sense.
SamplingParams generation_defaults(const format::ModelFiles& files) {
  SamplingParams defaults;
  const Json* config = files.generation_config();
  if (!config) return defaults;
  auto real = [&](const char* name) -> std::optional<float> {
    const Json* value = config->find(name);
    if (!value || !value->is_number() || !std::isfinite(value->number())) return std::nullopt;
    return static_cast<float>(value->number());
  };
  const Json* sample = config->find("do_sample");
  const bool greedy = sample && sample->boolean() && !*sample->boolean();
  if (auto v = real("temperature"); v && *v >= 0 && !greedy) defaults.temperature = *v;
  if (greedy) defaults.temperature = 0.0f;
  if (auto v = real("top_p"); v && *v > 0 && *v <= 1) defaults.top_p = *v;
  if (auto v = real("min_p"); v && *v >= 0 && *v <= 1) defaults.min_p = *v;
  if (auto v = real("top_k"); v && *v >= 0 && *v < 1e9f) defaults.top_k = static_cast<int>(*v);
  if (auto v = real("repetition_penalty"); v && *v > 0) defaults.repetition_penalty = *v;
  return defaults;
}

// What distinguishes cached pages of this engine from those of any other model or KV layout.
std::string cache_namespace(const model::ModelConfig& config, const MemoryPlan& memory) {
  return fmt::format("{}/{}x{}/v{}/kv{}", config.architecture, config.layers.size(), config.width,
                     config.vocabulary, static_cast<int>(memory.limits.kv_type));
}

struct OpenedModel {
  format::ModelFiles files;
  model::ModelConfig config;
  std::unique_ptr<Device> device;
  MemoryPlan memory;
};

Result<OpenedModel> open_and_plan(const ModelSource& source, const EngineOptions& options) {
  const CallbackModel* callback = source.callback();
  if (callback && options.memory_bytes > 0 && callback->size > options.memory_bytes) {
    return error(StatusCode::resource_exhausted,
                 "memory_bytes {} is too small: a model of {} bytes is read through a callback",
                 options.memory_bytes, callback->size);
  }
  auto files = format::ModelFiles::open(source);
  if (!files) return files.status();
  auto config = model::configure(*files);
  if (!config) return config.status();
  auto device = open_device(options);
  if (!device) return device.status();
  const std::size_t owned = callback ? static_cast<std::size_t>(callback->size) : 0;
  auto memory = plan_memory(*files, *config, **device, options, owned);
  if (!memory) return memory.status();
  return OpenedModel{std::move(*files), std::move(*config), std::move(*device), std::move(*memory)};
}

}  // namespace

Result<std::unique_ptr<Engine::Impl>> Engine::Impl::open(const ModelSource& source,
                                                         const EngineOptions& options) {
  const auto started = Clock::now();
  auto opened = open_and_plan(source, options);
  if (!opened) return opened.status();
  auto impl = std::make_unique<Impl>(options);
  impl->files.emplace(std::move(opened->files));
  const std::string name = impl->files->name();
  impl->memory = opened->memory;
  impl->device = std::move(opened->device);

  auto text = Tokenizer::Impl::create(*impl->files);
  if (!text) return text.status();
  impl->text = text->get();
  impl->tokenizer.emplace(Tokenizer(std::move(*text)));
  impl->defaults = generation_defaults(*impl->files);
  if (!impl->text->template_status.ok()) {
    impl->log(LogLevel::warning, impl->text->template_status.message());
  }

  const std::string space = cache_namespace(opened->config, impl->memory);
  auto model = model::load_model(*impl->files, std::move(opened->config), *impl->device,
                                 !options.cpu.copy_weights, options.on_load_progress);
  if (!model) return model.status();
  impl->model = std::move(*model);
  if (options.cpu.copy_weights) impl->files.reset();
  const int tokens = impl->text->tokenizer->vocabulary_size();
  for (int id = tokens; id < impl->model->config.vocabulary; ++id) impl->padding_ids.push_back(id);

  auto decoder = model::Decoder::create(*impl->model, *impl->device, impl->memory.limits);
  if (!decoder) return decoder.status();
  impl->decoder = std::move(*decoder);

  BatcherOptions batching;
  batching.page_size = impl->memory.limits.page_size;
  batching.page_counts = impl->memory.limits.page_counts;
  for (const KvGroupSpec& group : impl->model->config.kv_groups)
    batching.windows.push_back(group.window);
  batching.context = impl->memory.limits.context;
  batching.max_running = options.scheduling.max_running;
  batching.max_step_tokens = options.scheduling.max_step_tokens;
  batching.max_bypasses = options.scheduling.max_bypasses;
  batching.prefix_cache = options.cache.enabled;
  batching.cache_namespace = space;
  impl->batcher.emplace(batching);

  impl->device->rest();
  impl->load_seconds = std::chrono::duration<double>(Clock::now() - started).count();
  impl->log(LogLevel::info,
            fmt::format(
                "{}: {} on {}, {} threads, {:.0f} MB of weights, KV for {} tokens, {:.2f} s", name,
                impl->model->config.architecture, impl->device->name(), impl->device->threads(),
                impl->model->bytes() / 1e6, impl->memory.estimate.max_tokens, impl->load_seconds));
  return impl;
}

Result<Estimate> Engine::estimate(const ModelSource& source, const EngineOptions& options) {
  return guarded("Engine::estimate", [&]() -> Result<Estimate> {
    EngineOptions one_thread = options;
    one_thread.threads = 1;
    auto opened = open_and_plan(source, one_thread);
    if (!opened) return opened.status();
    return opened->memory.estimate;
  });
}

}  // namespace quire
