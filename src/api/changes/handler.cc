#include "api/changes/handler.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "api/refusals.h"
#include "http/identity.h"
#include "http/standing.h"

namespace sluice::api::changes {
namespace {

constexpr std::size_t pulled_bytes = 16 * 1024;
}  // namespace

// With LIMIT 0 nothing is evaluated, but the permission to read the tables is checked.
std::string permission_statement(std::string_view get) {
  if (get.empty()) return "SELECT 1 AS allowed";
  while (!get.empty() && std::string_view(" \t\r\n;").contains(get.back())) get.remove_suffix(1);
  // The line end closes a comment at the end of the statement.
  return "SELECT 1 AS allowed FROM (" + std::string(get) + "\n) AS endpoint LIMIT 0";
}

class Handler::Stream final : public http::BodySource {
 public:
  Stream(std::shared_ptr<const Plan> plan, Feed& feed, const http::Exchange& exchange, Duration retry)
      : plan_(std::move(plan)), feed_(feed), standing_(exchange) {
    ++feed_.counters.clients;
    const auto retry_ms = std::chrono::duration_cast<std::chrono::milliseconds>(retry).count();
    greeting_.append("retry: " + std::to_string(retry_ms) + "\n");
    const std::string_view last = exchange.request.field("last-event-id");
    if (last.empty()) {
      // A client that is disconnected before the first event can resume from here.
      seen_ = feed_.last();
      greeting_.append("id: " + event_id(feed_.boot(), seen_) + "\n\n");
    } else if (const auto seen = feed_.resume(last)) {
      seen_ = *seen;
      greeting_.append("\n");
    } else {
      feed_.reset(seen_, greeting_, "unknown");
    }
  }
  ~Stream() override { --feed_.counters.clients; }

  core::Async<Result<Progress>> pull(Buffer& out) override {
    if (over()) return Result<Progress>(Progress::done);
    if (take(out)) return Result<Progress>(Progress::more);
    return wait(out);
  }

 private:
  [[nodiscard]] bool over() const { return feed_.draining() || standing_.is_over(feed_.reactor()); }

  bool take(Buffer& out) {
    const std::size_t before = out.size();
    if (!greeting_.empty()) {
      out.append(greeting_.view());
      greeting_.release();
    }
    feed_.read(seen_, out, pulled_bytes);
    return out.size() != before;
  }

  core::Task<Result<Progress>> wait(Buffer& out) {
    const Instant beat = feed_.reactor().now() + plan_->options.heartbeat;
    for (;;) {
      Feed::Wait news(feed_, std::min(beat, standing_.next_look(feed_.reactor())));
      co_await news;
      if (over()) co_return Progress::done;
      if (take(out)) co_return Progress::more;
      if (feed_.reactor().now() < beat) continue;  // the client has already had this event from another core
      out.append(":\n\n");
      co_return Progress::more;
    }
  }

  const std::shared_ptr<const Plan> plan_;
  Feed& feed_;
  const http::Standing standing_;  // of the client's credentials
  std::uint64_t seen_ = 0;
  Buffer greeting_;
};

Handler::Handler(std::shared_ptr<const Plan> plan, Feed& feed, sql::Database& database, core::Reactor& reactor,
                 TroubleLog* trouble)
    : plan_(std::move(plan)),
      feed_(feed),
      database_(database),
      reactor_(reactor),
      failure_(plan_->path, trouble, plan_->errors.get(), plan_->guards ? plan_->guards->credential() : ""),
      random_(static_cast<std::uint32_t>(reactor.wall_clock_ns())) {}

core::Async<http::Response> Handler::handle(http::Exchange& exchange) {
  http::Request& request = exchange.request;
  if (request.body != nullptr) [[unlikely]]
    return handle_without_body(exchange, *this);
  bool asks_first = plan_->role != nullptr;
  if (plan_->guards) {
    auto verdict = plan_->guards->judge(exchange, {});
    if (verdict.refusal) return std::move(*verdict.refusal);
    asks_first |= verdict.wanted.has_value();
  }
  if (auto refusal = plan_->query.refuse(request)) return std::move(*refusal);
  if (asks_first) return answer_if_allowed(exchange);
  return answer(exchange);
}

core::Task<http::Response> Handler::answer_if_allowed(http::Exchange& exchange) {
  std::vector<sql::Setting> settings;
  if (plan_->role) {
    auto made = settings_of(*plan_->role, exchange);
    if (!made) co_return std::move(made.error());
    settings = std::move(*made);
  }
  if (plan_->guards) {
    auto refusal = co_await plan_->guards->ask(exchange, database_, {.settings = settings}, failure_);
    if (refusal) co_return std::move(*refusal);
  }
  if (plan_->permission) {
    auto refusal = co_await ask_permission(settings);
    if (refusal) co_return std::move(*refusal);
  }
  co_return answer(exchange);
}

core::Task<std::optional<http::Response>> Handler::ask_permission(std::span<const sql::Setting> settings) {
  const std::vector<sql::Argument> nothing(plan_->permission->parameters.size());
  auto cursor = co_await database_.query(*plan_->permission, nothing, {.settings = settings});
  if (!cursor) co_return failure_.answer(cursor.error(), Failed::reading_alone);
  for (bool last = false; !last;) {
    auto block = co_await (*cursor)->next();
    if (!block) co_return failure_.answer(block.error(), Failed::reading_alone);
    last = block->last;
  }
  co_return std::nullopt;
}

http::Response Handler::answer(const http::Exchange& exchange) {
  const http::Request& request = exchange.request;
  // A browser does not reconnect after an error. During shutdown it therefore gets a stream that ends at once.
  if (feed_.counters.clients >= plan_->options.clients) {
    ++feed_.counters.refused;
    http::Response response = http::problem(503, "Too many clients listen for changes.");
    response.fields.add("Retry-After", "5");
    return response;
  }
  http::Response response;
  response.fields.add_trusted("Content-Type", "text/event-stream");
  // no-transform: a compressor would delay events and need a window for each client.
  response.fields.add_trusted("Cache-Control", "no-store, no-transform");
  response.fields.add_trusted("X-Accel-Buffering", "no");  // tells nginx not to buffer events
  response.body = std::make_unique<Stream>(plan_, feed_, exchange, retry());
  return response;
}

Duration Handler::retry() {
  const Duration least = plan_->options.retry;
  return least + least / 2 * static_cast<int>(random_() % 1024) / 1024;
}

}  // namespace sluice::api::changes
