#pragma once

#include <algorithm>
#include <any>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.h"
#include "core/slab.h"
#include "core/task.h"
#include "msg/frame.h"
#include "msg/outbox.h"
#include "msg/payload.h"

namespace sluice::msg {

class Sessions;
struct Group;

// The place of a session in a group that it has joined: see Groups.
struct Membership {
  Group* group;
  std::size_t index;  // in Group::members
};

// Message ids from first_reserved_id on belong to the protocol (docs/formats/frame.md).
inline constexpr std::uint32_t first_reserved_id = 0xFFFFFF00;
inline constexpr std::uint32_t ping_id = 0xFFFFFF00;   // answered with the same frame if it is correlated
inline constexpr std::uint32_t gap_id = 0xFFFFFF01;    // body: how many frames were dropped before this one, as a u32
inline constexpr std::uint32_t token_id = 0xFFFFFF02;  // body: the client's credentials, before all other frames

// Why a session has ended.
enum class Ended : std::uint8_t {
  by_peer,       // the peer ended its side
  by_server,     // close(), or a drain
  idle,          // the peer was silent for too long
  refused,       // an invalid frame, or one that did not arrive in time
  slow,          // the peer read too slowly
  lost,          // the connection failed
  unauthorized,  // the client's credentials are not accepted, or not any more
  limited,       // the client sent more messages than it may
};

// The facts about a session that a route has admitted: by a WebSocket handshake, or through a Door.
struct Handshake {
  std::string peer;                                                  // the client's address, without its port
  bool secure = false;                                               // over TLS
  std::string path = {};                                             // of the request, decoded; empty over TCP
  std::string query = {};                                            // as it was sent, without '?'
  std::string protocol = {};                                         // the agreed subprotocol; empty: none
  std::vector<std::pair<std::string, std::string>> claims = {};      // path and text of each claim about the client
  std::vector<std::pair<std::string, std::string>> parameters = {};  // of the route's path: names and values

  // The text, or an empty one if the client has no such claim or the path no such parameter.
  [[nodiscard]] std::string_view claim(std::string_view of) const { return find(claims, of); }
  [[nodiscard]] std::string_view parameter(std::string_view of) const { return find(parameters, of); }

 private:
  static std::string_view find(const std::vector<std::pair<std::string, std::string>>& all, std::string_view name) {
    const auto found = std::ranges::find(all, name, [](const auto& one) { return std::string_view(one.first); });
    return found != all.end() ? std::string_view(found->second) : std::string_view{};
  }
};

// A client's conversation on one core: frames come in through the Dispatcher and go out through the functions below.
// Referred to by SessionRef; valid after its end, when everything sent is dropped.
class Session : public core::SlabAllocated {
 public:
  enum class State : std::uint8_t {
    opening,  // accepted; the TLS handshake is not complete, or the client has not been admitted
    open,
    ending,  // no frames are read any more; a waiting handler still ends, and what is queued is written
    ended,
  };

  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Unique over the cores of a process and over its restarts on one machine.
  [[nodiscard]] std::uint64_t id() const { return id_; }
  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] bool open() const { return state_ == State::open; }
  [[nodiscard]] const std::string& peer() const { return peer_; }  // the client's address, without its port
  [[nodiscard]] virtual bool secure() const = 0;                   // over TLS
  // Null for a session over TCP without a Door.
  [[nodiscard]] virtual const Handshake* handshake() const { return nullptr; }
  // The server that accepted its connection; null over a WebSocket.
  [[nodiscard]] virtual const void* server() const { return nullptr; }
  [[nodiscard]] std::size_t queued() const { return outbox_.size() + in_flight_; }  // bytes that are not written yet

  // Queue a frame. All frames of one turn of the loop leave in one write. They return false, and drop the frame, if the
  // session does not send any more, its queue is full (SessionOptions::most_queued), the body is larger than
  // largest_body, or a flag is unknown.
  bool send(const Frame& frame);
  bool send(const Payload& payload);
  bool send(std::uint32_t id, std::span<const std::byte> body) { return send(Frame{.id = id, .body = body}); }
  bool send(std::uint32_t id, std::string_view body) { return send(id, bytes_of(body)); }
  // Answers `to`, with its correlation id if it has one.
  bool reply(const Frame& to, std::uint32_t id, std::span<const std::byte> body) {
    return send(Frame{.id = id,
                      .flags = static_cast<std::uint8_t>(to.flags & correlated_flag),
                      .correlation = to.correlation,
                      .body = body});
  }
  bool reply(const Frame& to, std::uint32_t id, std::string_view body) { return reply(to, id, bytes_of(body)); }
  // Answers `about` with an error frame. An error frame is never answered.
  bool send_error(const Frame& about, ErrorCode code, std::string_view text);

  // Reads no more frames, lets a waiting handler end, writes what is queued, and ends the connection.
  void close(Ended why = Ended::by_server);
  // Ends the connection at the end of this turn: cancels a waiting handler, and drops what is queued.
  void cut(Ended why);

  // For the application; dropped when the session ends, after Service::closed().
  std::any data;

 protected:
  // Shared frames of up to `most_copied` bytes are copied.
  Session(Sessions& sessions, std::uint64_t id, std::size_t most_copied = Outbox::copied_bytes);
  virtual ~Session() = default;

  // Called at the end of a turn in which something was queued, or the state has changed. open or ending: starts to
  // write unless a write is running. ended: releases the connection and cancels its tasks.
  virtual void turn_end() = 0;

