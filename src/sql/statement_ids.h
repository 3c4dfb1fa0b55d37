#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

namespace sluice::sql {

struct Statement;

// Which statement a connection's caches speak of. Statements with the same text, types and columns share one.
struct StatementId {
  static constexpr std::uint32_t unnamed = UINT32_MAX;  // of a statement that no connection keeps

  std::uint32_t slot = unnamed;  // indexes the caches; used again once no copy of the statement is left
  std::uint64_t serial = 0;      // never used again in this process

  [[nodiscard]] bool is_named() const { return slot != unnamed; }
  bool operator==(const StatementId&) const = default;
};

// Gives ids to the statements of one database. Thread-safe, as the last copy of a statement may go on any thread.
class StatementIds : public std::enable_shared_from_this<StatementIds> {
 public:
  // Sets Statement::id, and Statement::holds_id, with which the id goes.
  void give(Statement& statement);

 private:
  struct Holder;

  void take_back(const Holder& holder);

  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<const Holder>, std::less<>> holders_;  // by what is equal in equal statements
  std::set<std::uint32_t> free_;
  std::uint32_t slots_ = 0;
};

}  // namespace sluice::sql
