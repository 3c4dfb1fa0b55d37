#include "gateway/limits/rate_limit.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "gateway/policy_checks.h"
#include "http/claims.h"
#include "http/identity.h"

namespace sluice::gateway::limits {
namespace {

constexpr std::int64_t second_ns = 1'000'000'000;
constexpr std::int64_t longest_ns = 40'000 * (24 * 3600 * second_ns);  // of a whole burst, about 110 years

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Tells the client when a retry may succeed.
void add_retry_after(http::Response& response, std::int64_t wait_ns) {
  response.fields.add_owned("Retry-After", std::to_string(std::max<std::int64_t>(divide_up(wait_ns, second_ns), 1)));
}

// A String of Structured Fields (RFC 9651, 3.3.3). Characters that are not allowed in it become '_'.
std::string quoted(std::string_view name) {
  std::string text = "\"";
  for (const char c : name) text += c < 0x20 || c > 0x7e || c == '"' || c == '\\' ? '_' : c;
  return text + '"';
}

}  // namespace

std::optional<WrittenRate> parse_rate(std::string_view text) {
  WrittenRate rate;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rate.requests);
  const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  if (error != std::errc{} || rate.requests == 0 || rate.requests > 1'000'000) return std::nullopt;
  if (unit == "/s") rate.period_ns = second_ns;
  if (unit == "/m") rate.period_ns = 60 * second_ns;
  if (unit == "/h") rate.period_ns = 3600 * second_ns;
  if (unit == "/d") rate.period_ns = 24 * 3600 * second_ns;
  if (rate.period_ns == 0) return std::nullopt;
  return rate;
}

void RateLimitOptions::check(PolicyChecks& checks) const {
  if (!burst || checks.has_errors()) return;
  const std::int64_t most = longest_ns / rate_of(*parse_rate(rate), burst).interval_ns;
  if (*burst <= most) return;
  checks.complain(checks.name.position,
                  fmt::format("[policy.{}] has a \"burst\" of more than {}, for which its \"rate\" is too low",
                              checks.name.value, most));
}

Rate rate_of(const WrittenRate& written, std::optional<std::uint32_t> burst) {
  // The interval is rounded up: the rate is never above the written one, and at most 0.1 % below.
  const std::int64_t interval_ns = divide_up(written.period_ns, written.requests);
  return {.interval_ns = interval_ns,
          .burst = std::min<std::int64_t>(burst.value_or(written.requests), longest_ns / interval_ns)};
}

RateLimitPolicy::RateLimitPolicy(const RateLimitOptions& options, std::string_view name,
                                 const std::shared_ptr<Shared>& shared, core::Reactor& reactor, core::MeshPort& port)
    : rate_(rate_of(*parse_rate(options.rate), options.burst)),
      burst_(options.burst),
      claim_(options.rate_claim),
      tells_always_(options.tell == Tell::always),
      item_(quoted(name)),
      policy_(policy_of(rate_)),
      keys_(parse_key_parts(options.per.items), shared->secret),
      limiter_(RateLimiter::of(shared, reactor, port, rate_,
                               static_cast<std::uint32_t>(divide_up(options.keys, port.size())))) {
  if (limiter_->user() == nullptr) begin();
}

std::string RateLimitPolicy::policy_of(const Rate& rate) const {
  return item_ + ";q=" + std::to_string(rate.burst) +
         ";w=" + std::to_string(divide_up(rate.burst * rate.interval_ns, second_ns));
}

Rate RateLimitPolicy::rate_for(const http::Exchange& exchange) const {
  if (claim_.empty()) return rate_;
  const http::Claims* const claims = http::claims_of(exchange);
  const http::Claim* const claim = claims != nullptr ? claims->find(claim_) : nullptr;
  const auto written = claim != nullptr ? parse_rate(claim->text) : std::nullopt;
  return written ? rate_of(*written, burst_) : rate_;
}

