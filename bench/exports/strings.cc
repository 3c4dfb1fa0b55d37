// The same rows as text: with a string for each field and row, returned by value, or appended to one string.
// usage: strings CONNECTION SQL csv|csj. Prints a JSON object for each way, with nanoseconds and allocations for each
// row.
#include "clock.h"
#include "count_malloc.h"
#include "rows.h"

namespace {

using exports::Arguments;
using exports::Result;

std::string field_text(const Result& result, int row, int column, exports::Format format) {
  std::string text;
  exports::append_field(text, result, row, column, format);
  return text;
}

std::string row_text(const Result& result, int row, exports::Format format) {
  std::string text = field_text(result, row, 0, format);
  for (int column = 1; column < PQnfields(result.get()); ++column)
    text = text + "," + field_text(result, row, column, format);
  return text + "\n";
}

void append_row(std::string& out, const Result& result, int row, exports::Format format) {
  for (int column = 0; column < PQnfields(result.get()); ++column) {
    exports::append_field(out, result, row, column, format);
    out += ',';
  }
  out.back() = '\n';
}

// `put` appends a row to the string.
template <class Put>
void print(const char* way, int rows, bool emptied, Put put) {
  std::size_t size = 0;
  const auto work = [&] {
    size = 0;
    std::string out;
    for (int row = 0; row < rows; ++row) {
      put(out, row);
      if (!emptied || out.size() < exports::full) continue;
      size += out.size();
      out.clear();
    }
    size += out.size();
  };
  const std::size_t before = allocations_made();
  work();
  const auto made = static_cast<double>(allocations_made() - before);
  std::printf("{\"way\": \"%s\", \"rows\": %d, \"bytes\": %zu, \"ns\": %.4g, \"allocations\": %.2f}\n", way, rows, size,
              exports::median_nanoseconds(work) / rows, made / rows);
}

}  // namespace

int main(int count, char** values) {
  const Arguments arguments = exports::arguments(count, values);
  const Result result = exports::read_all(exports::connect(arguments.connection), arguments.sql);
  const int rows = PQntuples(result.get());
  const auto by_value = [&](std::string& out, int row) { out += row_text(result, row, arguments.format); };
  const auto appended = [&](std::string& out, int row) { append_row(out, result, row, arguments.format); };
  print("strings by value", rows, true, by_value);
  print("appended to one string with all rows", rows, false, appended);
  print("appended to one string, emptied at 64 kB", rows, true, appended);
}
