#pragma once

#include <expected>
#include <string>
#include <vector>

namespace sluice::app {

// `sluice proxy`: the gateway without a configuration file.
struct ProxyCommand {
  std::vector<std::string> servers;  // as in `servers` of [[upstream]]; `http://` may be left out
  std::string listen = "127.0.0.1:8080";
  bool print = false;  // only print the configuration
};

// Returns the configuration that forwards every request to the servers. An error says what is wrong with an argument.
[[nodiscard]] std::expected<std::string, std::string> proxy_configuration(const ProxyCommand& command);

// Returns a path under which this process can read the text as long as the process lives. Throws std::system_error.
[[nodiscard]] std::string file_of(const std::string& text);

}  // namespace sluice::app
