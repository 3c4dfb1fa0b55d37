#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::login {

// The statements that make the tables of refresh tokens and of tries unless they exist, with a comment each. They mean
// the same on PostgreSQL and on SQLite. The names are identifiers, quoted if they need it, maybe with a schema.
[[nodiscard]] std::vector<std::string> statements_of_tables(std::string_view refresh_tokens, std::string_view tries);

// The value of a column of these tables; 0 for NULL.
[[nodiscard]] std::int64_t number_of(std::optional<std::string_view> text);

}  // namespace sluice::login
