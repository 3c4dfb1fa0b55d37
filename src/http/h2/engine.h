#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/reactor.h"
#include "http/h1/response.h"
#include "http/h2/head.h"
#include "http/server_state.h"

struct nghttp2_option;
struct nghttp2_session_callbacks;

namespace sluice::http::h2 {

class Stream;

// Shared by the HTTP/2 connections of one core: the dispatcher that they serve, and the memory lent to them.
class Engine {
 public:
  Engine(core::Reactor& reactor, Handler& dispatcher, const ServerOptions& options, Observer* observer,
         ServerCounters& counters, BodyBudget& bodies);
  Engine(const Engine&) = delete;
  ~Engine();  // must be destroyed after all sessions

  [[nodiscard]] std::unique_ptr<Stream> take_stream();
  void give_back(std::unique_ptr<Stream> stream);
  // Called when the options have changed. They apply to new sessions and responses.
  void follow_options();
  // The value of the Date field for this turn. The view stays valid until the response is sent.
  [[nodiscard]] std::string_view date();

  core::Reactor& reactor;
  Handler& dispatcher;
  const ServerOptions& options;
  Observer* const observer;
  ServerCounters& counters;
  BodyBudget& bodies;
  HeadLimits limits;  // for new sessions
  nghttp2_session_callbacks* callbacks = nullptr;
  nghttp2_option* session_options = nullptr;
  Buffer spare_output;    // lent to the connection that writes
  Buffer spare_input;     // lent to the tunnel that receives
  Buffer encoded_fields;  // lent to the frame being sent

 private:
  std::vector<std::unique_ptr<Stream>> spare_streams_;
  h1::DateCache dates_;
  Instant date_turn_ = never;
  std::string_view date_;
};

}  // namespace sluice::http::h2
