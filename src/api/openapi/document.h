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
#include "sql/enums.h"
#include "sql/plain_columns.h"
#include "sql/set/table.h"

// The endpoints and resident tables of a configuration as an OpenAPI 3.1 document. The types come from the databases'
// descriptions of the statements.
namespace sluice::api::openapi {

// The credentials that a policy of this name requires: a bearer token, a name and a password, or a key.
struct Security {
  enum class Scheme : std::uint8_t { bearer, basic, header, query, cookie };

  std::string policy;
  bool optional = false;
  Scheme scheme = Scheme::bearer;
  std::string name{};  // the name of the field, parameter or cookie with the key
};

// An endpoint as it is served. The pointers must stay valid while the document is created.
struct Resource {
  const EndpointOptions* options = nullptr;
  const http::Pattern* pattern = nullptr;
  const EndpointPlan* get = nullptr;  // null if it has no GET
  std::span<const std::shared_ptr<const WritePlan>> writes;
  std::span<const std::shared_ptr<const SetWritePlan>> sets;
  std::span<const std::pair<http::Method, sql::Table>> tables;  // only for methods that name a table
  // By column, for methods where they are known.
  std::span<const std::pair<http::Method, std::vector<sql::ColumnFacts>>> facts;
  std::span<const sql::EnumType> enums;                                  // of the database
  std::vector<std::pair<http::Method, std::vector<Security>>> security;  // of a method without an entry: none

  [[nodiscard]] std::span<const Security> security_of(http::Method method) const {
    for (const auto& [its, all] : security) {
      if (its == method) return all;
    }
    return {};
  }

  const changes::Plan* changes = nullptr;  // null if it has no changes
};

// A resident table. Its plan must stay valid while the document is created.
struct ResidentResource {
  http::Pattern pattern;
  std::optional<http::Pattern> key_pattern;  // the path of one row
  const resident::Plan* plan = nullptr;
  std::vector<sql::ColumnFacts> facts = {};   // by column; empty if unknown
  std::span<const sql::EnumType> enums = {};  // of the database
  std::vector<Security> security;
};

struct BatchResource {
  std::string path;
  std::size_t calls = 0;  // maximum number of calls
  std::vector<Security> security;
};

// A path where clients open WebSockets to a service.
struct WebSocketResource {
  http::Pattern pattern;
  std::string service;
  std::vector<Security> security;
};

struct Document {
  std::string text;                   // JSON
  std::vector<std::string> warnings;  // what the document omits because OpenAPI cannot express it
};

[[nodiscard]] Document make_document(const Options& options, std::span<const Resource> resources,
                                     std::span<const ResidentResource> residents = {},
                                     std::span<const WebSocketResource> websockets = {},
                                     const BatchResource* batch = nullptr);

}  // namespace sluice::api::openapi
