#include "http/h2/stream.h"

#include <algorithm>
#include <utility>

#include "http/h2/session.h"

namespace sluice::http::h2 {
namespace {

constexpr std::size_t kept_buffer_bytes = 64 * 1024;
constexpr std::size_t nghttp2_bytes = 512;  // memory of nghttp2 for a stream
constexpr std::size_t handler_bytes =
    9 * 1024;  // coroutine frames of a waiting handler, measured with one that reads a body

void forget(Buffer& buffer) {
  if (buffer.capacity() > kept_buffer_bytes) buffer.release();
  buffer.clear();
}

}  // namespace

// Waits until more of the body arrives or the body ends (true), or until the deadline passes (false).
class Stream::BodyWait : core::Timer {
 public:
  BodyWait(Stream& stream, core::Reactor& reactor, Duration patience)
      : Timer(&BodyWait::expired), stream_(stream), reactor_(reactor), patience_(patience) {}
  ~BodyWait() { unlink(); }

  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> caller) noexcept {
    SLUICE_ASSERT(stream_.body_wait_ == nullptr);
    caller_ = caller;
    stream_.body_wait_ = this;
    reactor_.timers().schedule(*this, reactor_.now() + patience_);
  }
  bool await_resume() const noexcept { return !late_; }

  void wake() {
    unlink();
    caller_.resume();
  }
  // Ends the wait in the loop's next turn.
  void end_soon() { reactor_.timers().schedule(*this, reactor_.now()); }

 private:
  static void expired(core::Timer& timer) noexcept {
    auto& self = static_cast<BodyWait&>(timer);
    self.late_ = true;
    self.wake();
  }
  void unlink() {
    if (stream_.body_wait_ != this) return;
    stream_.body_wait_ = nullptr;
    reactor_.timers().cancel(*this);
  }

  Stream& stream_;
  core::Reactor& reactor_;
  Duration patience_;
  std::coroutine_handle<> caller_;
  bool late_ = false;
};

Stream::~Stream() { task.cancel(); }

void Stream::begin(Session& owner, std::int32_t number) {
  session = &owner;
  Share::begin(owner.engine_.bodies, owner.held_);
  id = number;
  body_limit = owner.options().body_limit;
  body_bound = UINT64_MAX;
  patience = Patience(owner.options().body_timeout, owner.options().slowest_client);
}

void Stream::enter(State to) {
  SLUICE_ASSERT(std::to_underlying(to) == std::to_underlying(state_) + 1 ||
                (state_ == State::queued && to == State::answered));
  state_ = to;
}

void Stream::reset() {
  task.cancel();
  vacate();
  SLUICE_ASSERT(body_wait_ == nullptr && !is_ready);
  session = nullptr;
  id = 0;
  next = previous = nullptr;
  response.body.emplace<std::monostate>();
  response.upgrade.reset();
  forget_request();
  exchange.request.method = {};
  state_ = State::head;
  is_request = client_done = malformed = false;
  forget(arrived);
  forget(given);
  received_bytes = sent_bytes = 0;
  body_refusal = 0;
  continues = Continue::none;
  interim.release();
  drops_body = false;
  tunnelled = false;
  tunnel = nullptr;
  forget(pulled);
  source = Source::idle;
  failed = deferred = body_unsent = false;
}

void Stream::forget_request() {
  exchange.reset();
  head.reset();
  trailer_fields.clear();
  exchange.request.fields = {};
  exchange.request.upgrade = {};
  response.fields = {};
  arena.reset();
}

core::Task<Result<std::string_view>> Stream::read() {
  if (!given.empty()) {
    give_back(given.size());
    session->consumed(*this, given.size());
    given.clear();
  }
  for (;;) {
    if (body_refusal == 0 && std::max(received_bytes, head.content_length().value_or(0)) > body_limit) {
      body_refusal = 413;
    }
    if (body_refusal == 503) co_return no_memory;
    if (body_refusal != 0) co_return fail(body_refusal == 413 ? Errc::limit : Errc::timed_out);
    if (!arrived.empty()) {
      given.swap(arrived);
      co_return given.view();
    }
    if (client_done) co_return std::string_view{};
    if (continues == Continue::none && state_ == State::handled && head.expects_continue()) {
      session->send_continue(*this);
    }
    const Instant begin = session->reactor().now();
    const Waiting waiting(*this);
    if (!co_await BodyWait(*this, session->reactor(), patience.left())) body_refusal = is_cut() ? 503 : 408;
    patience.spend(session->reactor().now() - begin, arrived.size());
  }
}

void Stream::allow_more(std::uint64_t bytes) {
  const ServerOptions& options = session->options();
  body_limit =
      std::min(body_bound, std::max(options.body_limit, std::min(options.body_limit + bytes, options.most_body)));
}

void Stream::limit_to(std::uint64_t bytes) {
  body_bound = std::min(body_bound, bytes);
  body_limit = std::min(body_bound, std::max(session->options().body_limit, session->options().most_body));
}

void Stream::hurry(std::uint32_t bytes_per_s) {
  patience = Patience(session->options().body_timeout, std::max(session->options().slowest_client, bytes_per_s));
}

Result<void> Stream::keep(std::size_t bytes) {
  switch (take(bytes)) {
    case Taken::yes:
      return {};
    case Taken::no:
      body_refusal = 503;
      return no_memory;
    case Taken::too_long:
      body_refusal = 413;
      return fail(Errc::limit);
  }
  std::unreachable();
}

void Stream::send_interim(int status, std::span<const Field> fields) { session->send_interim(*this, status, fields); }

bool Stream::occupy() {
  const std::size_t head_bytes = arena.extra_bytes() + head.count() * sizeof(Field);
  return Share::occupy(sizeof(Stream) + arena_bytes + nghttp2_bytes + head_bytes, handler_bytes);
}

void Stream::forget_kept() {
  if (has_no_body()) return;
  handled();
  if (!is_cut()) give_back(static_cast<std::size_t>(bytes()) - unread_bytes());
}

std::size_t Stream::drop_unread() {
  const std::size_t unread = unread_bytes();
  arrived.release();
  given.release();
  release();
  return unread;
}

bool Stream::hold_answer() {
  const std::size_t bytes = whole_bytes_of(response.body);
  return bytes <= BodyBudget::small_answer_bytes || Share::hold_answer(bytes);
}

void Stream::cut() {
  if (body_wait_ != nullptr) body_wait_->end_soon();
  if (state_ >= State::answered) session->cut(*this);
}

void Stream::wake_reader() {
  if (body_wait_ != nullptr) body_wait_->wake();
}

}  // namespace sluice::http::h2
