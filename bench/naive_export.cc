// How an export is often written: each row becomes a JSON object with a value for each field, the rows become an array,
// and the array becomes text. Uses libpq's single-row mode and nlohmann::json, and writes to standard output without
// HTTP. usage: naive_export CONNECTION SQL
#include <cstdio>
#include <string>

#include "exports/rows.h"

int main(int count, char** arguments) {
  if (count != 3) return 2;
  const exports::Connection connection = exports::connect(arguments[1]);
  exports::Json rows = exports::Json::array();
  exports::read_each(connection, arguments[2], [&](const exports::Result& result) {
    for (int row = 0; row < PQntuples(result.get()); ++row) rows.push_back(exports::object_of(result, row));
  });
  const std::string text = rows.dump();
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() ? 0 : 1;
}