core::Async<std::optional<http::Response>> RateLimitPolicy::before(http::Exchange& exchange, http::Slot& slot) {
  const Rate rate = rate_for(exchange);
  auto taking = limiter_->take(keys_.make(exchange), rate);
  if (taking.ready()) return judge(taking.get(), rate, slot);
  ++counters_.waited;
  return judge_later(taking.take_task(), rate, slot);
}

core::Task<std::optional<http::Response>> RateLimitPolicy::judge_later(core::Task<RateLimiter::Verdict> taking,
                                                                       Rate rate, http::Slot& slot) {
  co_return judge(co_await std::move(taking), rate, slot);
}

std::optional<http::Response> RateLimitPolicy::judge(const RateLimiter::Verdict& verdict, const Rate& rate,
                                                     http::Slot& slot) {
  using Answer = RateLimiter::Answer;
  switch (verdict.answer) {
    case Answer::allowed:
      ++counters_.allowed;
      slot.value = std::uintptr_t{verdict.left} + 1;  // 0: add no fields
      return std::nullopt;
    case Answer::alone:
      ++counters_.allowed;
      return std::nullopt;
    case Answer::refused: {
      ++counters_.refused;
      http::Response response = http::problem(429, "More requests have come than may. Retry-After says when to go on.");
      add_retry_after(response, verdict.wait_ns);
      tell(0, rate, response);
      return response;
    }
    case Answer::full:
    case Answer::late: {
      ++(verdict.answer == Answer::full ? counters_.full : counters_.late);
      http::Response response = http::problem(503, "The server cannot count this request now.");
      add_retry_after(response, second_ns);
      return response;
    }
  }
  std::unreachable();
}

void RateLimitPolicy::after(http::Exchange& exchange, http::Slot& slot, http::Response& response) {
  if (!tells_always_ || slot.value == 0) return;
  tell(static_cast<std::uint32_t>(slot.value - 1), rate_for(exchange), response);
}

// draft-ietf-httpapi-ratelimit-headers-10: the remaining tokens, and the seconds until all are available again.
void RateLimitPolicy::tell(std::uint32_t left, const Rate& rate, http::Response& response) const {
  if (rate == rate_) {
    response.fields.add_trusted("RateLimit-Policy", policy_);
  } else {
    response.fields.add_owned("RateLimit-Policy", policy_of(rate));
  }
  std::array<char, 48> numbers;
  const auto put = [&](char* at, std::string_view before, std::int64_t number) {
    at = std::ranges::copy(before, at).out;
    return std::to_chars(at, numbers.data() + numbers.size(), number).ptr;
  };
  char* end = put(numbers.data(), ";r=", left);
  end = put(end, ";t=", divide_up((rate.burst - left) * rate.interval_ns, second_ns));
  std::string value;
  value.reserve(item_.size() + numbers.size());
  value.append(item_).append(numbers.data(), end);
  response.fields.add_owned("RateLimit", std::move(value));
}

Readings RateLimitPolicy::readings() const {
  const auto count = [](std::uint64_t number) { return static_cast<double>(number); };
  return {
      counter("sluice_rate_limit_allowed_total", "Requests within the limit.", count(counters_.allowed)),
      counter("sluice_rate_limit_refused_total", "Requests over the limit, answered 429.", count(counters_.refused)),
      counter("sluice_rate_limit_evicted_total",
              "Keys that were forgotten before their burst was back, to make room for new ones. Raise `keys`.",
              limiter_->user() == this ? count(limiter_->evicted()) : 0),
      counter("sluice_rate_limit_full_total", "Requests with a new key while no key could be evicted, answered 503.",
              count(counters_.full)),
      counter("sluice_rate_limit_late_total", "Requests whose key's core did not answer in time, answered 503.",
              count(counters_.late)),
      counter("sluice_rate_limit_waits_total", "Requests that waited for another core to say.",
              count(counters_.waited)),
      gauge("sluice_rate_limit_keys", "Keys that are remembered.", limiter_->user() == this ? limiter_->keys() : 0)};
}

}  // namespace sluice::gateway::limits
