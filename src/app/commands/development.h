#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "app/config/source.h"
#include "app/options.h"

namespace sluice::app {

// `sluice serve --dev`: answers show the database's messages, and a changed configuration is read again.
//
// Set once, before there are threads.
inline bool is_development = false;

// Why the configuration may not be served in development: others could reach it. Empty if it may.
[[nodiscard]] std::vector<config::Diagnostic> development_faults(const Options& options);

// Sends SIGHUP to this process when a configuration file changes: one of the source's, or another .toml in its folder.
class DevelopmentWatch {
 public:
  explicit DevelopmentWatch(const config::Source& source);

 private:
  using Times = std::map<std::string, std::filesystem::file_time_type>;

  [[nodiscard]] Times look() const;
  void run(const std::stop_token& stop);

  std::set<std::string> folders_;
  Times seen_;
  std::jthread thread_;
};

}  // namespace sluice::app
