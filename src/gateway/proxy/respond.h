#pragma once

#include <string>
#include <utility>
#include <vector>

#include "gateway/proxy/options.h"
#include "http/handler.h"

namespace sluice::gateway {

// [route.respond]: sends the same answer to every request. `options` outlives this object and its answers.
class Respond final : public http::Handler {
 public:
  explicit Respond(const RespondOptions& options) : options_(options) {}

  [[nodiscard]] core::Async<http::Response> handle(http::Exchange&) override {
    http::Response response;
    response.status = static_cast<int>(options_.status);
    for (const auto& header : options_.headers) response.fields.add(header.name.value, header.value.value);
    if (options_.body.empty() || http::has_no_body(response.status)) return response;
    response.fields.add("Content-Type", options_.type.value);
    response.body = http::SharedBytes{.owner = nullptr, .bytes = options_.body};
    return response;
  }

 private:
  const RespondOptions& options_;
};

}  // namespace sluice::gateway
