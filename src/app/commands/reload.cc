#include "app/commands/reload.h"

#include <expected>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "app/commands/exit_code.h"
#include "app/config/load.h"
#include "app/suite/client.h"
#include "base/time.h"
#include "core/address.h"

namespace sluice::app {
namespace {

// Where to reach the admin listener of a configuration file. The file's other errors are for the server to report.
std::expected<std::string, std::string> listener_of(const std::string& file) {
  const config::Examined examined = config::examine(file, config::process_environment);
  const auto& [listener, position] = examined.config.options.admin.listen;
  // A file that cannot be read has the default address.
  if (position.line == 0 && !examined.errors.empty()) return std::unexpected(config::outcome(examined).error().text());
  if (listener.empty()) {
    return std::unexpected("sluice: " + file + " has no [admin] listen; reload by SIGHUP, or write --admin URL\n");
  }
  // A listener on every address is also on this one.
  for (const std::string_view every : {"*:", "0.0.0.0:", "[::]:"}) {
    if (listener.starts_with(every)) return "127.0.0.1:" + listener.substr(every.size());
  }
  return listener;
}

}  // namespace

int request_reload(const std::optional<std::string>& url, const std::string& file, std::FILE* out, std::FILE* errors) {
  std::string admin;
  if (url) {
    admin = *url;
  } else if (auto of_file = listener_of(file); of_file) {
    admin = *std::move(of_file);
  } else {
    fmt::print(errors, "{}", of_file.error());
    return exit_configuration;
  }
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
