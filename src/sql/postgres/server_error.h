#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
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
  // Which part of a transaction has raised it.
  enum class At : std::uint8_t {
    other,
    role,        // its settings, which include a role
    type_check,  // Statement::type_check
    bind,        // a statement, before its parameters were accepted
    commit,
    standby,  // a warning: it is committed, and perhaps not on the standbys
  };
  At at = At::other;

  explicit ServerError(const ServerNotice& notice);
  // If the message is the warning that the server has stopped waiting for its standbys at a commit, because somebody
  // has cancelled it.
  [[nodiscard]] static std::optional<ServerError> if_unreplicated(const Message& message);
};

// A row of the staged rows, and its column.
struct StagedPlace {
  std::uint64_t line = 0;   // 1-based; 0: unknown
  std::string_view column;  // one of the names that were passed; empty: unknown
};

// Finds the place in an error's context: "COPY sluice_stage, line 3, column score: ...". The server translates the
// words and orders them as the language does (lc_messages), so only the names and the number are searched for, and only
// in a line that begins with them. Other lines may quote the client's value: "JSON data, line 1: ...".
[[nodiscard]] StagedPlace staged_place(std::string_view context, std::span<const std::string> columns);

inline constexpr std::string_view composite_has_changed =
    "a composite type of the statement has other attributes than before: reload the configuration";

// A message of the server that breaks the protocol. The connection cannot be used any more.
[[nodiscard]] inline Error malformed_message() { return {Failure::lost, {}, "the server sent a malformed message", 0}; }

}  // namespace sluice::sql::postgres
