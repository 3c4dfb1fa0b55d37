#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "sql/database.h"
#include "sql/postgres/messages.h"

namespace sluice::sql::postgres {

// An ErrorResponse, kept.
struct ServerError {
  std::string sqlstate;
  std::string message;       // with detail and hint
  std::size_t headline = 0;  // bytes of it without them
  std::string routine;
  std::uint32_t position = 0;
  std::shared_ptr<const BrokenRule> rule;  // null: it is of none
  bool at_bind = false;                    // before the parameters were accepted
  bool at_role = false;                    // by the settings of the transaction, of which one is a role

  explicit ServerError(const ServerNotice& notice);
};

}  // namespace sluice::sql::postgres
