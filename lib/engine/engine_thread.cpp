#include <quire/engine_thread.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <thread>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "engine/generation_builder.h"

namespace quire {
namespace {

// The events of one request between the engine's thread and its Completion.
struct Channel {
  std::deque<TokenEvent> events;
  std::set<int> ended;      // choices whose last event has been put here
  std::size_t choices = 0;  // n of the request; 0 until `submit` has returned
  bool open() const { return ended.size() < choices; }
  bool closed = false;  // cancelled: nothing is delivered any more
};

// What an EngineThread and its Completions share; it outlives whichever goes first.
struct Mailbox {
  std::mutex mutex;
  std::condition_variable changed;  // an event came, or a channel was closed
  std::condition_variable work;     // for the engine's thread
  std::unordered_map<RequestId, Channel> channels;
  Engine* engine = nullptr;  // null once the thread has ended
  bool stop = false;
  bool swept = true;  // false: a request was cancelled, and one more step frees its pages

  // With the mutex held.
  void put(TokenEvent event) {
    // An event may come before `submit` has returned; none comes after a Completion is dropped,
    // because that cancels the request under the same mutex.
    if (stop) return;  // every request has had its end
    Channel& channel = channels[event.request];
    if (channel.closed) return;
    if (event.finished) channel.ended.insert(event.choice);
    channel.events.push_back(std::move(event));
  }
  void close_all_as_cancelled() {
    for (auto& [id, channel] : channels) {
      if (channel.closed) continue;
      for (std::size_t i = 0; i < channel.choices; ++i) {
        TokenEvent event;
        event.request = id;
        event.choice = static_cast<int>(i);
        event.finished = true;
        event.finish_reason = FinishReason::cancelled;
        if (!channel.ended.insert(event.choice).second) continue;
        if (!channel.open()) event.report.emplace();
        channel.events.push_back(std::move(event));
      }
    }
  }
};

}  // namespace

struct [[gnu::visibility("hidden")]] Completion::Impl {
  std::shared_ptr<Mailbox> mailbox;  // null if the request was refused
  RequestId id = 0;
  std::size_t choices = 1;
  Status status;

  ~Impl() {
    cancel();
    if (!mailbox) return;
    std::lock_guard lock(mailbox->mutex);
    mailbox->channels.erase(id);
  }
  bool cancel() {
    if (!mailbox) return false;
    std::lock_guard lock(mailbox->mutex);
    auto found = mailbox->channels.find(id);
    if (found == mailbox->channels.end() || found->second.closed) return false;
    Channel& channel = found->second;
    const bool live = channel.open() || !channel.events.empty();
    channel.closed = true;
    channel.events.clear();
    if (channel.open() && mailbox->engine) {
      mailbox->engine->cancel(id);
      mailbox->swept = false;
    }
    mailbox->changed.notify_all();
    mailbox->work.notify_all();
    return live;
  }
};

Completion::Completion(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Completion::Completion(Completion&&) noexcept = default;
Completion& Completion::operator=(Completion&&) noexcept = default;
Completion::~Completion() = default;

const Status& Completion::status() const {
  return impl_->status;
}
RequestId Completion::id() const {
  return impl_->id;
}
bool Completion::cancel() {
  return impl_->cancel();
}

std::optional<TokenEvent> Completion::next(std::chrono::nanoseconds wait) {
  if (!impl_->mailbox) return std::nullopt;
  Mailbox& mailbox = *impl_->mailbox;
  std::unique_lock lock(mailbox.mutex);
  Channel& channel = mailbox.channels[impl_->id];
  auto ready = [&] { return channel.closed || !channel.events.empty() || !channel.open(); };
  // A day is as good as for ever, and adding more could overflow the clock.
  mailbox.changed.wait_for(lock, std::min<std::chrono::nanoseconds>(wait, std::chrono::hours(24)),
                           ready);
  if (channel.closed || channel.events.empty()) return std::nullopt;
  TokenEvent event = std::move(channel.events.front());
  channel.events.pop_front();
  return event;
}

Result<Generation> Completion::wait() {
  return guarded("Completion::wait", [&]() -> Result<Generation> {
    if (!impl_->status.ok()) return impl_->status;
    GenerationBuilder builder(impl_->choices);
    while (!done()) {
      if (auto event = next()) builder.add(std::move(*event));
    }
    return builder.finish();
  });
}

bool Completion::done() const {
  if (!impl_->mailbox) return true;
  std::lock_guard lock(impl_->mailbox->mutex);
  const Channel& channel = impl_->mailbox->channels[impl_->id];
  return channel.closed || (channel.events.empty() && !channel.open());
}

struct [[gnu::visibility("hidden")]] EngineThread::Impl {
  explicit Impl(Engine e) : engine(std::move(e)), mailbox(std::make_shared<Mailbox>()) {
    mailbox->engine = &engine;
    started = guarded("EngineThread", [&] {
      thread = std::thread([this] { run(); });
      return Status();
    });
  }
  ~Impl() {
    {
      std::lock_guard lock(mailbox->mutex);
      mailbox->stop = true;
      mailbox->engine = nullptr;
      mailbox->close_all_as_cancelled();
    }
    mailbox->work.notify_all();
    mailbox->changed.notify_all();
    if (thread.joinable()) thread.join();
  }

  void run() {
    while (true) {
      {
        std::unique_lock lock(mailbox->mutex);
        mailbox->work.wait(lock,
                           [&] { return mailbox->stop || !mailbox->swept || engine.has_work(); });
        if (mailbox->stop) return;
        mailbox->swept = true;
      }
      {
        std::lock_guard lock(engine_mutex);
        (void)engine.step();  // what failed has had its last event
      }
      std::lock_guard lock(mailbox->mutex);
      (void)guarded("EngineThread", [&] {
        for (TokenEvent& event : engine.events()) mailbox->put(std::move(event));
        return Status();
      });
      mailbox->changed.notify_all();
    }
  }

  Engine engine;
  mutable std::mutex engine_mutex;  // between `step` and `stats`
  std::shared_ptr<Mailbox> mailbox;
  Status started;  // why there is no thread, if the system refused one
  std::thread thread;
};

EngineThread::EngineThread(Engine engine) : impl_(std::make_unique<Impl>(std::move(engine))) {}
EngineThread::EngineThread(EngineThread&&) noexcept = default;
EngineThread& EngineThread::operator=(EngineThread&&) noexcept = default;
EngineThread::~EngineThread() = default;

Completion EngineThread::submit(Request request) {
  auto completion = std::make_unique<Completion::Impl>();
  const int n = request.n;
  Mailbox& mailbox = *impl_->mailbox;
  // Without the mutex: encoding a long prompt must not hold up the others' events.
  Result<RequestId> id = impl_->started.ok() ? impl_->engine.submit(std::move(request))
                                             : Result<RequestId>(impl_->started);
  if (id) {
    completion->id = *id;
    completion->choices = static_cast<std::size_t>(n);
    completion->mailbox = impl_->mailbox;
    std::lock_guard lock(mailbox.mutex);
    mailbox.channels[*id].choices = completion->choices;
  } else {
    completion->status = id.status();
  }
  mailbox.work.notify_all();
  return Completion(std::move(completion));
}

EngineStats EngineThread::stats() const {
  std::lock_guard lock(impl_->engine_mutex);
  return impl_->engine.stats();
}

}  // namespace quire
