#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

namespace sluice::sql {

struct Statement;

// Identifies a statement in a connection's caches. Statements with the same text, types and columns share one id.
struct StatementId {
  static constexpr std::uint32_t unnamed = UINT32_MAX;  // the slot of a statement that no connection caches

  std::uint32_t slot = unnamed;  // index in the caches; reused once no copy of the statement is left
  std::uint64_t serial = 0;      // never reused in this process

  [[nodiscard]] bool is_named() const { return slot != unnamed; }
  bool operator==(const StatementId&) const = default;
};

// Gives ids to the statements of one database. Thread-safe: any thread may destroy a statement's last copy.
class StatementIds : public std::enable_shared_from_this<StatementIds> {
 public:
  // Sets Statement::id, and Statement::holds_id, which keeps the id reserved.
  void give(Statement& statement);
  // Replaces the id of a statement that was copied from another one and then changed. Does nothing if it has none.
  static void give_another(Statement& statement);

 private:
  struct Holder;

  void take_back(const Holder& holder);

  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<const Holder>, std::less<>> holders_;  // by text, types and columns: see key_of()
  std::set<std::uint32_t> free_;
  std::uint32_t slots_ = 0;
};

}  // namespace sluice::sql
