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

// One request and its response. Its session owns it and reuses it for later requests, so that they need no allocation
// here. The session changes its state; the stream itself only provides the body to the handler.
class Stream final : public BodyReader, public InterimSink, BodyBudget::Share, public core::SlabAllocated {
 public:
  // The progress of the request and its response. A refused request skips `handled`.
  enum class State : std::uint8_t {
    head,      // the header section is being received
    queued,    // the header section is complete, and the handler has not started
    handled,   // the handler is running
    answered,  // the response was passed to nghttp2
    sending,   // the response's header section was sent
    sent,      // the whole response was sent
  };
  enum class Source : std::uint8_t {
    idle,
    pulling,
    done
  };  // state of the BodySource; `pulling`: the stream waits for it

  Stream() = default;
  Stream(const Stream&) = delete;
  ~Stream() override;

  void begin(Session& session, std::int32_t id);
  [[nodiscard]] State state() const { return state_; }
  void enter(State to);
  // Cancels waiting tasks and clears the stream.
  void reset();

  // ---- BodyReader: gives the received bytes piece by piece. The client's window is opened again only for bytes that
  // the handler has read.
  [[nodiscard]] core::Task<Result<std::string_view>> read() override;
  [[nodiscard]] std::span<const Field> trailers() override { return trailer_fields; }
  void allow_more(std::uint64_t bytes) override;
  void limit_to(std::uint64_t bytes) override;
  void hurry(std::uint32_t bytes_per_s) override;
  void send_interim(int status, std::span<const Field> fields) override;
  // Called before the handler starts: counts the memory of the stream besides its body. Returns false if there is no
  // room.
  [[nodiscard]] bool occupy();
  // The session also calls this for received bytes that are still unread. After an error, body_refusal is set.
  [[nodiscard]] Result<void> keep(std::size_t bytes) override;
  // The handler has answered: from now on only unread bytes count.
  void forget_kept();
  // Counts the memory of the response's body until the client has read it. Returns false if there is no room.
  [[nodiscard]] bool hold_answer();
  using Share::took;
  // Drops the received bytes of a body that will not be read. Returns their number.
  std::size_t drop_unread();
  // Resumes the coroutine that waits in read().
  void wake_reader();
  [[nodiscard]] bool reader_waits() const { return body_wait_ != nullptr; }
  // The DATA after the header section belongs to an upgrade or is ignored.
  [[nodiscard]] bool has_no_body() const { return tunnelled || head.is_extended_connect(); }
  // Called when the request has been answered and its data is no longer used.
  void forget_request();
  [[nodiscard]] std::size_t unread_bytes() const { return arrived.size() + given.size(); }

  Session* session = nullptr;
  std::int32_t id = 0;
  Stream* next = nullptr;  // in the session's list of all its streams
  Stream* previous = nullptr;
  Stream* next_ready = nullptr;  // in the session's queue of streams with work to do
  Stream* previous_ready = nullptr;
  bool is_ready = false;

  static constexpr std::size_t arena_bytes = 2048;
  core::Arena arena{arena_bytes};
  RequestHead head;
  Exchange exchange;
  bool is_request = false;   // the handler was started, and the request counts as active
  bool client_done = false;  // the client has sent END_STREAM
  bool malformed = false;
  Instant began{};

  Buffer arrived;  // unread bytes of the request's body
  Buffer given;    // the bytes that the handler is using
  std::vector<Field> trailer_fields;
  std::uint64_t received_bytes = 0;
  std::uint64_t body_limit = 0;  // set at the first read
  std::uint64_t body_bound = 0;  // upper bound for body_limit
  Patience patience{Duration{}, 0};
  enum class Continue : std::uint8_t { none, queued, sent };
  Continue continues = Continue::none;  // state of the 100 Continue
  Buffer interim;                       // the encoded fields of an interim response that has not been sent
  int body_refusal = 0;                 // the status for an error of the body itself; 0: none
  bool drops_body = false;              // the body will not be read

  Response response;
  Buffer pulled;     // unsent bytes of a BodySource
  SpanReader spans;  // unsent pieces of SharedSpans; set when the first byte is sent
  Source source = Source::idle;
  bool failed = false;       // an internal error prevents the response
  bool deferred = false;     // nghttp2 waits for nghttp2_session_resume_data()
  bool body_unsent = false;  // part of the body has not been sent
  std::uint64_t sent_bytes = 0;
  Instant progress_at{};  // when the client last read enough of this stream
  bool starved = false;   // the last bytes sent used up a window

  bool tunnelled = false;    // an upgrade uses the stream; the members for the response's body are then unused
  Tunnel* tunnel = nullptr;  // null although tunnelled: the server's side has ended

  core::TaskGroup task;  // runs the handler or the body's source while it waits

 private:
  class BodyWait;
  void cut() override;
  BodyWait* body_wait_ = nullptr;
  State state_ = State::head;
};

}  // namespace sluice::http::h2
