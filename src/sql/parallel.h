#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::sql {

// The parameters by which a statement that is read in parallel names the range of a table that it is asked for.
inline constexpr std::string_view range_begin_parameter = "ctid_from";
inline constexpr std::string_view range_end_parameter = "ctid_to";
// The range that is the whole table: for whoever runs such a statement as any other, in a transaction with others.
inline constexpr std::string_view first_tid = "(0,0)";
inline constexpr std::string_view last_tid = "(4294967295,65535)";

struct ParallelReading {
  std::uint32_t connections = 1;  // at most, of those that are free
  bool ordered = true;            // rows come as they lie in the table; false: as they arrive
};

// PostgreSQL: a statement whose answer is read in parts, each a range of one table's blocks, on several connections
// that see the same snapshot. Database::prepare_parallel() has made sure that the parts together are what the statement
// gives for the whole table.
struct Parallel {
  ParallelReading reading;
  std::size_t from = 0;  // indexes in Statement::parameters; what query() is given for them is not read
  std::size_t to = 0;
  std::string schema;  // of the table, as the catalog has it
  std::string table;
};

}  // namespace sluice::sql
