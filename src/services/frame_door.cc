#include "services/frame_door.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <variant>

#include "base/buffer.h"
#include "http/claims.h"
#include "http/exchange.h"
#include "http/identity.h"
#include "http/response.h"
#include "http/standing.h"

namespace sluice::services {
namespace {

msg::ErrorCode code_of(int status) {
  switch (status) {
    case 401:
      return msg::ErrorCode::unauthorized;
    case 429:
    case 502:
    case 503:
    case 504:
      return msg::ErrorCode::overloaded;
    case 500:
      return msg::ErrorCode::internal;
    default:
      return msg::ErrorCode::forbidden;
  }
}

msg::Denial denial_of(const http::Response& response) {
  msg::Denial denial{.code = code_of(response.status), .text = std::string(http::reason_phrase(response.status))};
  if (const auto* const body = std::get_if<Buffer>(&response.body)) {
    const auto members = http::Claims::parse(body->view());  // of application/problem+json
    const http::Claim* const detail = members != nullptr ? members->find("detail") : nullptr;
    if (detail != nullptr && !detail->text.empty()) denial.text = detail->text;
  }
  return denial;
}

core::Task<void> end_of(http::Standing standing, core::Reactor& reactor) { co_await standing.end(reactor); }

// The rest of an exchange whose client has a session.
std::shared_ptr<void> rest_of(http::Exchange& exchange) {
  return {exchange.continue_upgraded().release(), [](http::Exchange* rest) {
            if (rest == nullptr) return;
            rest->end({.status = 101, .broken = false});
            delete rest;
          }};
}

}  // namespace

core::Task<std::expected<msg::Admission, msg::Denial>> FrameDoor::admit(const msg::Caller& caller) {
  const Instant begun = reactor_.clock();
  const std::string authorization = "Bearer " + std::string(caller.token);
  const http::Field field{"authorization", authorization};
  http::Exchange exchange;
  http::Request& request = exchange.request;
  request.method = http::Method::get;
  request.version = http::Version::http11;
  request.method_text = "FRAMES";
  request.target = route_.name;
  request.path = request.segments = "/";
  if (route_.wants_token) request.fields = {&field, 1};
  request.peer = request.connection_peer = caller.peer;
  request.secure = caller.secure;
  request.certificate = caller.certificate;
  request.route = route_.id;
  exchange.pin.hold(pinned_);

  std::optional<http::Response> refusal = co_await exchange.ask(filters_);
  http::Response response;
  response.status = 101;
  if (refusal) response = std::move(*refusal);
  exchange.filter(response);
  std::expected<msg::Admission, msg::Denial> answer;
  if (refusal) {
    answer = std::unexpected(denial_of(response));
    exchange.end({.status = response.status, .broken = false});
  } else {
    answer->handshake = {.peer = std::string(caller.peer), .secure = caller.secure};
    if (const auto claims = http::shared_claims_of(exchange)) {
      for (const http::Claim& claim : claims->all()) answer->handshake.claims.emplace_back(claim.path, claim.text);
    }
    const http::Standing standing(exchange);
    if (standing.next_look(reactor_) != never) answer->standing = end_of(standing, reactor_);
    answer->held = rest_of(exchange);
  }
  if (observer_ != nullptr) {
    observer_->completed({.exchange = &exchange,
                          .method = http::Method::get,
                          .secure = caller.secure,
                          .peer = caller.peer,
                          .status = response.status,
                          .body_bytes = 0,
                          .duration = std::max(reactor_.clock() - begun, Duration{}),
                          .broken = false});
  }
  co_return answer;
}

}  // namespace sluice::services
