#pragma once

#include <string>
#include <vector>

#include "app/init/schema.h"

namespace sluice::app::init {

struct ConfigurationOptions {
  std::string listen = "127.0.0.1:8080";
  std::string admin = "127.0.0.1:8081";
  std::string url;       // as it shall stand in the file
  std::string title;     // of the OpenAPI document
  bool writes = false;   // with POST, PATCH and DELETE
  bool is_local = true;  // it listens at an IP address of the loopback
};

struct Configuration {
  std::string text;
  std::vector<std::string> paths;     // of the lists
  std::vector<std::string> warnings;  // tables and columns that are left out, and why
};

// The configuration that serves all tables: lists, objects by key, and the rows that refer to them.
[[nodiscard]] Configuration make_configuration(const Schema& schema, const ConfigurationOptions& options);

}  // namespace sluice::app::init
