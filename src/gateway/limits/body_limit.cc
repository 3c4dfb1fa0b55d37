#include "gateway/limits/body_limit.h"

#include "http/h1/parser.h"

namespace sluice::gateway::limits {

core::Async<std::optional<http::Response>> BodyLimitPolicy::before(http::Exchange& exchange, http::Slot&) {
  http::Request& request = exchange.request;
  if (request.body == nullptr) return std::optional<http::Response>();
  const auto announced = http::h1::parse_content_length(request.field("content-length"));
  if (announced.value_or(0) > size_) {
    ++refused_;
    return std::optional(http::problem(413, http::describe_body_refusal(413)));
  }
  request.body->limit_to(size_);
  return std::optional<http::Response>();
}

Readings BodyLimitPolicy::readings() const {
  return {counter("sluice_body_limit_refused_total", "Requests that announced a longer body: 413.",
                  static_cast<double>(refused_))};
}

}  // namespace sluice::gateway::limits
