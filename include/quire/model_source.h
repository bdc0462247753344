#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <variant>

#include <quire/export.h>

namespace quire {

// A model in memory; the bytes must live until `Engine::open` has returned, and for as long as the
// engine when EngineOptions::cpu.copy_weights is false.
struct MemoryModel {
  std::span<const std::byte> bytes;
};

// A model behind a function, for encrypted or packed files. `read` fills `into` from `offset` and
// returns false when it cannot; it is called only inside `Engine::open`, from one thread at a time.
struct CallbackModel {
  std::uint64_t size = 0;  // bytes
  std::function<bool(std::uint64_t offset, std::span<std::byte> into)> read;
};

// Where a model comes from: a path (a GGUF file, the first file of a split GGUF, or a Hugging Face
// folder), a GGUF in memory, or a GGUF behind a read callback.
class QUIRE_EXPORT ModelSource {
 public:
  ModelSource(std::string path) : source_(std::move(path)) {}    // NOLINT: implicit by design
  ModelSource(const char* path) : source_(std::string(path)) {}  // NOLINT: implicit by design
  ModelSource(MemoryModel memory) : source_(memory) {}           // NOLINT: implicit by design
  ModelSource(CallbackModel callback)                            // NOLINT: implicit by design
      : source_(std::move(callback)) {}

  const std::string* path() const { return std::get_if<std::string>(&source_); }
  const MemoryModel* memory() const { return std::get_if<MemoryModel>(&source_); }
  const CallbackModel* callback() const { return std::get_if<CallbackModel>(&source_); }

 private:
  std::variant<std::string, MemoryModel, CallbackModel> source_;
};

}  // namespace quire
