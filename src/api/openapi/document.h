#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "api/changes/handler.h"
#include "api/endpoint.h"
#include "api/openapi/options.h"
#include "api/options.h"
#include "api/resident/resident.h"
#include "api/set_endpoint.h"
#include "api/write_endpoint.h"
#include "http/router.h"
#include "sql/set/table.h"

// The endpoints and resident tables of a configuration as an OpenAPI 3.1 document, from what their databases have said
// of the statements.
namespace sluice::api::openapi {

// What a request must bring: a bearer token that a policy of this name verifies.
struct Security {
  std::string policy;
  bool optional = false;
};

// An endpoint as it is served. Everything is somebody else's and outlives the making of the document.
struct Resource {
  const EndpointOptions* options = nullptr;
  const http::Pattern* pattern = nullptr;
  const EndpointPlan* get = nullptr;  // null: it has none
  std::span<const std::shared_ptr<const WritePlan>> writes;
  std::span<const std::shared_ptr<const SetWritePlan>> sets;
  std::span<const std::pair<http::Method, sql::Table>> tables;             // of the methods that name one
  std::span<const std::pair<http::Method, std::vector<bool>>> never_null;  // of methods' columns, where it is known
  std::vector<Security> security;
  const changes::Plan* changes = nullptr;  // null: it does not tell of any
};

// A table kept in memory. Its plan outlives the making of the document.
struct ResidentResource {
  http::Pattern pattern;
  std::optional<http::Pattern> key_pattern;  // of one row
  const resident::Plan* plan = nullptr;
  std::vector<bool> never_null = {};  // of its columns; empty: it is not known
  std::vector<Security> security;
};

// Where several endpoints are called at once.
struct BatchResource {
  std::string path;
  std::size_t calls = 0;  // at most
  std::vector<Security> security;
};

struct Document {
  std::string text;                   // JSON
  std::vector<std::string> warnings;  // what OpenAPI cannot say, and the document leaves out
};

[[nodiscard]] Document make_document(const Options& options, std::span<const Resource> resources,
                                     std::span<const ResidentResource> residents = {},
                                     const BatchResource* batch = nullptr);

}  // namespace sluice::api::openapi
