// Step 2: the same without a flush: the stream decides when it writes.
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
    std::cout << '\n';
  };
  put(exports::names_of(result));
  for (int row = 0; row < PQntuples(result.get()); ++row) put(exports::object_of(result, row));
}
