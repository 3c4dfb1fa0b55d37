#pragma once

#include <cstdint>
#include <string>

#include "sql/postgres/messages.h"

namespace sluice::sql::postgres {

// An ErrorResponse, kept.
struct ServerError {
  std::string sqlstate;
  std::string message;       // with detail and hint
  std::size_t headline = 0;  // bytes of it without them
  std::string routine;
  std::uint32_t position = 0;
  bool at_bind = false;  // before the parameters were accepted
  bool at_role = false;  // by the settings of the transaction, of which one is a role

  explicit ServerError(const ServerNotice& notice);
};

}  // namespace sluice::sql::postgres
