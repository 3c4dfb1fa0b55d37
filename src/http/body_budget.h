#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/time.h"
#include "core/reactor.h"

namespace sluice::http {

// How many bytes of request bodies one core may hold beyond what its connections read at once, and of streams of
// HTTP/2. A request has a Share of it, and asks it before it keeps more. Where there is no room, the unfinished bodies
// that have fallen behind are cut, the one that has been still for longest first; a request that then still gets
// nothing is refused.
//
//   Counters::held == the sum of what all shares have taken and occupy <= Counters::limit, unless that was lowered
class BodyBudget {
 public:
  // An unfinished body may be cut when less than `pace_bytes` of it have come for this long.
  static constexpr Duration patience = std::chrono::seconds(1);
  static constexpr std::size_t pace_bytes = 16 * 1024;

  struct Counters {
    std::uint64_t held = 0;     // gauge
    std::uint64_t peak = 0;     // of held, since the owner has set it to that
    std::uint64_t limit = 0;    // gauge
    std::uint64_t refused = 0;  // requests: there was no room
    std::uint64_t cut = 0;      // requests: others needed the room
  };
  class Share;

  // `counters` are the owner's, for others to see; both outlive it.
  BodyBudget(const core::Reactor& reactor, std::uint64_t limit, Counters& counters)
      : reactor_(reactor), counters_(counters) {
    counters_.limit = limit;
  }
  BodyBudget(const BodyBudget&) = delete;

  void set_limit(std::uint64_t bytes) { counters_.limit = bytes; }
  // What the requests of one connection may hold together.
  [[nodiscard]] std::uint64_t connection_limit() const { return counters_.limit / 4; }

 private:
  [[nodiscard]] bool hold(std::uint64_t bytes, const Share& asks);
  [[nodiscard]] bool make_room(std::uint64_t bytes, const Share& asks);

  const core::Reactor& reactor_;
  Counters& counters_;
  Share* stillest_ = nullptr;  // of the shares of unfinished bodies, by when they have last grown
  Share* liveliest_ = nullptr;
};

// One request's. What it took goes back with release(), and with its end.
class BodyBudget::Share {
 public:
  // `connection`: what the connection's requests hold together; both outlive it.
  Share(BodyBudget& budget, std::uint64_t& connection) : budget_(&budget), connection_(&connection) {}
  Share(const Share&) = delete;

  enum class Taken : std::uint8_t {
    yes,
    no,       // there is no room now, or the body has been cut
    too_long  // the request would hold more than one connection may
  };
  [[nodiscard]] Taken take(std::size_t bytes);
  void give_back(std::size_t bytes);
  // All of it. The body is over: it is not cut any more.
  void release();
  // For what a request takes besides its body, which no limit of the connection is for: `while_handled` goes back with
  // release() or handled(), and `always` with vacate(). False: there is no room.
  [[nodiscard]] bool occupy(std::uint64_t always, std::uint64_t while_handled);
  void handled() { leave(while_handled_); }
  void vacate() {
    release();
    leave(always_);
  }
  [[nodiscard]] bool is_cut() const { return is_cut_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

  // The client is waited for, so that the body may be cut.
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
  // Of one that serves another request.
  void begin(BodyBudget& budget, std::uint64_t& connection);
  // Others need the room: the wait for the client ends soon, and with a refusal. Resumes nobody.
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
  std::uint64_t came_ = 0;  // since it has moved to the list's end
  Instant grew_at_{};
  Share* stiller_ = nullptr;
  Share* livelier_ = nullptr;
  bool is_linked_ = false;
  bool waits_ = false;
  bool is_cut_ = false;
};

}  // namespace sluice::http
