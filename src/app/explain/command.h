#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "app/components/policy/policy_keys.h"
#include "app/plan.h"

namespace sluice::app {

// `sluice explain`: prints how a configuration answers a request, without sending it.
struct ExplainCommand {
  std::string method;
  std::string url;                   // /path?query, or http://HOST/path?query
  std::vector<std::string> headers;  // "Name: value"
  std::string client;                // the client's address; empty: not known
  std::string jwks;                  // a file with the keys of policies with `jwks_url`; empty: they are not known
  bool json = false;
};

// Checks of the arguments. They return the error, or an empty string.
[[nodiscard]] std::string check_method(std::string_view text);
[[nodiscard]] std::string check_url(std::string_view text);
[[nodiscard]] std::string check_header(std::string_view text);
[[nodiscard]] std::string check_client(std::string_view text);

// The keys of the plan, and for policies with `jwks_url` those in the command's file. Returns an error for the user.
[[nodiscard]] std::expected<PolicyKeys::Keys, std::string> keys_for(const ExplainCommand& command, const Plan& plan);

struct PrintedExplanation {
  std::string text;
  bool is_answered = false;  // a route answers the request
};

// `keys`: the current keys of the policies.
[[nodiscard]] PrintedExplanation print_explanation(const ExplainCommand& command, const Plan& plan,
                                                   const PolicyKeys::Keys& keys);

}  // namespace sluice::app
