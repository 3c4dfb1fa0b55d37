#pragma once

struct sqlite3;

namespace sluice::sql::sqlite {

// Registers sluice_has(text, word): whether the text contains the word, without regard to case, as simple case folding
// of Unicode defines it; NULL if the text is NULL. SQLite's own LIKE folds ASCII alone. Returns SQLite's result code.
[[nodiscard]] int add_word_search(sqlite3* database);

}  // namespace sluice::sql::sqlite
