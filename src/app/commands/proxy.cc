#include "app/commands/proxy.h"

#include <cerrno>
#include <system_error>

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "app/config/text.h"
#include "core/address.h"
#include "gateway/proxy/options.h"

namespace sluice::app {
std::expected<std::string, std::string> proxy_configuration(const ProxyCommand& command) {
  if (!core::Address::parse(command.listen)) {
    return std::unexpected(fmt::format(
        "\"{}\" is no address to listen on, as 127.0.0.1:8080, *:8080 and unix:/run/front.sock are", command.listen));
  }
  std::string servers;
  for (const std::string& argument : command.servers) {
    const bool has_scheme = argument.contains("://") || argument.starts_with("unix:");
    const std::string server = has_scheme ? argument : "http://" + argument;
    if (const auto origin = gateway::parse_server(server); !origin) {
      return std::unexpected(fmt::format("\"{}\" {}", argument, origin.error()));
    }
    servers += (servers.empty() ? "" : ", ") + config::quote(server);
  }
  return fmt::format(
      "[server]\nlisten = [{}]\n\n"
      "[admin]\nlisten = \"\"\n\n"
      "[[upstream]]\nname = \"servers\"\nservers = [{}]\n\n"
      "[[route]]\npath = \"/{{rest...}}\"\nupstream = \"servers\"\n",
      config::quote(command.listen), servers);
}

std::string file_of(const std::string& text) {
  const int file = ::memfd_create("sluice.toml", MFD_CLOEXEC);
  if (file < 0 || ::write(file, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    throw std::system_error(errno, std::generic_category(), "cannot keep the configuration in memory");
  }
  return fmt::format("/proc/self/fd/{}", file);
}

}  // namespace sluice::app
