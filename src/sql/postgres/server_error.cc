#include "sql/postgres/server_error.h"

#include <charconv>

namespace sluice::sql::postgres {
namespace {

// Whether the detail may contain a stored row: "Failing row contains (1, ada, ...)". The text may be translated, so the
// code decides. Other codes have no such detail, unless a function re-raises one.
bool tells_a_row(const ServerNotice& notice) {
  return notice.sqlstate == "23502" || notice.sqlstate == "23514" || notice.sqlstate == "44000" ||
         notice.detail.contains("Failing row contains");
}

std::string sentence_of(const ServerNotice& notice) {
  std::string text(notice.message);
  if (!notice.detail.empty() && !tells_a_row(notice)) text.append(" (").append(notice.detail).append(")");
  if (!notice.hint.empty()) text.append(" hint: ").append(notice.hint);
  return text;
}

// "unnamed portal parameter $2 = '...'"
std::uint32_t parameter_in(std::string_view context) {
  constexpr std::string_view before = "parameter $";
  const auto at = context.find(before);
  std::uint32_t number = 0;
  if (at != context.npos) {
    context.remove_prefix(at + before.size());
    std::from_chars(context.data(), context.data() + context.size(), number);
  }
  return number;
}

std::shared_ptr<const BrokenRule> rule_of(const ServerNotice& notice) {
  BrokenRule rule{.constraint = std::string(notice.constraint),
                  .table = std::string(notice.table),
                  .columns = {},
                  .parameter = parameter_in(notice.where)};
  if (!notice.column.empty()) rule.columns.emplace_back(notice.column);
  if (rule.constraint.empty() && rule.columns.empty() && rule.parameter == 0) return nullptr;
  return std::make_shared<const BrokenRule>(std::move(rule));
}

}  // namespace

ServerError::ServerError(const ServerNotice& notice)
    : sqlstate(notice.sqlstate),
      message(sentence_of(notice)),
      headline(notice.message.size()),
      routine(notice.routine),
      position(notice.position),
      rule(rule_of(notice)) {}

}  // namespace sluice::sql::postgres
