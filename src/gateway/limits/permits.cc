#include "gateway/limits/permits.h"

#include <algorithm>
#include <coroutine>
#include <utility>
#include <vector>

#include "base/assert.h"

namespace sluice::gateway::limits {

// A request that waits on this core, in its coroutine's frame. `co_await waiter` returns at the answer or the deadline.
class Permits::Waiter : core::Timer {
 public:
  Waiter(Permits& permits, const Key& key, Instant deadline)
      : Timer(&Waiter::expired), id(permits.next_id_++), permits_(permits), key_(key), deadline_(deadline) {
    permits_.waiters_.emplace(id, this);
  }
  Waiter(const Waiter&) = delete;
  ~Waiter() {
    permits_.waiters_.erase(id);
    if (!answer_) {
      permits_.leave(key_, id, permits_.port_.core());
    } else if (*answer_ == Answer::granted && !taken_) {
      permits_.give_back(key_);
    }
  }

  // Resumes the waiter only at the end of this turn, because the caller of give_back() is still running.
  void set(Answer answer) {
    answer_ = answer;
    if (caller_) permits_.reactor_.at_turn_end(wake_);
  }

  bool await_ready() const noexcept { return answer_.has_value(); }
  void await_suspend(std::coroutine_handle<> caller) {
    caller_ = caller;
    permits_.reactor_.timers().schedule(*this, deadline_);
  }
  Answer await_resume() {
    taken_ = true;
    return answer_.value_or(Answer::late);
  }

  const std::uint64_t id;

 private:
  struct Wake : core::TurnHook {
    explicit Wake(Waiter& of) : TurnHook(run), waiter(of) {}
    static void run(TurnHook& hook) noexcept { static_cast<Wake&>(hook).waiter.resume(); }
    Waiter& waiter;
  };
  static void expired(Timer& timer) noexcept { static_cast<Waiter&>(timer).resume(); }
  void resume() {
    permits_.reactor_.timers().cancel(*this);
    if (const auto caller = std::exchange(caller_, {})) caller.resume();
  }

