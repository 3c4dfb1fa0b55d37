#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/task.h"
#include "sql/database.h"

namespace sluice::sql {

// An enum type of PostgreSQL.
struct EnumType {
  std::uint32_t oid = 0;
  std::uint32_t array = 0;  // the OID of its array type
  std::string name;         // as in TableColumn::type
  std::vector<std::string> labels;
};

// All enum types of the database that the login can see.
[[nodiscard]] core::Task<Result<std::vector<EnumType>>> read_enums(Database& database);

}  // namespace sluice::sql
