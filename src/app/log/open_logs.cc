#include "app/log/open_logs.h"

#include <utility>

#include <fmt/format.h>

namespace sluice::app {

std::expected<Logs::Files, config::Diagnostic> open_logs(Logs& logs, const ServerOptions& options) {
  auto files = logs.open(options.access_log_file(), options.error_log_file());
  if (files) return std::move(*files);
  const bool is_access = files.error().log == Logs::Log::access;
  const Located<std::string>& path = is_access ? options.access_log : options.error_log;
  return std::unexpected(config::Diagnostic{
      path.position, fmt::format("the {} log cannot be opened: {}", is_access ? "access" : "error", files.error().text),
      fmt::format("the file would be {}", path.value)});
}

}  // namespace sluice::app
