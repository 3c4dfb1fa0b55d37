#include "sql/postgres/step.h"

#include <vector>

namespace sluice::sql::postgres {

void Step::write_command(std::string_view sql) {
  postgres::write_command(connection_.out(), sql);
  ++statement_at_;
}

void Step::write_settings() {
  // So that no message is written in part.
  (void)connection_.out().reserve(4096 + settings_.parameters().size() + std::size_t{64} * settings_.count());
  settings_at_ = statement_at_;
  statement_at_ += settings_.commands();
  connection_.plans().write_settings(connection_.out(), settings_);
}

void Step::write_statement(std::uint16_t count, std::string_view parameters) {
  if (statement_ == nullptr) return;
  statement_at_ += connection_.plans().write_type_check(connection_.out(), *statement_, settings_.role());
  write_statement_again(count, parameters);
}

void Step::write_statement_again(std::uint16_t count, std::string_view parameters) {
  Buffer& out = connection_.out();
  (void)out.reserve(parameters.size() + statement_->text.size() + 4096);  // so that no message is written in part
  const bool prepares =
      connection_.plans().write_bind(out, *statement_, settings_.role(), count, parameters, PlanCache::For::step);
  if (prepares) is_described_ = false;
  write_execute(out, 0);
}

bool Step::take_description(const Message& message) {
  auto fields = message.type == 'T' ? parse_row_description(message.payload) : std::vector<FieldDescription>{};
  if (!fields || statement_ == nullptr) return false;
  const auto now = connection_.plans().take(*statement_, settings_.role(), *fields, PlanCache::For::step);
  is_described_ = now.kind == PlanCache::Description::Kind::usable;
  return true;
}

std::optional<ServerError> Step::take_error(const Message& message) {
  const auto notice = parse_notice(message.payload);
  if (!notice) return std::nullopt;
  ServerError error(*notice);
  using At = ServerError::At;
  if (ended_ == statement_at_) error.at = At::bind;
  if (ended_ == settings_at_ && settings_.has_role()) error.at = At::role;
  const bool checks_types = statement_ != nullptr && !statement_->type_check.empty();
  if (checks_types && ended_ + 1 == statement_at_ && error.sqlstate == "22012") error.at = At::type_check;
  PlanCache& plans = connection_.plans();
  if (error.at == At::type_check) {
    plans.types_changed(*statement_, settings_.role());
  } else {
    const bool exists = is_described_ && ended_ >= statement_at_;
    is_stale_ = plans.step_failed(statement_, settings_.role(), error, exists);
  }
  return error;
}

}  // namespace sluice::sql::postgres
