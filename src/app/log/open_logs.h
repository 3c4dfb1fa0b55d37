#pragma once

#include <expected>

#include "app/config/source.h"
#include "app/options.h"
#include "base/logs.h"

namespace sluice::app {

// Opens the files of the logs, for Logs::use().
[[nodiscard]] std::expected<Logs::Files, config::Diagnostic> open_logs(Logs& logs, const ServerOptions& options);

}  // namespace sluice::app
