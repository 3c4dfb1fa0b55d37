// Step 1: reads the whole result, makes a JSON object of each row, writes it field by field, and flushes each line.
#include <iostream>

#include "rows.h"

int main(int count, char** values) {
  const exports::Arguments arguments = exports::arguments(count, values);
  const exports::Connection connection = exports::connect(arguments.connection);
  const exports::Result result = exports::read_all(connection, arguments.sql);
  const auto put = [&](const exports::Json& row) {
    const char* separator = "";
    for (const exports::Json& value : row) {
      std::cout << separator << exports::text_of(value, arguments.format);
      separator = ",";
    }
    std::cout << std::endl;
  };
  put(exports::names_of(result));
  for (int row = 0; row < PQntuples(result.get()); ++row) put(exports::object_of(result, row));
}
