#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/buffer.h"
#include "sql/database.h"
#include "sql/postgres/column_lists.h"
#include "sql/postgres/messages.h"
#include "sql/postgres/server_error.h"
#include "sql/postgres/settings.h"

namespace sluice::sql::postgres {

// The statements that one session has prepared, and their columns as the server has described them. Decides when a
// statement must be prepared again: its plan is stale, its types have changed, or its description was not read.
//
// Messages are written before the answers to earlier ones have arrived. So the state of a plan is that for the next
// message to write, and its description that for the next answer to arrive.
//
// A plan belongs to a statement and a role, because PostgreSQL plans a statement again when row-level security applies
// and the role is another one. The plans of statements without a role are as many as there are statements; of those
// with a role the session keeps the ones used last.
class PlanCache {
 public:
  // The server's description of a statement's columns.
  struct Description {
    enum class Kind : std::uint8_t {
      nothing,  // not described, or its description was not read
      usable,
      unknown,   // the types are being looked up
      unusable,  // the result has columns now and had none, or the other way round
    };
    Kind kind = Kind::nothing;
    const ColumnLists::List* list = nullptr;  // if usable; null: the statement's own list
  };
  struct Key {
    StatementId id;
    std::uint32_t role = 0;  // Settings::role()
    bool operator==(const Key&) const = default;
  };

  // `has_names`: the session keeps statements under names (Options::prepared); otherwise each is parsed again.
  // `most_with_role` must exceed the number of requests that can be in flight.
  PlanCache(ColumnLists& lists, bool has_names, std::size_t most_with_role)
      : lists_(lists), has_names_(has_names), most_with_role_(most_with_role) {}

  // Whether the session keeps the statement.
  [[nodiscard]] bool has_name(StatementId id) const { return has_names_ && id.is_named(); }
  // Writes the settings of a transaction, as Settings::commands() commands.
  void write_settings(Buffer& out, const Settings& settings);
  // Writes the statement's type check, a command before the statement. Returns how many commands that is: 0 or 1.
  [[nodiscard]] std::uint8_t write_type_check(Buffer& out, const Statement& statement, std::uint32_t role);
  enum class For : std::uint8_t {
    query,
    step,  // of a transaction: reads no description that an earlier request has asked for, and never gains columns
  };
  // Writes Bind. If the session does not have the plan, Parse and Describe come first, and the result is true.
  [[nodiscard]] bool write_bind(Buffer& out, const Statement& statement, std::uint32_t role, std::uint16_t count,
                                std::string_view parameters, For use);

  // A description has arrived; empty `fields`: the statement returns no rows. Types that are not known are looked up.
  Description take(const Statement& statement, std::uint32_t role, std::span<const FieldDescription> fields, For use);
  // As last described; nothing for a statement without a name.
  [[nodiscard]] Description description_of(Key key);
  // The columns as last described.
  [[nodiscard]] std::span<const Column> columns_of(const Statement& statement, std::uint32_t role);

  // The statement's answer has ended. `prepares`: it was described in the answer, as `described`. `error`: null if it
  // succeeded. Returns whether its plan was stale: then the request can be sent again.
  [[nodiscard]] bool ended(Key key, bool prepares, const Description& described, const ServerError* error);
  // The server has skipped the statement's messages.
  void skipped(Key key);
  // A step of a transaction has failed. `exists`: the session surely has the plan of `statement`, which may be null.
  // Returns whether a plan was stale: then all may be, and otherwise each statement of a transaction would fail once.
  [[nodiscard]] bool step_failed(const Statement* statement, std::uint32_t role, const ServerError& error, bool exists);
  // The statement's type check has failed. The types are being looked up.
  void types_changed(const Statement& statement, std::uint32_t role);
  // A command of Sluice's own has failed, such as the settings.
  void own_command_failed(const ServerError& error);
  // Takes the memory that a statement's messages and its plan need, so that no message is written in part.
  void make_room(Buffer& out, const Statement& statement, const Settings& settings, std::string_view parameters);
  // Whether the session has the plan, and knows its columns.
  [[nodiscard]] bool is_described(const Key& key) const;
  // The session has ended.
  void clear();

  // How many plans with a role it has.
  [[nodiscard]] std::size_t with_role() const { return with_role_.size(); }

 private:
  enum class State : std::uint8_t { no, yes, stale };
  struct Plan {
    State state = State::no;
    Description described;
    std::uint64_t serial = 0;        // StatementId::serial
    std::uint32_t type_changes = 0;  // ColumnLists::type_changes_of() when it was prepared
  };
  struct RolePlan {
    Key key;
    std::uint32_t number = 0;  // of its name
    Plan plan;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const {
      return (key.id.serial * 0x9e3779b97f4a7c15U) ^ (std::size_t{key.role} << 17);
    }
  };
  static constexpr std::size_t most_settings = 32;

  struct Name;
  // The plan for the next message, and its name.
  [[nodiscard]] Plan& use(Key key, Name& name);
  // Where it is already used.
  [[nodiscard]] Plan& at(Key key);
  void forget_settings();
  void forget(Key key) { at(key) = {State::stale, {}, key.id.serial}; }

  ColumnLists& lists_;
  const bool has_names_;
  const std::size_t most_with_role_;
  std::vector<Plan> plans_;        // without a role, by StatementId::slot
  std::list<RolePlan> with_role_;  // the one used last is first
  std::unordered_map<Key, std::list<RolePlan>::iterator, Hash> by_key_;
  std::array<State, most_settings> settings_{};  // statements that set as many settings
  Plan unnamed_;
};

}  // namespace sluice::sql::postgres
