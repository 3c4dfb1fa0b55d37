#include "gateway/proxy/proxy.h"

#include <optional>
#include <string>
#include <utility>

#include "http/h1/parser.h"

namespace sluice::gateway {
namespace {

using core::Async;
using core::Task;
using http::Response;
using http::client::Pool;
using http::client::ResponseHead;
using Kind = http::h1::BodyFraming::Kind;

// RFC 9110, 9.2.2.
bool is_idempotent(http::Method method) {
  return method == http::Method::get || method == http::Method::head || method == http::Method::put ||
         method == http::Method::delete_ || method == http::Method::options;
}

// For the log.
std::string describe_failure(const Error& error, http::h1::Reason reason) {
  if (reason != http::h1::Reason::none) return "it gave no valid response: " + std::string(describe(reason));
  return "it gave no response: " + error.text();
}

Response answer_for(const Error& error) {
  if (error.code == Errc::timed_out) return http::problem(504, "The server behind this one did not answer in time.");
  return http::problem(502, "The server behind this one gave no answer.");
}

}  // namespace

// A server's response: what the fields refer to, and the body as it comes.
class Proxy::Responding final : public http::BodySource {
 public:
  Responding(Upstream::Server& server, Pool::Lease lease) : server_(server), lease_(std::move(lease)) {}

  [[nodiscard]] http::client::Connection& connection() { return *lease_; }
  // Of the response to HEAD: that of the one to GET.
  void set_size(const ResponseHead& head, http::Method method) {
    if (head.body.kind == Kind::length) size_ = head.body.length;
    if (head.body.kind != Kind::none) return;
    size_ = 0;
    if (method != http::Method::head) return;
    size_.reset();
    for (const auto& [name, value] : head.fields) {
      if (http::same_name(name, "content-length")) size_ = http::h1::parse_content_length(value);
    }
  }

  [[nodiscard]] Async<Result<Progress>> pull(Buffer& out) override {
    auto reading = lease_->read(out);
    if (!reading.ready()) return wait(reading.take_task());
    note(reading.get());
    return reading;
  }
  [[nodiscard]] std::optional<std::uint64_t> size() const override { return size_; }
  [[nodiscard]] std::span<const http::Field> trailers() const override { return trailers_.items(); }

 private:
  Task<Result<Progress>> wait(Task<Result<Progress>> reading) {
    auto progress = co_await std::move(reading);
    note(progress);
    co_return progress;
  }
  void note(const Result<Progress>& progress) {
    if (!progress) ++server_.failures;
    if (progress && *progress == Progress::done) forward_trailers(lease_->trailers(), trailers_);
  }

  Upstream::Server& server_;
  Pool::Lease lease_;
  std::optional<std::uint64_t> size_;
  http::FieldList trailers_;
};

Async<Response> Proxy::handle(http::Request& request) { return forward(request); }

Task<Response> Proxy::forward(http::Request& request) {
  bool fresh = false;
  std::size_t unreachable = 0;
  for (;;) {
    Upstream::Server& server = upstream_->next();
    auto lease = co_await server.pool.take(fresh ? Pool::Which::fresh : Pool::Which::any);
    if (!lease) {
      server.trouble.met("it cannot be reached: " + lease.error().text());
      if (++unreachable < upstream_->size()) continue;
      co_return answer_for(lease.error());
    }
    const bool was_used = lease->was_used();
    auto responding = std::make_unique<Responding>(server, std::move(*lease));
    http::client::Connection& connection = responding->connection();
    ++server.requests;
    const auto head = co_await connection.ask(forwarded_.make(request, server.address), request.body);
    if (head) {
      server.trouble.got_through();
      Response response;
      response.status = (*head)->status;
      forward_fields((*head)->fields, response.fields);
      responding->set_size(**head, request.method);
      response.body = std::move(responding);
      co_return response;
    }
    // The connection answers by itself for what is wrong with the client's body.
    if (connection.body_failed()) co_return http::problem(400);
    ++server.failures;
    const bool was_stale = was_used && head.error().code == Errc::closed && connection.nothing_came();
    if (was_stale && !fresh && request.body == nullptr && is_idempotent(request.method)) {
      fresh = true;
      continue;
    }
    server.trouble.met(describe_failure(head.error(), connection.reason()));
    co_return answer_for(head.error());
  }
}

}  // namespace sluice::gateway
