#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

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

// Returns the text after `begin` at the start of a line of an error's context; empty if no line begins with it. Other
// lines may quote the client's value: "JSON data, line 1: ...".
[[nodiscard]] std::string_view context_after(std::string_view context, std::string_view begin);

// A message of the server that breaks the protocol. The connection cannot be used any more.
[[nodiscard]] inline Error malformed_message() { return {Failure::lost, {}, "the server sent a malformed message", 0}; }

}  // namespace sluice::sql::postgres
