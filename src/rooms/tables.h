#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sql/database.h"

// Rooms need a table of counters in the database, and triggers.
//
// A row gets the next number of its room's counter in its own transaction, which holds the counter's row until it
// commits. So numbers become visible in their order, and a number that is given back by a rollback is given out again.
namespace sluice::rooms {

inline constexpr std::string_view counters_table = "sluice_rooms";
inline constexpr std::string_view channel = "sluice_rooms";  // of NOTIFY
inline constexpr char separator = '\x1f';                    // between the values of a key, and the parts of a notice

// The table whose rows are published.
struct Published {
  bool operator==(const Published&) const = default;

  sql::Dialect dialect{};
  std::string schema;                // PostgreSQL: of the table of counters
  std::string table;                 // as the configuration names it: messages, or chat.messages
  std::vector<std::string> columns;  // those that tell rooms apart, in the order of the path's parameters
};

// The statements that make the table of counters, the column `seq` with an index, and the triggers. They may be
// executed again. `has_column`: the table has the column already.
[[nodiscard]] std::vector<std::string> statements_of(const Published& published, bool has_column);
// The statements that tell of changes of a table that `require` reads. PostgreSQL only.
[[nodiscard]] std::vector<std::string> statements_of_members(std::string_view table);

// PostgreSQL: a query of the schema in which new tables are made.
inline constexpr std::string_view current_schema = "SELECT current_schema() AS name";
// A query with one row if the triggers are there, as statements_of() makes them.
[[nodiscard]] std::string check_of(const Published& published);
[[nodiscard]] std::string check_of_members(std::string_view table);
// A query of the counters of :rooms, a list of keys, and of the epoch, whose key is NULL.
[[nodiscard]] std::string counters_of(const Published& published);
// SQLite: a query of the epoch and of the highest number of a change; NULL if nothing has changed.
[[nodiscard]] std::string newest_of(const Published& published);
// SQLite: a query of key, counter and number of the change of the rooms that have changed after the number :since, in
// this order.
[[nodiscard]] std::string raised_of(const Published& published);
inline constexpr std::size_t raised_rooms = 1000;  // its LIMIT
// The value of its :rooms.
[[nodiscard]] std::string list_of(const std::vector<std::string>& keys, sql::Dialect dialect);

// The payload of a NOTIFY.
struct Notice {
  enum class Kind : std::uint8_t {
    counter,  // a room's counter was raised
    table,    // rooms of a table have changed, or a table that `require` reads
    beat,     // of a process that looks whether it hears
  };
  Kind kind{};
  std::string_view name;  // of the table; of the beat
  std::string_view key;
  std::uint64_t offset = 0;
};
[[nodiscard]] std::optional<Notice> parse_notice(std::string_view payload);
[[nodiscard]] std::string beat_of(std::string_view name);

}  // namespace sluice::rooms