  Permits& permits_;
  const Key key_;
  const Instant deadline_;
  std::optional<Answer> answer_;
  bool taken_ = false;
  std::coroutine_handle<> caller_;
  Wake wake_{*this};
};

std::shared_ptr<Permits> Permits::of(const std::shared_ptr<Shared>& shared, core::Reactor& reactor,
                                     core::MeshPort& port, const Room& room, std::uint32_t keys) {
  if (Permits* const part = shared->permits.here(port)) return part->shared_from_this();
  return std::make_shared<Permits>(shared, reactor, port, room, keys);
}

Permits::Permits(std::shared_ptr<Shared> shared, core::Reactor& reactor, core::MeshPort& port, const Room& room,
                 std::uint32_t keys)
    : shared_(std::move(shared)),
      reactor_(reactor),
      port_(port),
      room_(room),
      busy_(keys),
      entry_(shared_->permits, port.core(), *this) {
  SLUICE_ASSERT(shared_->cores() == port.size());
}

void Permits::serve(const Room& room, const void* user) {
  user_ = user;
  room_ = room;
  std::vector<Key> waited_for;
  for (const auto& [key, line] : lines_) waited_for.push_back(key);
  for (const Key& key : waited_for) {
    while (running(key) < room_.requests && waiting(key) != 0) {
      ++busy_.find(key)->running;
      pass_on(key);
    }
  }
}

core::Async<Permits::Answer> Permits::take(const Key& key, Instant until) {
  if (shared_->owner_of(key) == port_.core()) {
    if (!lines_.contains(key)) {
      Busy* busy = busy_.find(key);
      if (busy == nullptr) busy = busy_.add(key, [](const Busy&) { return false; });
      if (busy == nullptr) return Answer::full;
      if (busy->running < room_.requests) {
        ++busy->running;
        return Answer::granted;
      }
    }
    if (waiting(key) >= room_.queue) return Answer::refused;
  }
  return wait(key, until);
}

void Permits::give_back(const Key& key) {
  const unsigned owner = shared_->owner_of(key);
  if (owner == port_.core()) return release(key);
  send(owner, {.key = key, .kind = Message::Kind::give_back});
}

std::uint32_t Permits::running(const Key& key) {
  const Busy* const busy = busy_.find(key);
  return busy != nullptr ? busy->running : 0;
}

std::size_t Permits::waiting(const Key& key) const {
  const auto line = lines_.find(key);
  return line != lines_.end() ? line->second.size() : 0;
}

core::Task<Permits::Answer> Permits::wait(Key key, Instant until) {
  const unsigned owner = shared_->owner_of(key);
  Waiter waiter(*this, key, std::min(reactor_.now() + (room_.queue != 0 ? room_.wait : patience), until));
  const Message question{
      .key = key, .id = waiter.id, .core = static_cast<std::uint16_t>(port_.core()), .kind = Message::Kind::ask};
  if (owner == port_.core()) {
    if (const auto at_once = ask(question)) waiter.set(*at_once);
  } else if (port_.open(owner)) {
    send(owner, question);
  } else {
    waiter.set(Answer::alone);
  }
  co_return co_await waiter;
}

// ---- The owner ----

std::optional<Permits::Answer> Permits::ask(const Message& question) {
  if (!lines_.contains(question.key)) {
    Busy* busy = busy_.find(question.key);
    if (busy == nullptr) busy = busy_.add(question.key, [](const Busy&) { return false; });
    if (busy == nullptr) return Answer::full;
    if (busy->running < room_.requests) {
      ++busy->running;
      return Answer::granted;
    }
  }
  if (waiting(question.key) >= room_.queue) return Answer::refused;
  lines_[question.key].push_back(question);
  return std::nullopt;
}

bool Permits::pass_on(const Key& key) {
  const auto line = lines_.find(key);
  if (line == lines_.end()) return false;
  const Message first = line->second.front();
  line->second.pop_front();
  if (line->second.empty()) lines_.erase(line);
  answer(first, Answer::granted);
  return true;
}

void Permits::leave(const Key& key, std::uint64_t id, unsigned core) {
  const unsigned owner = shared_->owner_of(key);
  if (owner != port_.core()) {
    const auto from = static_cast<std::uint16_t>(core);
    return send(owner, {.key = key, .id = id, .core = from, .kind = Message::Kind::leave});
  }
  const auto line = lines_.find(key);
  if (line == lines_.end()) return;
  std::erase_if(line->second, [&](const Message& one) { return one.id == id && one.core == core; });
  if (line->second.empty()) lines_.erase(line);
}

void Permits::release(const Key& key) {
  Busy* const busy = busy_.find(key);
  SLUICE_ASSERT(busy != nullptr && busy->running != 0);
  // After a reload with a smaller limit, more requests may run than allowed. Then the permit is not passed on.
  if (busy->running <= room_.requests && pass_on(key)) return;
  if (--busy->running == 0) busy_.erase(*busy);
}

void Permits::answer(const Message& question, Answer what) {
  const Message message{.key = question.key, .id = question.id, .kind = Message::Kind::answer, .answer = what};
  if (question.core == port_.core()) return arrived(message);
  send(question.core, message);
}

// ---- Between cores ----

void Permits::arrived(const Message& message) {
  switch (message.kind) {
    case Message::Kind::ask:
      if (const auto at_once = ask(message)) answer(message, *at_once);
      return;
    case Message::Kind::leave:
      return leave(message.key, message.id, message.core);
    case Message::Kind::give_back:
      return release(message.key);
    case Message::Kind::answer: {
      const auto found = waiters_.find(message.id);
      if (found == waiters_.end()) {
        if (message.answer == Answer::granted) give_back(message.key);
        return;
      }
      found->second->set(message.answer);
    }
  }
}

// A message on its way. It is destroyed on its sender if the other core ends before it has room. A permit in it would
// never be given back.
struct Permits::Parcel {
  Parcel(std::shared_ptr<Shared> of, const Message& content) : shared(std::move(of)), message(content) {}
  Parcel(Parcel&&) noexcept = default;
  ~Parcel() {
    const bool is_permit = message.kind == Message::Kind::answer && message.answer == Answer::granted;
    if (shared == nullptr || !is_permit) return;
    if (Permits* const owner = shared->permits.at(shared->owner_of(message.key))) owner->release(message.key);
  }

  void operator()(core::MeshPort& there) {
    const std::shared_ptr<Shared> of = std::move(shared);
    if (Permits* const part = of->permits.here(there)) return part->arrived(message);
    // That core has no part, because a reload has removed the limit. The answer, or a permit that nobody waits for,
    // goes through its port.
    if (message.kind == Message::Kind::answer && message.answer == Answer::granted) {
      (void)of->permits.send(there, of->owner_of(message.key),
                             [key = message.key](Permits& owner) { owner.release(key); });
    }
    if (message.kind != Message::Kind::ask) return;
    (void)of->permits.send(there, message.core, [message = message](Permits& asker) {
      asker.arrived({.key = message.key, .id = message.id, .kind = Message::Kind::answer, .answer = Answer::alone});
    });
  }

  std::shared_ptr<Shared> shared;  // null: moved, or delivered
  Message message;
};

void Permits::send(unsigned to, const Message& message) { (void)port_.send(to, Parcel(shared_, message)); }

}  // namespace sluice::gateway::limits
