// How an export is often written: each row becomes a JSON object with a value for each field, the rows become an array,
// and the array becomes text. Uses libpq's single-row mode and nlohmann::json, and writes to standard output without
// HTTP. usage: naive_export CONNECTION SQL
#include <charconv>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <libpq-fe.h>
#include <nlohmann/json.hpp>

namespace {

using nlohmann::ordered_json;

// Converts a value by its column's type.
ordered_json value_of(const PGresult* row, int column) {
  if (PQgetisnull(row, 0, column)) return nullptr;
  const char* const text = PQgetvalue(row, 0, column);
  const char* const end = text + PQgetlength(row, 0, column);
  switch (PQftype(row, column)) {
    case 16:  // bool
      return *text == 't';
    case 20:
    case 21:
    case 23: {
      long long number = 0;
      std::from_chars(text, end, number);
      return number;
    }
    case 700:
    case 701: {
      double number = 0;
      std::from_chars(text, end, number);
      return number;
    }
    case 114:
    case 3802:
      return ordered_json::parse(text, end);
    default:
      return std::string(text, end);
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return 2;
  const std::unique_ptr<PGconn, decltype(&PQfinish)> connection(PQconnectdb(arguments[1]), PQfinish);
  if (PQsendQuery(connection.get(), arguments[2]) != 1 || PQsetSingleRowMode(connection.get()) != 1) {
    std::fputs(PQerrorMessage(connection.get()), stderr);
    return 1;
  }
  ordered_json rows = ordered_json::array();
  std::vector<std::string> names;
  while (PGresult* const got = PQgetResult(connection.get())) {
    const std::unique_ptr<PGresult, decltype(&PQclear)> row(got, PQclear);
    if (PQresultStatus(got) == PGRES_TUPLES_OK) continue;
    if (PQresultStatus(got) != PGRES_SINGLE_TUPLE) {
      std::fputs(PQerrorMessage(connection.get()), stderr);
      return 1;
    }
    if (names.empty()) {
      for (int i = 0; i < PQnfields(got); ++i) names.emplace_back(PQfname(got, i));
    }
    ordered_json object = ordered_json::object();
    for (int i = 0; i < PQnfields(got); ++i) object[names[static_cast<std::size_t>(i)]] = value_of(got, i);
    rows.push_back(std::move(object));
  }
  const std::string text = rows.dump();
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() ? 0 : 1;
}
