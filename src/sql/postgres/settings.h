#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/buffer.h"
#include "sql/postgres/options.h"
#include "sql/transaction.h"

namespace sluice::sql::postgres {

// The text form of values depends on these settings, so they override the defaults of the server, the database and the
// role. A session begins with them. Behind a pooler (Options::prepared is false) each transaction sets them, because
// the pooler shares sessions and refuses them as start-up parameters. Poolers preserve DateStyle and client_encoding.
inline constexpr std::array<std::pair<std::string_view, std::string_view>, 3> text_settings = {
    {{"bytea_output", "hex"}, {"IntervalStyle", "postgres"}, {"extra_float_digits", "1"}}};

// Settings for one transaction, kept as bound parameters of set_config(), so that no value is ever part of a statement.
class Settings {
 public:
  Settings() = default;
  // `settings`, preceded by the text_settings if `options` says that the session lacks them.
  Settings(const Options& options, std::span<const Setting> settings);

  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] bool has_role() const { return role_ != 0; }
  // A number for the role, for PlanCache. 0: none is set.
  [[nodiscard]] std::uint32_t role() const { return role_; }
  // The settings, each a name and a value: two parameters.
  [[nodiscard]] std::uint16_t count() const { return count_; }
  // Encoded as in a Bind message.
  [[nodiscard]] std::string_view parameters() const { return parameters_; }
  // How many commands PlanCache::write_settings() writes.
  [[nodiscard]] std::uint8_t commands() const { return empty() ? 0 : 1; }

 private:
  std::uint16_t count_ = 0;
  std::uint32_t role_ = 0;
  std::string parameters_;
};

// Writes Parse, Bind and Execute for one of Sluice's own statements. The three count as one command.
void write_command(Buffer& out, std::string_view sql, std::uint16_t count = 0, std::string_view parameters = {});

}  // namespace sluice::sql::postgres
