#include "sql/statement_ids.h"

#include <atomic>
#include <utility>

#include "sql/database.h"

namespace sluice::sql {
namespace {

using namespace std::string_literals;

std::uint64_t next_serial() {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

// Neither SQL nor column names contain NUL.
std::string key_of(const Statement& statement) {
  std::string key = statement.text;
  for (const std::uint32_t type : statement.parameter_types) key += "\0t"s + std::to_string(type);
  for (const Column& column : statement.columns) {
    key += "\0c"s + column.name + '\0' + std::to_string(column.type_id) + '\0' + column.declared_type;
  }
  return key + "\0y"s + statement.type_check;
}

}  // namespace

struct StatementIds::Holder {
  Holder(std::shared_ptr<StatementIds> owner, std::string key, StatementId id)
      : owner(std::move(owner)), key(std::move(key)), id(id) {}
  Holder(const Holder&) = delete;
  ~Holder() { owner->take_back(*this); }

  const std::shared_ptr<StatementIds> owner;
  const std::string key;
  const StatementId id;
};

void StatementIds::give(Statement& statement) {
  std::string key = key_of(statement);
  std::shared_ptr<const void> before;  // may be the last copy, so it is destroyed after the lock is released
  std::shared_ptr<const Holder> holder;
  const std::lock_guard lock(mutex_);
  auto& known = holders_[key];
  holder = known.lock();
  if (!holder) {
    const std::uint32_t slot = free_.empty() ? slots_++ : free_.extract(free_.begin()).value();
    holder = std::make_shared<const Holder>(shared_from_this(), std::move(key), StatementId{slot, next_serial()});
    known = holder;
  }
  statement.id = holder->id;
  before = std::exchange(statement.holds_id, std::move(holder));
}

void StatementIds::give_another(Statement& statement) {
  if (const auto* const holder = static_cast<const Holder*>(statement.holds_id.get())) holder->owner->give(statement);
}

void StatementIds::take_back(const Holder& holder) {
  const std::lock_guard lock(mutex_);
  free_.insert(holder.id.slot);
  const auto known = holders_.find(holder.key);
  // If it has not expired, a new holder already has the key.
  if (known != holders_.end() && known->second.expired()) holders_.erase(known);
}

}  // namespace sluice::sql
