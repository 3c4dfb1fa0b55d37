#pragma once

#include <expected>
#include <string>
#include <vector>

#include "app/routes/room/options.h"
#include "rooms/tables.h"
#include "sql/database.h"

// Reads the tables of a [[room]] off its statements.
namespace sluice::app {

// Which columns of the published table tell rooms apart: those that the history compares with the parameters of the
// path. The error says what is missing.
[[nodiscard]] std::expected<rooms::Published, std::string> published_of(const RoomOptions& options,
                                                                        sql::Dialect dialect);
// The tables that the room's `require` reads.
[[nodiscard]] std::vector<std::string> members_of(const RoomOptions& options);
// Whether an exists() of the condition names no table.
[[nodiscard]] bool has_nameless_exists(const api::RequireOptions& options);

}  // namespace sluice::app
