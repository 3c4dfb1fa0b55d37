// Step 4: libpq returns one row at a time, so memory does not grow with the result.
#include "rows.h"

int main(int count, char** values) {
  const exports::Arguments arguments = exports::arguments(count, values);
  const exports::Connection connection = exports::connect(arguments.connection);
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
  bool first = true;
  exports::read_each(connection, arguments.sql, [&](const exports::Result& result) {
    if (first) put(exports::names_of(result));
    first = false;
    for (int row = 0; row < PQntuples(result.get()); ++row) put(exports::object_of(result, row));
  });
  exports::write_all(out);
}
