#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "sql/database.h"
#include "sql/postgres/connection.h"
#include "sql/postgres/messages.h"
#include "sql/postgres/server_error.h"
#include "sql/postgres/settings.h"

namespace sluice::sql::postgres {

// A statement of a transaction, with the commands of Sluice's own that are sent before it: writes them, and finds out
// which of them the server's answers are about, by counting.
class Step {
 public:
  // `statement` may be null. Both must outlive the step.
  Step(Connection& connection, const Statement* statement, const Settings& settings)
      : connection_(connection), statement_(statement), settings_(settings) {}

  void write_command(std::string_view sql);
  // The caller has written that many commands.
  void add_commands(std::size_t count) { statement_at_ += count; }
  void write_settings();
  // Its type check, its preparation if the session does not have its plan, and itself. Again: with other parameters.
  void write_statement(std::uint16_t count, std::string_view parameters);
  void write_statement_again(std::uint16_t count, std::string_view parameters);

  // RowDescription or NoData. Returns false if it is malformed, or if there is no statement.
  [[nodiscard]] bool take_description(const Message& message);
  void end_command() { ++ended_; }
  // Returns nullopt if it is malformed. Notes what it means for the session's plans.
  [[nodiscard]] std::optional<ServerError> take_error(const Message& message);

  // How many commands have ended, and how many were written before the statement.
  [[nodiscard]] std::size_t ended() const { return ended_; }
  [[nodiscard]] std::size_t statement_at() const { return statement_at_; }
  // Whether the columns are known. Otherwise their types are being looked up.
  [[nodiscard]] bool is_described() const { return is_described_; }
  // Whether the error means that the statement's plan was stale.
  [[nodiscard]] bool is_stale() const { return is_stale_; }
  [[nodiscard]] std::span<const Column> columns() const {
    return connection_.plans().columns_of(*statement_, settings_.role());
  }

 private:
  Connection& connection_;
  const Statement* const statement_;
  const Settings& settings_;
  std::size_t statement_at_ = 0;
  std::size_t settings_at_ = SIZE_MAX;
  std::size_t ended_ = 0;
  bool is_described_ = true;
  bool is_stale_ = false;
};

}  // namespace sluice::sql::postgres
