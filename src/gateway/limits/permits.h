#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>

#include "base/time.h"
#include "core/mesh.h"
#include "core/reactor.h"
#include "core/task.h"
#include "core/timer.h"
#include "gateway/limits/key.h"
#include "gateway/limits/shared.h"
#include "gateway/limits/table.h"

namespace sluice::gateway::limits {

// How many requests of a key may run at the same time, how many may wait, and for how long.
struct Room {
  std::uint32_t requests = 1;
  std::uint32_t queue = 0;
  Duration wait = std::chrono::seconds(1);
};

// One core's part of a bound on concurrent requests. The core that owns a key counts its permits and queues the waiting
// requests of all cores in order of arrival, so the bound is exact. The other cores ask the owner for each request.
//
// Each permit is granted once and given back once. If a request has stopped waiting before its permit arrives, the
// permit is given back on arrival.
class Permits : public std::enable_shared_from_this<Permits> {
 public:
  static constexpr Duration patience = std::chrono::seconds(1);

  enum class Answer : std::uint8_t {
    granted,
    refused,  // the limits of running and of waiting requests are reached
    full,     // the table has no room for another key
    late,     // no other request ended in time, or the owner did not answer
    alone     // the owner is ending with the process; the request runs without a permit
  };

  // See RateLimiter::of().
  [[nodiscard]] static std::shared_ptr<Permits> of(const std::shared_ptr<Shared>& shared, core::Reactor& reactor,
                                                   core::MeshPort& port, const Room& room, std::uint32_t keys);
  Permits(std::shared_ptr<Shared> shared, core::Reactor& reactor, core::MeshPort& port, const Room& room,
          std::uint32_t keys);
  Permits(const Permits&) = delete;

  // From now on this object belongs to `user`, with the limits `room`. Running requests continue.
  void serve(const Room& room, const void* user);
  [[nodiscard]] const void* user() const { return user_; }  // null before the first serve()

  // If granted, the caller must call give_back() once. Waits until `until` at the latest.
  [[nodiscard]] core::Async<Answer> take(const Key& key, Instant until = never);
  void give_back(const Key& key);

  [[nodiscard]] std::uint32_t keys() const { return busy_.size(); }
  // Counts for a key that this core owns; for tests.
  [[nodiscard]] std::uint32_t running(const Key& key);
  [[nodiscard]] std::size_t waiting(const Key& key) const;

 private:
  // At the owner: a key with granted permits.
  struct Busy {
    Key key;
    std::uint32_t running = 0;
  };
  struct Message {
    enum class Kind : std::uint8_t { ask, answer, leave, give_back };
    Key key;
    std::uint64_t id = 0;  // of the waiter on the asking core
    std::uint16_t core = 0;
    Kind kind{};
    Answer answer{};
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const { return key.high; }
  };
  class Waiter;
  struct Parcel;
  using Line = std::deque<Message>;

  // Returns nothing if the question waits in the queue.
  [[nodiscard]] std::optional<Answer> ask(const Message& question);
  void release(const Key& key);
  void leave(const Key& key, std::uint64_t id, unsigned core);
  // Grants the first waiter in the queue a permit that is already counted. Returns false if the queue is empty.
  bool pass_on(const Key& key);
  void answer(const Message& question, Answer what);
  void arrived(const Message& message);
  [[nodiscard]] core::Task<Answer> wait(Key key, Instant until);
  void send(unsigned to, const Message& message);

  const std::shared_ptr<Shared> shared_;
  core::Reactor& reactor_;
  core::MeshPort& port_;
  Room room_;
  Table<Busy> busy_;
  std::unordered_map<Key, Line, KeyHash> lines_;        // queues of keys that this core owns; no queue is empty
  std::unordered_map<std::uint64_t, Waiter*> waiters_;  // on this core, by id
  std::uint64_t next_id_ = 1;
  const void* user_ = nullptr;
  const core::Sharded<Permits>::Entry entry_;
};

}  // namespace sluice::gateway::limits
