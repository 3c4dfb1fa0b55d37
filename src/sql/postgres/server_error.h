#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "sql/database.h"
#include "sql/postgres/messages.h"

namespace sluice::sql::postgres {

// An ErrorResponse, copied.
struct ServerError {
  std::string sqlstate;
  std::string message;       // with detail and hint
  std::size_t headline = 0;  // bytes of `message` before its detail and hint
  std::string routine;
  std::uint32_t position = 0;
  std::shared_ptr<const BrokenRule> rule;  // null: the server reports no such details
  bool at_bind = false;                    // raised before the parameters were accepted
  bool at_role = false;                    // raised by the transaction's settings, which include a role

  explicit ServerError(const ServerNotice& notice);
};

// A message of the server that breaks the protocol. The connection cannot be used any more.
[[nodiscard]] inline Error malformed_message() { return {Failure::lost, {}, "the server sent a malformed message", 0}; }

}  // namespace sluice::sql::postgres
