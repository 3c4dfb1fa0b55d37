#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/declare.h"
#include "gateway/limits/key.h"
#include "gateway/policy_kind.h"

namespace sluice::gateway::limits {

// Which answers have the fields RateLimit and RateLimit-Policy.
enum class Tell : std::uint8_t { refused, always };
inline NameOf<Tell> names_of(Tell) { return {{"refused", Tell::refused}, {"always", Tell::always}}; }

// A rate such as "100/s": a number of requests, and the period in which they may come.
struct WrittenRate {
  std::uint32_t requests = 0;
  std::int64_t period_ns = 0;
};
[[nodiscard]] std::optional<WrittenRate> parse_rate(std::string_view text);

// [policy.NAME] with type = "rate-limit"
struct RateLimitOptions {
  static constexpr PolicyKind kind{.name = "rate-limit",
                                   .about = "Requests above a rate are answered 429 with `Retry-After`.",
                                   .is_counted = true,
                                   .is_limit = true,
                                   .may_repeat = true};

  std::string rate;
  std::optional<std::uint32_t> burst;
  std::string rate_claim;
  OneOrMore<std::string> per;
  std::uint32_t keys = 100'000;
  Tell tell = Tell::refused;

  static std::string check_rate(std::string_view text) {
    return parse_rate(text) ? ""
                            : "must be a number of requests from 1 to 1000000 and \"/s\", \"/m\", \"/h\" or \"/d\"";
  }

  [[nodiscard]] std::vector<std::string> read_fields() const { return header_names(per.items); }

  // Checks that the whole burst does not take longer than times can say.
  void check(PolicyChecks& checks) const;

  template <class Visitor>
  static void declare(Visitor& v) {
    using Self = RateLimitOptions;
    v.field("rate", &Self::rate,
            "The number of requests that are allowed in the long run: `\"100/s\"`, `\"600/m\"`, `\"1000/h\"`, "
            "`\"10000/d\"`.",
            {.required = true, .check = check_rate});
    v.field("burst", &Self::burst,
            "How many requests may come at once after a pause. In any time t, at most `burst` + `rate` × t requests "
            "pass, over all cores. Without it, the number in `rate`.",
            {.min = 1, .max = 1'000'000});
    v.field(
        "rate_claim", &Self::rate_claim,
        "The claim with the rate of this request's `per`, such as `\"100/s\"`: a claim of its token, or a column of "
        "the `table` of its API key. `rate` applies if the request has no such claim, or if the claim is no rate.");
    v.field("per", &Self::per,
            "The values by which requests are counted: `client` (its IPv4 address, or the first 64 bits of its IPv6 "
            "address), `route`, `header.NAME`, `claim.NAME` or `path.NAME`. With a list, each combination of values is "
            "counted separately. A request that lacks the header, claim or parameter is counted by its client. The "
            "default is `client`.",
            {.check = check_key_part});
    v.field("keys", &Self::keys,
            "How many values of `per`, such as clients, the process remembers. Values whose whole burst is available "
            "again are forgotten first. If no value can be forgotten, requests with a new one are answered 503.",
            {.min = 1, .max = 10'000'000});
    v.field("tell", &Self::tell,
            "Which answers have the fields `RateLimit` and `RateLimit-Policy`: only those with status 429 "
            "(`refused`), or all (`always`).");
  }
};

// [policy.NAME] with type = "concurrency"
struct ConcurrencyOptions {
  static constexpr PolicyKind kind{
      .name = "concurrency",
      .about =
          "Limits how many requests are in progress at the same time. Further ones wait, or are answered 503 with "
          "`Retry-After`.",
      .is_counted = true,
      .is_limit = true,
      .may_repeat = true};

  std::uint32_t requests = 0;
  std::uint32_t queue = 0;
  Duration wait = 1s;
  OneOrMore<std::string> per;
  std::uint32_t keys = 10'000;

  [[nodiscard]] std::vector<std::string> read_fields() const { return header_names(per.items); }

  template <class Visitor>
  static void declare(Visitor& v) {
    using Self = ConcurrencyOptions;
    v.field("requests", &Self::requests, "How many requests may be in progress at the same time, over all cores.",
            {.min = 1, .max = 1'000'000, .required = true});
    v.field("queue", &Self::queue,
            "How many further requests may wait until others end. They are served in the order in which they came.",
            {.max = 10'000});
    v.field("wait", &Self::wait, "How long a request waits before it is answered 503.", {.min = 1ms, .max = 10min});
    v.field("per", &Self::per,
            "The values by which requests are counted, as for `rate-limit`: `client`, `route`, `header.NAME`, "
            "`claim.NAME`, `path.NAME`, or a list of them. The default is `route`.",
            {.check = check_key_part});
    v.field("keys", &Self::keys,
            "How many values of `per`, such as clients, may have requests at the same time. Requests with further "
            "values are answered 503.",
            {.min = 1, .max = 10'000'000});
  }
};

// [policy.NAME] with type = "body-limit"
struct BodyLimitOptions {
  static constexpr PolicyKind kind{.name = "body-limit",
                                   .about = "Requests with a longer body are answered 413.",
                                   .is_limit = true,
                                   .may_repeat = true,
                                   .may_run_dry = false};

  ByteSize size;

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("size", &BodyLimitOptions::size,
            "The longest body of a request. A longer one is answered 413. For a [[route]] it may be more than "
            "`body_limit` of [server].",
            {.max = 16_GiB, .required = true});
  }
};

}  // namespace sluice::gateway::limits
