#include "sql/postgres/server_error.h"

#include <algorithm>
#include <array>
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

// The number with which `text` begins; 0 if it begins with none.
std::uint64_t number_at(std::string_view text) {
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// Calls `visit` with each line of an error's context until it returns true.
template <class Visit>
void each_line(std::string_view context, Visit visit) {
  while (!context.empty()) {
    const auto end = std::min(context.find('\n'), context.size());
    if (visit(context.substr(0, end))) return;
    context.remove_prefix(std::min(end + 1, context.size()));
  }
}

// "unnamed portal parameter $2 = '...'". Other lines quote SQL or values before such a number, or have a colon.
std::uint32_t parameter_in(std::string_view context) {
  constexpr std::array marks{std::string_view("$"), std::string_view("parámetro ")};  // Spanish has no dollar sign
  constexpr std::array quotes{std::string_view("\""), std::string_view(":"), std::string_view("«"),
                              std::string_view("»")};
  std::uint64_t number = 0;
  each_line(context, [&](std::string_view line) {
    line = line.substr(0, line.find(" = "));  // without the value
    for (const std::string_view mark : marks) {
      const auto at = line.find(mark);
      const std::string_view before = line.substr(0, at);
      const auto is_in = [&](std::string_view quote) { return before.contains(quote); };
      if (at == line.npos || std::ranges::any_of(quotes, is_in)) continue;
      number = number_at(line.substr(at + mark.size()));
      if (number != 0) return true;
    }
    return false;
  });
  return static_cast<std::uint32_t>(number);
}

// The column that is named last. `text` also has the word for "column", which may itself be the name of a column.
std::string_view last_name_in(std::string_view text, std::span<const std::string> names) {
  std::string_view found;
  std::size_t found_end = 0;
  for (const std::string& name : names) {
    const auto at = text.rfind(name);
    if (name.empty() || at == text.npos || at == 0 || text[at - 1] != ' ') continue;
    const std::size_t end = at + name.size();
    if (end != text.size() && text[end] != ' ') continue;
    if (end < found_end || (end == found_end && name.size() < found.size())) continue;
    found = name;
    found_end = end;
  }
  return found;
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

StagedPlace staged_place(std::string_view context, std::span<const std::string> columns) {
  constexpr std::string_view table = "sluice_stage";
  constexpr std::string_view copy = "COPY ";
  StagedPlace place;
  each_line(context, [&](std::string_view line) {
    if (line.starts_with(copy)) line.remove_prefix(copy.size());
    if (!line.starts_with(table)) return false;
    line.remove_prefix(std::min(line.find_first_of("0123456789"), line.size()));
    place.line = number_at(line);
    place.column = last_name_in(line.substr(0, line.find(':')), columns);
    return true;
  });
  return place;
}

std::optional<ServerError> ServerError::if_unreplicated(const Message& message) {
  if (message.type != 'N') return std::nullopt;
  const auto notice = parse_notice(message.payload);
  // Its SQLSTATE is that of any warning, and its text is translated.
  if (!notice || notice->routine != "SyncRepWaitForLSN") return std::nullopt;
  ServerError error(*notice);
  error.at = At::standby;
  return error;
}

ServerError::ServerError(const ServerNotice& notice)
    : sqlstate(notice.sqlstate),
      message(sentence_of(notice)),
      headline(notice.message.size()),
      routine(notice.routine),
      position(notice.position),
      rule(rule_of(notice)) {}

}  // namespace sluice::sql::postgres
