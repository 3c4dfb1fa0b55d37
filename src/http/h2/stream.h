#pragma once

#include <coroutine>
#include <cstdint>
#include <memory>

#include "base/buffer.h"
#include "core/arena.h"
#include "core/slab.h"
#include "core/task.h"
#include "core/timer.h"
#include "http/body_budget.h"
#include "http/exchange.h"
#include "http/h2/head.h"
#include "http/patience.h"
#include "http/response.h"

namespace sluice::http::h2 {

class Session;
class Tunnel;

// One request and its answer. Owned by its session; used again for another request when it has ended, so that a warm
// request allocates nothing here. The session moves it on; what it does by itself is to give the handler the body.
class Stream final : public BodyReader, BodyBudget::Share, public core::SlabAllocated {
 public:
  // How far the request, and then its answer, has come. A refused request skips `handled`.
  enum class State : std::uint8_t {
    head,      // the header section is coming in
    queued,    // the header section is there: the handler is next
    handled,   // the handler has it
    answered,  // the response has been handed to nghttp2
    sending,   // the response's header section has left
    sent,      // the whole response has left
  };
  enum class Source : std::uint8_t { idle, pulling, done };  // of a body: `pulling` while the stream waits for it

  Stream() = default;
  Stream(const Stream&) = delete;
  ~Stream() override;

  void begin(Session& session, std::int32_t id);
  [[nodiscard]] State state() const { return state_; }
  void enter(State to);
  // Cancels what waits and forgets everything.
  void reset();

  // ---- BodyReader: what has been received is given piece by piece. What the handler has read is the client's to send
  // again: only then its window is opened.
  [[nodiscard]] core::Task<Result<std::string_view>> read() override;
  void allow_more(std::uint64_t bytes) override;
  void hurry(std::uint32_t bytes_per_s) override;
  // Before the handler gets it: counts what it takes besides its body. False: there is no room for it.
  [[nodiscard]] bool occupy();
  // The session asks likewise for what has come and nobody has read yet. An error: the body has a refusal.
  [[nodiscard]] Result<void> keep(std::size_t bytes) override;
  // The handler has answered: what counts is what it has not read.
  void forget_kept();
  // Nobody will read what has come of the body. How much that was.
  std::size_t drop_unread();
  // Whoever waits in read() goes on.
  void wake_reader();
  [[nodiscard]] bool reader_waits() const { return body_wait_ != nullptr; }
  // What follows the header section belongs to an upgrade, or to nobody.
  [[nodiscard]] bool has_no_body() const { return tunnelled || head.is_extended_connect(); }
  // The request has been answered and nobody looks at it any more.
  void forget_request();
  [[nodiscard]] std::size_t unread_bytes() const { return arrived.size() + given.size(); }

  Session* session = nullptr;
  std::int32_t id = 0;
  Stream* next = nullptr;  // the session's list of all its streams
  Stream* previous = nullptr;
  Stream* next_ready = nullptr;  // the session's queue of those that have something to do
  Stream* previous_ready = nullptr;
  bool is_ready = false;

  static constexpr std::size_t arena_bytes = 2048;
  core::Arena arena{arena_bytes};
  RequestHead head;
  Exchange exchange;
  bool is_request = false;   // the handler has got it, and it counts as active
  bool client_done = false;  // the client has sent all
  bool malformed = false;
  Instant began{};

  Buffer arrived;  // of the request's body: what nobody has read yet
  Buffer given;    // what the handler is looking at
  std::uint64_t received_bytes = 0;
  std::uint64_t body_limit = 0;  // once somebody reads
  Patience patience{Duration{}, 0};
  int body_refusal = 0;     // the status that the body's own fault asks for
  bool drops_body = false;  // nobody will read it

  Response response;
  Buffer pulled;     // of a BodySource: what has not been sent
  SpanReader spans;  // of SharedSpans, likewise; from the first byte that is sent on
  Source source = Source::idle;
  bool failed = false;       // we cannot go on, and not by the client's fault
  bool deferred = false;     // nghttp2 waits for resume_data()
  bool body_unsent = false;  // there is more to send
  std::uint64_t sent_bytes = 0;
  Instant progress_at{};  // when the client last took enough of it
  bool starved = false;   // what was sent last has used up a window

  bool tunnelled = false;    // an upgrade has taken it; what was said of the answer's body means nothing then
  Tunnel* tunnel = nullptr;  // null, and tunnelled: our side has ended

  core::TaskGroup task;  // what the handler, or the body's source, waits in

 private:
  class BodyWait;
  void cut() override;
  BodyWait* body_wait_ = nullptr;
  State state_ = State::head;
};

}  // namespace sluice::http::h2
