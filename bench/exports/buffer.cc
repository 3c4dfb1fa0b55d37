// Step 3: rows are appended to a string, which is written when it is full: a write for 64 kB.
#include "rows.h"

int main(int count, char** values) {
  const exports::Arguments arguments = exports::arguments(count, values);
  const exports::Connection connection = exports::connect(arguments.connection);
  const exports::Result result = exports::read_all(connection, arguments.sql);
  std::string out;
  const auto put = [&](const exports::Json& row) {
    for (const exports::Json& value : row) {
      out += exports::text_of(value, arguments.format);
      out += ',';
    }
    out.back() = '\n';
    if (out.size() < exports::full) return;
    exports::write_all(out);
    out.clear();
  };
  put(exports::names_of(result));
  for (int row = 0; row < PQntuples(result.get()); ++row) put(exports::object_of(result, row));
  exports::write_all(out);
}
