#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "app/plan.h"

namespace sluice::app {

// `sluice explain`: prints how a configuration answers a request, without sending it.
struct ExplainCommand {
  std::string method;
  std::string url;                   // /path?query, or http://HOST/path?query
  std::vector<std::string> headers;  // "Name: value"
  std::string client;                // the client's address; empty: not known
  bool json = false;
};

// Checks of the arguments. They return the error, or an empty string.
[[nodiscard]] std::string check_method(std::string_view text);
[[nodiscard]] std::string check_url(std::string_view text);
[[nodiscard]] std::string check_header(std::string_view text);
[[nodiscard]] std::string check_client(std::string_view text);

// `file`: the configuration's file, for places in it. Returns the program's exit code: exit_ok if a route answers the
// request.
[[nodiscard]] int print_explanation(const ExplainCommand& command, const std::string& file, const Plan& plan,
                                    std::FILE* out);

}  // namespace sluice::app
