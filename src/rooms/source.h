#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/task.h"
#include "rooms/publication.h"
#include "sql/database.h"

namespace sluice::rooms {

struct Counters {
  std::uint64_t epoch = 0;                                      // of the table of counters
  std::vector<std::pair<std::string, std::uint64_t>> of_rooms;  // by key; a room that is not there is at 0
};

// Where rooms read their publications. Used by one core.
class Source {
 public:
  virtual ~Source() = default;
  // Every row up to a room's counter is committed.
  [[nodiscard]] virtual core::Task<sql::Result<Counters>> counters(std::vector<SharedName> rooms) = 0;
  // Rows after the offset, in the order of their offsets: the first ones, or none if there are none.
  [[nodiscard]] virtual core::Task<sql::Result<Publications>> after(SharedName room, std::uint64_t offset) = 0;
};

}  // namespace sluice::rooms
