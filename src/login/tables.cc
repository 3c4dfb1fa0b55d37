#include "login/tables.h"

#include <charconv>

#include <fmt/format.h>

namespace sluice::login {
namespace {

// The name of an index: an index is in the schema of its table.
std::string index_of(std::string_view table, std::string_view column) {
  std::string name(table.substr(table.rfind('.') + 1));
  std::erase(name, '"');
  return fmt::format("\"{}_{}\"", name, column);
}

}  // namespace

std::int64_t number_of(std::optional<std::string_view> text) {
  std::int64_t value = 0;
  if (text) (void)std::from_chars(text->data(), text->data() + text->size(), value);
  return value;
}

std::vector<std::string> statements_of_tables(std::string_view refresh_tokens, std::string_view tries) {
  return {
      fmt::format(R"(-- One row for each log-in. Times are in seconds of the Unix epoch.
CREATE TABLE IF NOT EXISTS {} (
  session text PRIMARY KEY,
  subject text NOT NULL,
  parameters text NOT NULL,
  credential text NOT NULL,
  current_hash text NOT NULL,
  previous_hash text,
  chain text NOT NULL,
  rotated_at bigint NOT NULL,
  expires_at bigint NOT NULL,
  ended_at bigint
))",
                  refresh_tokens),
      fmt::format("CREATE INDEX IF NOT EXISTS {} ON {} (subject)", index_of(refresh_tokens, "subject"), refresh_tokens),
      fmt::format("CREATE INDEX IF NOT EXISTS {} ON {} (expires_at)", index_of(refresh_tokens, "expires_at"),
                  refresh_tokens),
      fmt::format("CREATE INDEX IF NOT EXISTS {} ON {} (ended_at) WHERE ended_at IS NOT NULL",
                  index_of(refresh_tokens, "ended_at"), refresh_tokens),
      fmt::format(R"(-- Tries to log in, by hashes of accounts and networks. Times are in milliseconds.
CREATE TABLE IF NOT EXISTS {} (
  key text PRIMARY KEY,
  failures integer NOT NULL,
  next_at bigint NOT NULL,
  tried_at bigint NOT NULL
))",
                  tries),
      fmt::format("CREATE INDEX IF NOT EXISTS {} ON {} (tried_at)", index_of(tries, "tried_at"), tries)};
}

}  // namespace sluice::login
