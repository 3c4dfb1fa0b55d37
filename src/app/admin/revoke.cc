#include "app/admin/revoke.h"

#include <charconv>
#include <cmath>
#include <expected>
#include <optional>
#include <string_view>
#include <utility>

#include "base/utf8.h"
#include "http/query_string.h"
#include "runtime/admin.h"

namespace sluice::app {
namespace {

using gateway::jwt::Revocation;
using gateway::jwt::Revocations;

constexpr double longest_s = 1000.0 * 366 * 24 * 3600;

// Seconds of the Unix epoch, maybe with a fraction.
std::optional<double> parse_time(std::string_view text) {
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  const bool is_time = error == std::errc() && end == text.data() + text.size() && std::isfinite(seconds);
  return is_time ? std::optional(seconds) : std::nullopt;
}

struct Order {
  std::vector<Revocation> entries;
  std::string policy;
};

// The error is for the client.
std::expected<Order, std::string> parse(std::string_view text, double now_s) {
  Order order;
  std::optional<double> before;
  std::optional<double> until;
  http::QueryPairs pairs(text);
  while (!pairs.done()) {
    const auto [name, encoded] = pairs.next();
    std::string value;
    if (!http::append_decoded(encoded, value) || !is_utf8(value) || value.empty()) {
      return std::unexpected("The value of \"" + std::string(name) + "\" cannot be read.");
    }
    if (name == "jti") {
      order.entries.push_back({.id = std::move(value)});
    } else if (name == "sub") {
      order.entries.push_back({.subject = std::move(value)});
    } else if (name == "sid") {
      order.entries.push_back({.session = std::move(value)});
    } else if (name == "policy" && order.policy.empty()) {
      order.policy = std::move(value);
    } else if ((name == "before" && !before) || (name == "exp" && !until)) {
      std::optional<double>& time = name == "exp" ? until : before;
      time = parse_time(value);
      if (!time) return std::unexpected("\"" + std::string(name) + "\" is a time in seconds of the Unix epoch.");
    } else {
      return std::unexpected("The query has a parameter that is unknown or repeated: " + std::string(name));
    }
  }
  if (until && (*until + Revocations::longest_leeway_s <= now_s || *until > now_s + longest_s)) {
    return std::unexpected("\"exp\" is past, or too far away for seconds of the Unix epoch.");
  }
  if (order.entries.empty()) return std::unexpected("The query names no token: ?jti=ID, ?sid=SESSION or ?sub=SUBJECT");
  for (Revocation& entry : order.entries) {
    if (before && entry.subject.empty()) return std::unexpected("\"before\" is for the tokens of a \"sub\".");
    // Issuers write whole seconds: a token of the current second is included.
    if (!entry.subject.empty()) entry.before_s = before.value_or(std::floor(now_s) + 1);
    if (until) entry.until_s = *until;
  }
  return order;
}

}  // namespace

std::expected<std::shared_ptr<gateway::jwt::Revocations>, http::Response> AdminRevoke::find(
    std::string_view policy) const {
  const Plan& plan = workers_[core_.index()]->plan();
  if (policy.empty()) {
    if (plan.revocations.size() == 1) return plan.revocations[0];
    return std::unexpected(plan.revocations.empty()
                               ? http::problem(404, "No policy has a file of revocations.")
                               : http::problem(400, "There are several files of revocations: add &policy=NAME"));
  }
  const auto index = plan.options.find_policy(policy);
  auto found = index ? plan.policies[*index]->options.revocations : nullptr;
  if (found == nullptr) return std::unexpected(http::problem(404, "No such policy has a file of revocations."));
  return found;
}

core::Async<http::Response> AdminRevoke::handle(http::Exchange& exchange) {
  const http::Request& request = exchange.request;
  auto order = parse(request.query, static_cast<double>(core_.reactor().wall_clock_ns()) / 1e9);
  if (!order) return http::problem(400, order.error());
  auto at = find(order->policy);
  if (!at) return std::move(at.error());
  return revoke(std::move(*at), std::move(order->entries));
}

core::Task<http::Response> AdminRevoke::revoke(std::shared_ptr<Revocations> at, std::vector<Revocation> entries) {
  const double now_s = static_cast<double>(core_.reactor().wall_clock_ns()) / 1e9;
  auto work = [at = std::move(at), entries = std::move(entries), now_s] { return at->add(entries, now_s); };
  const auto done = co_await threads_.run(core_.mailbox(), std::move(work));
  if (!done) co_return http::problem(503, "Too many ask for this at once, or the server is ending.");
  if (!*done) co_return http::problem(500, "Nothing is revoked: " + done->error());
  co_return runtime::text_response("text/plain", "revoked\n");
}

}  // namespace sluice::app
