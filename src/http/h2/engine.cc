#include "http/h2/engine.h"

#include <new>

#include <nghttp2/nghttp2.h>

#include "http/h2/guard.h"
#include "http/h2/session.h"
#include "http/h2/stream.h"

namespace sluice::http::h2 {
namespace {

constexpr std::size_t most_spare_streams = 1024;

}  // namespace

Engine::Engine(core::Reactor& reactor, Handler& dispatcher, const ServerOptions& options, Observer* observer,
               ServerCounters& counters, BodyBudget& bodies)
    : reactor(reactor),
      dispatcher(dispatcher),
      options(options),
      observer(observer),
      counters(counters),
      bodies(bodies) {
  if (nghttp2_session_callbacks_new(&callbacks) != 0 || nghttp2_option_new(&session_options) != 0) {
    throw std::bad_alloc();
  }
  Session::install(*callbacks);
  spare_streams_.reserve(most_spare_streams);
  nghttp2_option_set_no_auto_window_update(session_options, 1);
  nghttp2_option_set_no_http_messaging(session_options, 1);  // RequestHead enforces the rules for messages
  nghttp2_option_set_no_closed_streams(session_options, 1);
  nghttp2_option_set_max_send_header_block_length(session_options, 1024 * 1024);
  // Higher than the limits of FrameGuard, so that the guard ends the connection first and reports a more precise
  // reason.
  nghttp2_option_set_stream_reset_rate_limit(session_options, 10 * FrameGuard::reset_burst, 10'000);
  nghttp2_option_set_max_outbound_ack(session_options, 2 * FrameGuard::idle_frame_burst);
  follow_options();
}

void Engine::follow_options() {
  limits = {.size = options.header_limit, .target_size = options.target_limit, .fields = options.field_limit};
  nghttp2_option_set_peer_max_concurrent_streams(session_options, options.http2_streams);
  nghttp2_option_set_max_continuations(session_options, FrameGuard(options.header_limit).most_continuations() + 1);
}

Engine::~Engine() {
  nghttp2_option_del(session_options);
  nghttp2_session_callbacks_del(callbacks);
}

std::unique_ptr<Stream> Engine::take_stream() {
  if (spare_streams_.empty()) return std::make_unique<Stream>();
  auto stream = std::move(spare_streams_.back());
  spare_streams_.pop_back();
  return stream;
}

void Engine::give_back(std::unique_ptr<Stream> stream) {
  stream->reset();
  if (spare_streams_.size() < most_spare_streams) spare_streams_.push_back(std::move(stream));
}

std::string_view Engine::date() {
  if (date_turn_ != reactor.now()) {
    date_turn_ = reactor.now();
    date_ = dates_.at(reactor.wall_clock_ns());
  }
  return date_;
}

}  // namespace sluice::http::h2
