#include "sql/postgres/plan_cache.h"

#include <charconv>
#include <string>
#include <utility>

namespace sluice::sql::postgres {

// A prepared statement's name: a letter and a number.
struct PlanCache::Name {
  void set(char letter, std::size_t number) {
    text[0] = letter;
    size = static_cast<std::size_t>(std::to_chars(text + 1, text + sizeof text, number).ptr - text);
  }
  [[nodiscard]] std::string_view view() const { return {text, size}; }
  char text[24];
  std::size_t size = 0;
};

namespace {

// The plan is not there (any more), or no longer fits its tables.
bool is_stale(const ServerError& error) {
  return error.sqlstate == "26000" || (error.sqlstate == "0A000" && error.routine == "RevalidateCachedQuery");
}

std::string sql_of_settings(std::uint16_t count) {
  std::string sql = "SELECT";
  for (unsigned i = 0; i < count; ++i) {
    sql += i == 0 ? " " : ", ";
    sql += "pg_catalog.set_config($" + std::to_string(2 * i + 1) + ", $" + std::to_string(2 * i + 2) + ", true)";
  }
  return sql;
}

}  // namespace

PlanCache::Plan& PlanCache::at(Key key) {
  if (!key.id.is_named()) return unnamed_;
  Plan* found = nullptr;
  if (key.role != 0) {
    const auto there = by_key_.find(key);
    if (there == by_key_.end()) return unnamed_;
    found = &there->second->plan;
  } else {
    if (key.id.slot >= plans_.size()) plans_.resize(key.id.slot + 1);
    found = &plans_[key.id.slot];
  }
  if (found->serial != key.id.serial) [[unlikely]] {
    // The slot belonged to another statement, which the server may still have prepared.
    *found = {found->state == State::no ? State::no : State::stale, {}, key.id.serial};
  }
  return *found;
}

PlanCache::Plan& PlanCache::use(Key key, Name& name) {
  if (!has_name(key.id)) return unnamed_;
  if (key.role == 0) {
    name.set('s', key.id.slot);
    return at(key);
  }
  if (const auto there = by_key_.find(key); there != by_key_.end()) {
    with_role_.splice(with_role_.begin(), with_role_, there->second);
  } else if (with_role_.size() < most_with_role_) {
    with_role_.push_front(
        {key, static_cast<std::uint32_t>(with_role_.size()), {.described = {}, .serial = key.id.serial}});
    by_key_[key] = with_role_.begin();
  } else {
    // The plan that was used longest ago gives its name away.
    by_key_.erase(with_role_.back().key);
    with_role_.splice(with_role_.begin(), with_role_, std::prev(with_role_.end()));
    with_role_.front().key = key;
    with_role_.front().plan = {State::stale, {}, key.id.serial};
    by_key_[key] = with_role_.begin();
  }
  name.set('r', with_role_.front().number);
  return at(key);
}

void PlanCache::make_room(Buffer& out, const Statement& statement, const Settings& settings,
                          std::string_view parameters) {
  constexpr std::size_t own = 4096;         // Sluice's own commands, and what surrounds the texts
  constexpr std::size_t of_a_setting = 64;  // in the text of the statement that sets them
  (void)out.reserve(own + parameters.size() + statement.text.size() + 4 * statement.parameter_types.size() +
                    lists_.type_check_of(statement).size() + settings.parameters().size() +
                    of_a_setting * settings.count());
  Name name;
  (void)use({statement.id, settings.role()}, name);
}

bool PlanCache::is_described(const Key& key) const {
  if (!has_name(key.id)) return false;
  const Plan* plan = nullptr;
  if (key.role == 0) {
    if (key.id.slot < plans_.size()) plan = &plans_[key.id.slot];
  } else if (const auto there = by_key_.find(key); there != by_key_.end()) {
    plan = &there->second->plan;
  }
  return plan != nullptr && plan->serial == key.id.serial && plan->state == State::yes &&
         plan->described.kind == Description::Kind::usable;
}

void PlanCache::write_settings(Buffer& out, const Settings& settings) {
  if (settings.empty()) return;
  Name name;
  State unnamed = State::no;
  State& state = has_names_ && settings.count() < most_settings ? settings_[settings.count()] : unnamed;
  if (&state != &unnamed) name.set('c', settings.count());
  if (state != State::yes) {
    if (state == State::stale) write_close_statement(out, name.view());
    write_parse(out, name.view(), sql_of_settings(settings.count()), {});
    state = State::yes;
  }
  postgres::write_bind(out, name.view(), static_cast<std::uint16_t>(2 * settings.count()), settings.parameters());
  write_execute(out, 0);
}

std::uint8_t PlanCache::write_type_check(Buffer& out, const Statement& statement, std::uint32_t role) {
  if (statement.type_check.empty()) return 0;
  write_command(out, lists_.type_check_of(statement));
  Name name;
  Plan& plan = use({statement.id, role}, name);
  const std::uint32_t changes = lists_.type_changes_of(statement.id);
  if (std::exchange(plan.type_changes, changes) != changes && plan.state == State::yes) {
    plan.state = State::stale;
    plan.described = {};
  }
  return 1;
}

bool PlanCache::write_bind(Buffer& out, const Statement& statement, std::uint32_t role, std::uint16_t count,
                           std::string_view parameters, For use_for) {
  Name name;
  Plan& plan = use({statement.id, role}, name);
  const bool has_plan =
      plan.state == State::yes && (use_for == For::query || plan.described.kind == Description::Kind::usable);
  const bool prepares = name.size == 0 || !has_plan;
  if (prepares) {
    if (name.size != 0) {
      if (plan.state != State::no) write_close_statement(out, name.view());
      plan.state = State::yes;
      if (use_for == For::step) plan.described = {};
    }
    write_parse(out, name.view(), statement.text, statement.parameter_types);
    write_describe_statement(out, name.view());
  }
  postgres::write_bind(out, name.view(), count, parameters);
  return prepares;
}

PlanCache::Description PlanCache::take(const Statement& statement, std::uint32_t role,
                                       std::span<const FieldDescription> fields, For use_for) {
  using Kind = Description::Kind;
  Description described;
  if (fields.empty()) {
    described.kind = statement.columns.empty() ? Kind::usable : Kind::unusable;
  } else if (use_for == For::step && statement.columns.empty()) {
    described.kind = Kind::unusable;
  } else if (const auto list = lists_.find(statement, fields)) {
    described = {Kind::usable, *list};
  } else {
    described.kind = Kind::unknown;
    lists_.look_up(statement, fields);
  }
  at({statement.id, role}).described = described;
  return described;
}

PlanCache::Description PlanCache::description_of(Key key) {
  return has_name(key.id) ? at(key).described : Description{};
}

std::span<const Column> PlanCache::columns_of(const Statement& statement, std::uint32_t role) {
  const Description& described = at({statement.id, role}).described;
  if (described.list != nullptr) return *described.list;
  return statement.columns;
}

bool PlanCache::ended(Key key, bool prepares, const Description& described, const ServerError* error) {
  using Kind = Description::Kind;
  if (!has_name(key.id)) return false;
  Plan& plan = at(key);
  if (prepares && described.kind != Kind::usable) {
    // The query was abandoned before its columns were checked, or Parse has failed. It is unknown whether the server
    // has the plan. Stale is always correct, because closing a statement that does not exist is not an error.
    plan.state = State::stale;
    plan.described = described;
    return error != nullptr && is_stale(*error);  // the settings were gone, so the server has skipped Parse
  }
  if (error == nullptr) return described.kind == Kind::nothing;  // sent after a Parse whose description was not read
  if (!is_stale(*error)) return false;
  plan.state = State::stale;  // an earlier request with the same error may already have prepared it again
  return true;
}

void PlanCache::skipped(Key key) {
  if (has_name(key.id)) forget(key);
}

bool PlanCache::step_failed(const Statement* statement, std::uint32_t role, const ServerError& error, bool exists) {
  const bool stale = is_stale(error);
  if (stale) {
    for (Plan& plan : plans_) {
      if (plan.state == State::yes) plan.state = State::stale;
    }
    for (RolePlan& one : with_role_) one.plan.state = State::stale;
  }
  if (stale || !exists) forget_settings();
  if (statement != nullptr && (stale || !exists)) forget({statement->id, role});
  return stale;
}

void PlanCache::types_changed(const Statement& statement, std::uint32_t role) {
  forget({statement.id, role});
  at({statement.id, role}).described = {Description::Kind::unknown};
  lists_.look_up_types(statement);
}

void PlanCache::own_command_failed(const ServerError& error) {
  if (is_stale(error)) forget_settings();
}

void PlanCache::forget_settings() {
  for (State& state : settings_) {
    if (state == State::yes) state = State::stale;
  }
}

void PlanCache::clear() {
  plans_.clear();
  by_key_.clear();
  with_role_.clear();
  settings_ = {};
}

}  // namespace sluice::sql::postgres
