#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "core/task.h"
#include "gateway/proxy/fields.h"
#include "http/answer_fields.h"
#include "http/exchange.h"
#include "http/fields.h"
#include "http/request.h"

namespace sluice::gateway {

// Passes a server's interim responses on to the client.
class PassedInterim final : public http::InterimSink {
 public:
  PassedInterim(http::InterimSink* client, const http::AnswerFields* ours) : client_(client), ours_(ours) {}

  // Null if the client takes none.
  [[nodiscard]] http::InterimSink* sink() { return client_ != nullptr ? this : nullptr; }
  void send_interim(int status, std::span<const http::Field> fields) override {
    http::FieldList passed;
    forward_fields(fields, passed);
    if (ours_ != nullptr) remove_ours(*ours_, passed);
    client_->send_interim(status, passed.items());
  }

 private:
  http::InterimSink* const client_;
  const http::AnswerFields* const ours_;
};

// A request's body with the trailers that are passed on to the server.
class PassedBody final : public http::BodyReader {
 public:
  // `client_field`: as in ForwardedRequest::Options.
  PassedBody(const http::Exchange& exchange, std::string_view client_field)
      : exchange_(exchange), client_field_(client_field) {}

  core::Task<Result<std::string_view>> read() override { return exchange_.request.body->read(); }
  std::span<const http::Field> trailers() override {
    forward_request_trailers(exchange_, client_field_, exchange_.request.body->trailers(), trailers_);
    return trailers_;
  }

 private:
  const http::Exchange& exchange_;
  const std::string_view client_field_;
  std::vector<http::Field> trailers_;
};

}  // namespace sluice::gateway
