#include "sql/sqlite/words.h"

#include <memory>
#include <string_view>

#include <re2/re2.h>
#include <sqlite3.h>

namespace sluice::sql::sqlite {
namespace {

std::string_view text_of(sqlite3_value* value) {
  const auto* const text = reinterpret_cast<const char*>(sqlite3_value_text(value));
  return text == nullptr ? std::string_view{}
                         : std::string_view(text, static_cast<std::size_t>(sqlite3_value_bytes(value)));
}

std::unique_ptr<RE2> compile(std::string_view word) {
  RE2::Options options;
  options.set_literal(true);
  options.set_case_sensitive(false);
  options.set_log_errors(false);
  return std::make_unique<RE2>(re2::StringPiece(word.data(), word.size()), options);
}

void has(sqlite3_context* context, int, sqlite3_value** arguments) {
  if (sqlite3_value_type(arguments[0]) == SQLITE_NULL) return sqlite3_result_null(context);
  // A statement keeps what has been compiled from its argument.
  auto* word = static_cast<RE2*>(sqlite3_get_auxdata(context, 1));
  std::unique_ptr<RE2> compiled;
  if (word == nullptr) {
    compiled = compile(text_of(arguments[1]));
    word = compiled.get();
  }
  const std::string_view text = text_of(arguments[0]);
  if (!word->ok()) return sqlite3_result_error(context, "the word is too long", -1);
  sqlite3_result_int(context, RE2::PartialMatch(re2::StringPiece(text.data(), text.size()), *word) ? 1 : 0);
  if (compiled) {
    sqlite3_set_auxdata(context, 1, compiled.release(), [](void* kept) { delete static_cast<RE2*>(kept); });
  }
}

}  // namespace

int add_word_search(sqlite3* database) {
  return sqlite3_create_function_v2(database, "sluice_has", 2, SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_DIRECTONLY,
                                    nullptr, has, nullptr, nullptr, nullptr);
}

}  // namespace sluice::sql::sqlite
