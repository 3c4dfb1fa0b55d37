#include "app/config/check.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "app/config/check_database.h"
#include "app/config/check_server.h"
#include "app/config/checks.h"
#include "app/config/listen.h"
#include "app/routes/endpoint/check_endpoint.h"
#include "app/routes/shapes.h"
#include "core/address.h"
#include "gateway/policy_checks.h"

namespace sluice::app::config {
namespace {

void check_listeners(const Checks& checks) {
  std::map<std::string, Position> addresses;
  const auto check = [&](const Located<std::string>& listen, std::string_view written) {
    const auto address = core::Address::parse(written);
    if (!address) {
      checks.complain(listen.position, "this is not an address to listen on",
                      "write \"127.0.0.1:8080\", \"[::1]:8080\", \"*:8080\" or \"unix:/run/sluice.sock\"");
      return;
    }
    // Port 0 asks for a new port each time, so it may be used twice.
    const std::string text = address->text();
    const bool fresh = address->family() == AF_UNIX || address->port() != 0;
    if (!fresh || addresses.emplace(text, listen.position).second) return;
    if (listen.position.line == 0) {
      checks.complain(addresses[text], fmt::format("{} is where [admin] listens by default", text),
                      "give [admin] another \"listen\"");
    } else {
      checks.complain(listen.position, fmt::format("{} is already listened on", text),
                      again(addresses[text], checks.options.sources));
    }
  };
  for (const auto& listen : checks.options.server.listen) check(listen, Listen::parse(listen.value).address);
  for (const FramesOptions& frames : checks.options.frames) {
    for (const auto& listen : frames.listen) check(listen, listen.value);
  }
  const Located<std::string>& admin = checks.options.admin.listen;
  if (admin.value.empty()) return;
  check(admin, admin.value);
  const auto address = core::Address::parse(admin.value);
  if (!address || checks.options.admin.token || !runtime::needs_admin_token(*address)) return;
  checks.complain(admin.position, "[admin] needs a token, because other machines reach this address",
                  "add token = \"${file:admin-token}\", or listen on 127.0.0.1");
}

class ChecksOfPolicy final : public gateway::PolicyChecks {
 public:
  ChecksOfPolicy(const Checks& checks, const Located<std::string>& name) : PolicyChecks(name), checks_(checks) {}

  void complain(Position position, std::string message, std::string hint) override {
    checks_.complain(position, std::move(message), std::move(hint));
  }
  bool has_errors() const override { return checks_.has_errors(); }
  void check_upstream(const Located<std::string>& upstream) override { checks_.check_upstream(upstream); }
  void check_table(const Located<std::string>& table, std::string_view key) override {
    checks_.check_table(table, key);
  }
  std::vector<Located<std::string>> server_headers() const override {
    std::vector<Located<std::string>> names;
    for (const auto& header : checks_.options.server.headers) names.push_back(header.name);
    return names;
  }
  bool has_client_certificates() const override {
    const auto& tls = checks_.options.server.tls;
    return tls && tls->client_auth.value != ClientAuth::off;
  }

 private:
  const Checks& checks_;
};

void check_policies(const Checks& checks) {
  for (const auto& policy : checks.options.policies) {
    ChecksOfPolicy own(checks, policy.name);
    const gateway::PolicyKind& kind = policy.value.kind();
    if (policy.value.dry_run.value && !(kind.is_guard && kind.may_run_dry)) {
      checks.complain(policy.value.dry_run.position, fmt::format("a policy of type \"{}\" has no dry run", kind.name),
                      kind.is_guard ? "it stops a body while the body arrives" : "it refuses no request");
    }
    policy.value.visit([&](const auto& options) {
      if constexpr (requires { options.check(own); }) options.check(own);
    });
  }
}

}  // namespace

void check(Options& options, const Source& source, const Environment& environment, std::vector<Diagnostic>& errors) {
  Checks checks(options, source, environment, errors);
  check_listeners(checks);
  const bool has_secure_frames =
      std::ranges::any_of(options.frames, [](const FramesOptions& frames) { return frames.tls.value; });
  check_server(options.server, has_secure_frames, source, checks.complain);
  for (auto& database : options.databases) check_database(database.value, environment, checks.complain);
  for_each_route_kind([&]<class Kind> {
    if constexpr (requires { Kind::complete(options); }) Kind::complete(options);
  });
  check_policies(checks);
  check_errors(options.errors, checks.complain);
  for_each_kind<ComponentKinds>([&]<class Kind> { Kind::check(checks); });
  for_each_route_kind([&]<class Kind> { Kind::check(checks); });
  const std::vector<Shape> shapes = shapes_of(options);
  check_shapes(shapes, options.sources, checks.complain);
  if (auto& log = options.request_log) checks.choose_database(log->database, log->position, "[request_log]");
  const auto is_list = [](std::string_view kind) { return kind.starts_with("[["); };  // the others need one
  if (std::ranges::any_of(shapes, is_list, &Shape::kind) || !options.frames.empty() || checks.has_errors()) return;
  std::string names;
  for_each_route_kind([&]<class Kind> {
    if (is_list(Kind::name)) names += fmt::format("{}{}", names.empty() ? "" : ", ", Kind::name);
  });
  checks.complain({}, "there is nothing to serve", "add one of " + names);
}

}  // namespace sluice::app::config
