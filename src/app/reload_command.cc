#include "app/reload_command.h"

#include <string_view>

#include <fmt/format.h>

#include "app/cli.h"
#include "app/suite/client.h"
#include "base/time.h"
#include "core/address.h"

namespace sluice::app {

int request_reload(const std::string& admin, std::FILE* out, std::FILE* errors) {
  std::string_view listener = admin;
  if (listener.starts_with("http://")) {
    listener.remove_prefix(7);
    if (listener.ends_with('/')) listener.remove_suffix(1);
  }
  const auto address = core::Address::parse(listener);
  if (!address) {
    fmt::print(errors,
               "sluice: \"{}\" is no address of an admin listener: write \"http://127.0.0.1:8081\" or "
               "\"unix:/run/admin.sock\"\n",
               admin);
    return exit_usage;
  }
  suite::Signals signals;
  const suite::RequestText request{.method = "POST", .target = "/reload", .fields = {}, .body = {}, .has_body = true};
  const auto answer = suite::send_request(*address, request, never, signals);
  if (!answer) {
    fmt::print(errors, "sluice: {}: {}\n", admin, answer.error());
    return exit_failure;
  }
  if (answer->status == 200) {
    fmt::print(out, "{}", answer->body);
    return exit_ok;
  }
  if (answer->status == 422) {
    fmt::print(errors, "{}", answer->body);
    return exit_configuration;
  }
  fmt::print(errors, "sluice: {}: the server answered {}: {}\n", admin, answer->status, answer->body);
  return exit_failure;
}

}  // namespace sluice::app
