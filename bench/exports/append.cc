// Step 5: no JSON values and no strings of their own: the text that libpq returned is appended to the buffer.
#include "rows.h"

int main(int count, char** values) {
  const exports::Arguments arguments = exports::arguments(count, values);
  const exports::Connection connection = exports::connect(arguments.connection);
  std::string out;
  exports::read_each(connection, arguments.sql, [&](const exports::Result& result) {
    const int columns = PQnfields(result.get());
    if (out.capacity() < exports::full) {
      out.reserve(2 * exports::full);
      for (const exports::Json& name : exports::names_of(result)) out += exports::text_of(name, arguments.format) + ',';
      out.back() = '\n';
    }
    for (int row = 0; row < PQntuples(result.get()); ++row) {
      for (int column = 0; column < columns; ++column) {
        exports::append_field(out, result, row, column, arguments.format);
        out += ',';
      }
      out.back() = '\n';
    }
    if (out.size() < exports::full) return;
    exports::write_all(out);
    out.clear();
  });
  exports::write_all(out);
}
