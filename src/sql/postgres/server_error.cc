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
  const std::string_view text = context_after(context, "unnamed portal parameter $");
  std::uint32_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
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

std::string_view context_after(std::string_view context, std::string_view begin) {
  while (!context.starts_with(begin)) {
    const auto end = context.find('\n');
    if (end == context.npos) return {};
    context.remove_prefix(end + 1);
  }
  return context.substr(begin.size());
}

ServerError::ServerError(const ServerNotice& notice)
    : sqlstate(notice.sqlstate),
      message(sentence_of(notice)),
      headline(notice.message.size()),
      routine(notice.routine),
      position(notice.position),
      rule(rule_of(notice)) {}

}  // namespace sluice::sql::postgres
