#include "app/commands/health.h"

#include <string_view>

#include <fmt/format.h>

#include "app/commands/exit_code.h"
#include "app/suite/client.h"
#include "core/address.h"

namespace sluice::app {

int check_health(const HealthCommand& command, std::FILE* errors) {
  std::string_view host = command.url;
  std::string target = "/readyz";
  if (host.starts_with("http://")) {
    host.remove_prefix(7);
    const std::size_t slash = host.find('/');
    if (slash != host.npos) target = host.substr(slash);
    host = host.substr(0, slash);
  }
  std::string listener(host);
  if (host.starts_with("localhost:")) listener.replace(0, 9, "127.0.0.1");
  const auto address = core::Address::parse(listener);
  if (!address) {
    fmt::print(errors,
               "sluice: \"{}\" is no URL for a health check: write \"http://127.0.0.1:8081/readyz\" or "
               "\"unix:/run/admin.sock\"\n",
               command.url);
    return exit_usage;
  }
  suite::Signals signals;
  const suite::RequestText request{.method = "GET", .target = target, .fields = {}, .body = {}, .has_body = false};
  const auto answer = suite::send_request(*address, request, suite::now() + command.timeout, signals);
  if (!answer) {
    fmt::print(errors, "sluice: {}: {}\n", command.url, answer.error());
    return exit_failure;
  }
  if (answer->status / 100 == 2) return exit_ok;
  fmt::print(errors, "sluice: {}: the server answered {}: {}\n", command.url, answer->status, answer->body);
  return exit_failure;
}

}  // namespace sluice::app