  [[nodiscard]] Ended why_ended() const { return why_; }
  void set_state(State state, Ended why);
  void mark();
  // Starts a task of the session; `place` refers to it until it ends. Without memory for it, the session ends.
  template <class Make>
  void spawn(Make make, core::TaskGroup::Member*& place) noexcept;
  // Lets the handler of this frame run. Returns the rest of its work if it waits, otherwise an empty Task.
  [[nodiscard]] core::Task<void> pass(const Frame& frame);
  // Ends a session that is not open: the client is sent this error, and the services do not learn of it.
  void deny(const Frame& about, ErrorCode code, std::string_view text);
  // Ends the session when its client has left. Runs while a handler waits, when nobody reads.
  [[nodiscard]] virtual core::Task<void> watch_client();
  // Takes what is queued, to write it; written() follows.
  [[nodiscard]] Outbox take_outbox();
  // This many bytes of an incomplete frame have arrived. Returns false, and the session ends, if there is no memory.
  bool hold_input(std::size_t bytes);
  // Called when what was taken from the outbox has been written: ends a gap. A reader that waits for room goes on at
  // the end of the turn.
  void written();

  // `co_await Room(*this)` waits while more than half of the queue's limit waits to be written, so that a client that
  // does not read its answers is not read either. It ends at the end of a turn, and never within the write itself,
  // because the reader may end the session and cancel the write.
  class Room {
   public:
    explicit Room(Session& session) : session_(session) {}
    Room(const Room&) = delete;
    ~Room() {
      if (waiting_) session_.waits_for_room_ = nullptr;
    }
    [[nodiscard]] bool await_ready() const noexcept { return session_.has_room(); }
    void await_suspend(std::coroutine_handle<> caller) noexcept {
      session_.waits_for_room_ = caller;
      waiting_ = true;
    }
    void await_resume() noexcept { waiting_ = false; }

   private:
    Session& session_;
    bool waiting_ = false;
  };

  Sessions& sessions_;
  Outbox outbox_;
  std::size_t in_flight_ = 0;  // bytes that a running write has taken
  std::string peer_;
  // Sets the `place` of spawn() to null when its task ends or is cancelled.
  struct Place {
    core::TaskGroup::Member*& place;
    ~Place() { place = nullptr; }
  };
  bool handling_ = false;  // a handler runs or waits

 private:
  friend class Groups;
  friend class Sessions;
  friend class SessionRef;

  // Loads what send() touches into the cache.
  void prefetch() const {
    const auto* const bytes = reinterpret_cast<const char*>(this);
    for (std::size_t at = 0; at < sizeof(Session); at += 64) __builtin_prefetch(bytes + at, 1);
  }
  // Whether a frame may be queued now. If the queue is full, does what SessionOptions::slow_receiver says.
  [[nodiscard]] bool admits();
  // Brings Sessions::held_ up to date.
  void account() noexcept;
  // Whether the sessions of the core hold too much together, and this one more than its share.
  [[nodiscard]] bool holds_too_much() const noexcept;
  void append(const Frame& frame);  // to the queue
  // Called after a frame of this size was queued.
  void count(std::size_t bytes);
  [[nodiscard]] bool has_room() const noexcept;
  void mark_gap();
  core::Task<void> wait_for(core::Task<void> handler, Frame frame);
  void handler_failed(const Frame& frame, const std::exception& error);
  // Whether the client may send one more message now. GCRA: the account is full again at full_again_.
  [[nodiscard]] bool may_send_message() noexcept;

  const std::uint64_t id_;
  std::uint32_t references_ = 0;
  std::uint32_t missed_ = 0;  // frames dropped since the queue was full
  static constexpr std::size_t removed = SIZE_MAX;
  std::size_t index_ = removed;  // in Sessions::all_
  Session* next_marked_ = nullptr;
  std::vector<Membership> groups_;
  Instant full_again_{};
  std::size_t in_flight_memory_ = 0;
  std::size_t input_memory_ = 0;
  std::size_t held_ = 0;  // bytes of memory that are counted in Sessions::held_
  std::coroutine_handle<> waits_for_room_;
  State state_ = State::opening;
  Ended why_ = Ended::lost;
  bool marked_ = false;
  bool was_open_ = false;
  bool is_counted_ = false;  // in Sessions::per_address_
  bool is_full_ = false;     // SlowReceiver::mark_gaps: nothing is queued until everything has been written
};

// A counted reference to a session. Only the session's core may use it; another one that sends through it ends the
// program.
class SessionRef {
 public:
  SessionRef() = default;
  explicit SessionRef(Session& session) : session_(&session) { ++session.references_; }
  SessionRef(const SessionRef& other) : session_(other.session_) {
    if (session_ != nullptr) ++session_->references_;
  }
  SessionRef(SessionRef&& other) noexcept : session_(std::exchange(other.session_, nullptr)) {}
  SessionRef& operator=(SessionRef other) noexcept {
    std::swap(session_, other.session_);
    return *this;
  }
  ~SessionRef() {
    if (session_ != nullptr && --session_->references_ == 0) delete session_;
  }

  explicit operator bool() const { return session_ != nullptr; }
  Session& operator*() const { return *session_; }
  Session* operator->() const { return session_; }

 private:
  Session* session_ = nullptr;
};

}  // namespace sluice::msg
