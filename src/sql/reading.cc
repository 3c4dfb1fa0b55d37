#include "sql/reading.h"

#include <algorithm>
#include <string>

#include "sql/parameters.h"

namespace sluice::sql {
namespace {

// PostgreSQL refuses a cursor for a statement that does not only read, and does so when it parses. An insensitive
// cursor cannot lock its rows either. Nothing is executed.
constexpr std::string_view declare = "DECLARE sluice INSENSITIVE CURSOR FOR ";

constexpr std::string_view blanks = " \t\r\n\f\v";

std::string word_at(std::string_view text) {
  std::string word;
  for (const char c : text) {
    const char lower = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    if (lower < 'A' || lower > 'Z') break;
    word += lower;
  }
  return word;
}

// The statement after EXPLAIN and its options.
std::string_view explained(std::string_view text) {
  const auto skip = [&text](std::size_t count) {
    text.remove_prefix(std::min(count, text.size()));
    text.remove_prefix(std::min(text.find_first_not_of(blanks), text.size()));
  };
  skip(std::string_view("EXPLAIN").size());
  if (text.starts_with('(')) skip(text.find(')') + 1);
  for (std::string word = word_at(text); word == "ANALYZE" || word == "ANALYSE" || word == "VERBOSE";
       word = word_at(text)) {
    skip(word.size());
  }
  return text;
}

}  // namespace

core::Task<Result<void>> check_reading(Database& database, const DatabaseOptions& options, std::string_view statement,
                                       std::span<const Parameter> declared) {
  // prepare() has already refused every statement that is not sqlite3_stmt_readonly().
  if (options.is_sqlite()) co_return Result<void>{};
  const std::string text = std::string(declare) + std::string(statement);
  const auto parsed = co_await database.prepare(text, declared);
  if (parsed) co_return Result<void>{};
  Error error = parsed.error();
  if (error.failure != Failure::statement) co_return std::unexpected(std::move(error));

  error.position -= std::min<std::uint32_t>(error.position, static_cast<std::uint32_t>(declare.size()));
  std::string why = "it writes or locks rows";
  if (error.sqlstate == "42601" && error.position != 0) {
    // The statement itself has no syntax error, so this one means that its command cannot have a cursor.
    const std::string_view command = statement.substr(byte_offset(statement, error.position));
    const std::string word = word_at(command);
    if (word == "SHOW") co_return Result<void>{};
    if (word == "EXPLAIN") {
      const std::string_view inner = explained(command);
      auto reads = co_await check_reading(database, options, inner, declared);
      if (!reads && reads.error().position != 0) {
        reads.error().position +=
            character_position(statement, static_cast<std::size_t>(inner.data() - statement.data())) - 1;
      }
      co_return reads;
    }
    why = "it writes, or does not begin with SELECT, VALUES, TABLE, WITH, SHOW or EXPLAIN";
  }
  error.sqlstate.clear();
  error.message = "a statement that answers GET must not write: " + why;
  co_return std::unexpected(std::move(error));
}

}  // namespace sluice::sql
