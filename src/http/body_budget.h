#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/time.h"
#include "core/reactor.h"

namespace sluice::http {

// Limits the memory of one core for request bodies (beyond a connection's read buffer), HTTP/2 streams, and whole
// responses that clients have not read yet. Each request has a Share and reserves bytes there before it keeps them. If
// there is no room, the budget cuts unfinished bodies and responses that have fallen behind, starting with the one that
// has made no progress for the longest time. If that does not free enough, the new request is refused.
//
//   Counters::held == sum of the bytes that all shares hold <= Counters::limit, unless the limit was lowered
class BodyBudget {
 public:
  // An unfinished body may be cut if less than `pace_bytes` of it arrived in this time. A response may be cut if its
  // client read less than that.
  static constexpr Duration patience = std::chrono::seconds(1);
  static constexpr std::size_t pace_bytes = 16 * 1024;
  // A whole response up to this size is not counted: an HTTP/2 stream takes more memory than that anyway.
  static constexpr std::size_t small_answer_bytes = 4 * 1024;

  struct Counters {
    std::uint64_t held = 0;     // gauge
    std::uint64_t peak = 0;     // maximum of `held` since the owner last reset it
    std::uint64_t limit = 0;    // gauge
    std::uint64_t refused = 0;  // requests and responses for which there was no room
    std::uint64_t cut = 0;      // requests and responses that were cut to make room for others
  };
  class Share;

  // The owner publishes `counters`. `reactor` and `counters` outlive the budget.
  BodyBudget(const core::Reactor& reactor, std::uint64_t limit, Counters& counters)
      : reactor_(reactor), counters_(counters) {
    counters_.limit = limit;
  }
  BodyBudget(const BodyBudget&) = delete;

  void set_limit(std::uint64_t bytes) { counters_.limit = bytes; }
  // The most that all requests of one connection may hold together.
  [[nodiscard]] std::uint64_t connection_limit() const { return counters_.limit / 4; }

 private:
  [[nodiscard]] bool hold(std::uint64_t bytes, const Share& asks);
  [[nodiscard]] bool make_room(std::uint64_t bytes, const Share& asks);

  const core::Reactor& reactor_;
  Counters& counters_;
  Share* stillest_ = nullptr;  // first in the list of unfinished bodies and responses, ordered by last progress
  Share* liveliest_ = nullptr;
};

// The share of one request. release() and the destructor give back all that it took.
class BodyBudget::Share {
 public:
  // `connection` counts the bytes that all requests of the connection hold. Both references outlive the share.
  Share(BodyBudget& budget, std::uint64_t& connection) : budget_(&budget), connection_(&connection) {}
  Share(const Share&) = delete;

  enum class Taken : std::uint8_t {
    yes,
    no,       // there is no room now, or the share was cut
    too_long  // the request alone would exceed connection_limit()
  };
  [[nodiscard]] Taken take(std::size_t bytes);
  void give_back(std::size_t bytes);
  // Counts a response that lies whole in memory until release() or vacate(). took() reports how much of it the client
  // has read. From now on the response may be cut to make room for others. A response longer than connection_limit() is
  // accepted if the connection holds nothing else. Returns false if there is no room.
  [[nodiscard]] bool hold_answer(std::size_t bytes);
  void took(std::size_t bytes) {
    came_ += bytes;
    if (is_linked_ && came_ >= pace_bytes) link();
  }
  // Gives back everything that was taken. The body or response is complete and can no longer be cut.
  void release();
  // Counts the memory that a request needs besides its body. The limit of the connection does not apply to it.
  // release() and handled() give back `while_handled`; vacate() gives back `always`. Returns false if there is no room.
  [[nodiscard]] bool occupy(std::uint64_t always, std::uint64_t while_handled);
  void handled() { leave(while_handled_); }
  void vacate() {
    release();
    leave(always_);
  }
  [[nodiscard]] bool is_cut() const { return is_cut_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

  // While this object exists, the request waits for its client, so its body or response may be cut.
  class Waiting {
   public:
    explicit Waiting(Share& share) : share_(share) {
      share_.waits_ = true;
      if (share_.while_handled_ != 0 && !share_.is_linked_) share_.link();
    }
    Waiting(const Waiting&) = delete;
    ~Waiting() { share_.waits_ = false; }

   private:
    Share& share_;
  };

 protected:
  Share() = default;
  ~Share() { vacate(); }
  // Reuses the share for another request.
  void begin(BodyBudget& budget, std::uint64_t& connection);
  // Called when others need the room. The wait for the client must end soon with a refusal, or the response must be
  // cut. Must not resume a coroutine.
  virtual void cut() = 0;

 private:
  friend class BodyBudget;
  void leave(std::uint64_t& place) {
    if (place != 0) budget_->counters_.held -= std::exchange(place, 0);
  }
  void link();
  void unlink();

  BodyBudget* budget_ = nullptr;
  std::uint64_t* connection_ = nullptr;
  std::uint64_t bytes_ = 0;
  std::uint64_t always_ = 0;
  std::uint64_t while_handled_ = 0;
  std::uint64_t came_ = 0;  // bytes since it moved to the end of the list
  Instant grew_at_{};
  Share* stiller_ = nullptr;
  Share* livelier_ = nullptr;
  bool is_linked_ = false;
  bool waits_ = false;
  bool is_cut_ = false;
};

}  // namespace sluice::http
