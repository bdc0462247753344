#include <quire/engine_thread.h>

#include <algorithm>
#include <bitset>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "engine/generation_builder.h"
#include "engine/request_check.h"

namespace quire {
namespace {

// The events of one request between the engine's thread and its Completion.
struct Channel {
  std::deque<TokenEvent> events;
  std::bitset<kMaxChoices> ended;  // choices whose last event has been put here
  std::size_t choices = 0;         // n of the request; 0 until `submit` has returned
  bool open() const { return ended.count() < choices; }
  bool closed = false;  // cancelled: nothing is delivered any more

  // The end of a choice that the engine did not live to finish.
  TokenEvent cancelled_event(RequestId id) {
    std::size_t choice = 0;
    while (ended[choice]) ++choice;
    ended.set(choice);
    TokenEvent event;
    event.request = id;
    event.choice = static_cast<int>(choice);
    event.finished = true;
    event.finish_reason = FinishReason::cancelled;
    if (!open()) event.report.emplace();
    return event;
  }
};

// What an EngineThread and its Completions share; it outlives whichever goes first.
struct Mailbox {
  std::mutex mutex;
  std::condition_variable changed;  // an event came, or a channel was closed
  std::condition_variable work;     // for the engine's thread
  std::unordered_map<RequestId, Channel> channels;
  std::vector<TokenEvent> pending;  // taken from the engine, for want of memory not yet put
  Engine* engine = nullptr;         // null once the thread has ended
  bool stop = false;                // every request that goes on has had its end as cancelled
  bool swept = true;  // false: a request was cancelled, and one more step frees its pages

  // All with the mutex held. An event may come before `submit` has returned; none comes after a
  // Completion is dropped, because that cancels the request under the same mutex.
  void put(TokenEvent& event) {
    Channel& channel = channels[event.request];
    if (channel.closed) return;
    const bool finished = event.finished;
    const auto choice = static_cast<std::size_t>(event.choice);
    channel.events.push_back(std::move(event));
    if (finished) channel.ended.set(choice);
  }
  // False if memory ran out: what was not put stays for the next call.
  bool deliver() {
    if (stop) return true;
    if (pending.empty()) pending = engine->events();
    std::size_t done = 0;
    const Status status = guarded("EngineThread", [&] {
      for (; done < pending.size(); ++done) put(pending[done]);
      return Status();
    });
    pending.erase(pending.begin(), pending.begin() + static_cast<std::ptrdiff_t>(done));
    return status.ok();
  }
  void drop(RequestId id) {
    std::erase_if(pending, [id](const TokenEvent& event) { return event.request == id; });
    channels.erase(id);
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
    mailbox->drop(id);
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
  static const Status no_memory(StatusCode::out_of_memory, "out of memory");
  return impl_ ? impl_->status : no_memory;
}
RequestId Completion::id() const {
  return impl_ ? impl_->id : 0;
}
bool Completion::cancel() {
  return impl_ && impl_->cancel();
}

std::optional<TokenEvent> Completion::next(std::chrono::nanoseconds wait) {
  if (!impl_ || !impl_->mailbox) return std::nullopt;
  Mailbox& mailbox = *impl_->mailbox;
  std::unique_lock lock(mailbox.mutex);
  Channel& channel = mailbox.channels.find(impl_->id)->second;
  auto ready = [&] {
    return mailbox.stop || channel.closed || !channel.events.empty() || !channel.open();
  };
  // A day is as good as for ever, and adding more could overflow the clock.
  mailbox.changed.wait_for(lock, std::min<std::chrono::nanoseconds>(wait, std::chrono::hours(24)),
                           ready);
  if (channel.closed) return std::nullopt;
  if (channel.events.empty()) {
    if (!mailbox.stop || !channel.open()) return std::nullopt;
    return channel.cancelled_event(impl_->id);
  }
  TokenEvent event = std::move(channel.events.front());
  channel.events.pop_front();
  return event;
}

Result<Generation> Completion::wait() {
  return guarded("Completion::wait", [&]() -> Result<Generation> {
    if (!status().ok()) return status();
    GenerationBuilder builder(impl_->choices);
    while (!done()) {
      if (auto event = next()) builder.add(std::move(*event));
    }
    return builder.finish();
  });
}

bool Completion::done() const {
  if (!impl_ || !impl_->mailbox) return true;
  std::lock_guard lock(impl_->mailbox->mutex);
  const Channel& channel = impl_->mailbox->channels.find(impl_->id)->second;
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
      mailbox->pending.clear();
    }
    mailbox->work.notify_all();
    mailbox->changed.notify_all();
    if (thread.joinable()) thread.join();
  }

  void run() {
    while (true) {
      {
        std::unique_lock lock(mailbox->mutex);
        mailbox->work.wait(lock, [&] {
          return mailbox->stop || !mailbox->swept || !mailbox->pending.empty() || engine.has_work();
        });
        if (mailbox->stop) return;
        mailbox->swept = true;
      }
      {
        std::lock_guard lock(engine_mutex);
        (void)engine.step({.run_ahead = true});  // what failed has had its last event
      }
      std::unique_lock lock(mailbox->mutex);
      const bool delivered = mailbox->deliver();
      mailbox->changed.notify_all();
      if (!delivered) {
        mailbox->work.wait_for(lock, std::chrono::milliseconds(1), [&] { return mailbox->stop; });
      }
    }
  }

  Status open_channel(RequestId id, std::size_t choices);

  Engine engine;
  mutable std::mutex engine_mutex;  // between `step` and `stats`
  std::shared_ptr<Mailbox> mailbox;
  Status started;  // why there is no thread, if the system refused one
  std::thread thread;
};

// Null if there is no memory for it.
EngineThread::EngineThread(Engine engine) {
  (void)guarded("EngineThread", [&] {
    impl_ = std::make_unique<Impl>(std::move(engine));
    return Status();
  });
}
EngineThread::EngineThread(EngineThread&&) noexcept = default;
EngineThread& EngineThread::operator=(EngineThread&&) noexcept = default;
EngineThread::~EngineThread() = default;

// Opens the channel of a request that the engine has accepted.
Status EngineThread::Impl::open_channel(RequestId id, std::size_t choices) {
  std::lock_guard lock(mailbox->mutex);
  const Status status = guarded("EngineThread::submit", [&] {
    mailbox->channels[id].choices = choices;
    return Status();
  });
  if (status.ok()) return status;
  engine.cancel(id);
  mailbox->drop(id);
  mailbox->swept = false;
  return status;
}

Completion EngineThread::submit(Request request) {
  std::unique_ptr<Completion::Impl> completion;
  Status status = guarded("EngineThread::submit", [&] {
    if (!impl_) return Status(StatusCode::out_of_memory, "out of memory");
    completion = std::make_unique<Completion::Impl>();
    if (!impl_->started.ok()) return impl_->started;
    completion->choices = static_cast<std::size_t>(std::max(request.n, 0));
    // Without the mutex: encoding a long prompt must not hold up the others' events.
    Result<RequestId> id = impl_->engine.submit(std::move(request));
    if (!id) return id.status();
    if (Status opened = impl_->open_channel(*id, completion->choices); !opened.ok()) return opened;
    completion->id = *id;
    completion->mailbox = impl_->mailbox;
    return Status();
  });
  if (completion && !status.ok()) completion->status = std::move(status);
  if (impl_) impl_->mailbox->work.notify_all();
  return Completion(std::move(completion));
}

EngineStats EngineThread::stats() const {
  if (!impl_) return {};
  std::lock_guard lock(impl_->engine_mutex);
  return impl_->engine.stats();
}

}  // namespace quire
