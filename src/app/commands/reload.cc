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

struct Listener {
  std::string address;
  std::string token;  // empty: none
};

// The admin listener of a configuration file, or the one at `url` with the token of the file. The file's other errors
// are for the server to report.
std::expected<Listener, std::string> listener_of(const std::string& file, const std::optional<std::string>& url) {
  const config::Examined examined = config::examine(file, config::process_environment);
  const AdminOptions& admin = examined.config.options.admin;
  const std::string token = admin.token ? admin.token->value : "";
  if (url) return Listener{*url, token};
  const auto& [listener, position] = admin.listen;
  // A file that cannot be read has the default address.
  if (position.line == 0 && !examined.errors.empty()) return std::unexpected(config::outcome(examined).error().text());
  if (listener.empty()) {
    return std::unexpected("sluice: " + file + " has no [admin] listen; reload by SIGHUP, or write --admin URL\n");
  }
  // A listener on every address is also on this one.
  for (const std::string_view every : {"*:", "0.0.0.0:", "[::]:"}) {
    if (listener.starts_with(every)) return Listener{"127.0.0.1:" + listener.substr(every.size()), token};
  }
  return Listener{listener, token};
}

}  // namespace

int request_reload(const std::optional<std::string>& url, const std::string& file, std::FILE* out, std::FILE* errors) {
  const auto found = listener_of(file, url);
  if (!found) {
    fmt::print(errors, "{}", found.error());
    return exit_configuration;
  }
  const std::string& admin = found->address;
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
  suite::RequestText request{.method = "POST", .target = "/reload", .fields = {}, .body = {}, .has_body = true};
  if (!found->token.empty()) request.fields.emplace_back("Authorization", "Bearer " + found->token);
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
