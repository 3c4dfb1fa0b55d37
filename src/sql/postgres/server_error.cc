#include "sql/postgres/server_error.h"

namespace sluice::sql::postgres {
namespace {

std::string sentence_of(const ServerNotice& notice) {
  std::string text(notice.message);
  if (!notice.detail.empty()) text.append(" (").append(notice.detail).append(")");
  if (!notice.hint.empty()) text.append(" hint: ").append(notice.hint);
  return text;
}

}  // namespace

ServerError::ServerError(const ServerNotice& notice)
    : sqlstate(notice.sqlstate),
      message(sentence_of(notice)),
      headline(notice.message.size()),
      routine(notice.routine),
      position(notice.position) {}

}  // namespace sluice::sql::postgres
