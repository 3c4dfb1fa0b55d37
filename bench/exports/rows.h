#pragma once

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include <libpq-fe.h>
#include <nlohmann/json.hpp>

#include "exports.h"

// Rows as libpq returns them, as JSON values, and as text.
namespace exports {

using Json = nlohmann::ordered_json;
using Connection = std::unique_ptr<PGconn, decltype(&PQfinish)>;
using Result = std::unique_ptr<PGresult, decltype(&PQclear)>;

[[noreturn]] inline void fail(const Connection& connection) {
  std::fputs(PQerrorMessage(connection.get()), stderr);
  std::exit(1);
}

inline Connection connect(const char* address) {
  Connection connection(PQconnectdb(address), PQfinish);
  if (PQstatus(connection.get()) != CONNECTION_OK) fail(connection);
  return connection;
}

inline Result read_all(const Connection& connection, const char* sql) {
  Result result(PQexec(connection.get(), sql), PQclear);
  if (PQresultStatus(result.get()) != PGRES_TUPLES_OK) fail(connection);
  return result;
}

// Calls `take` with results of one row each, and with one that has no rows at the end.
template <class Take>
void read_each(const Connection& connection, const char* sql, Take take) {
  if (PQsendQuery(connection.get(), sql) != 1 || PQsetSingleRowMode(connection.get()) != 1) fail(connection);
  while (PGresult* const got = PQgetResult(connection.get())) {
    const Result result(got, PQclear);
    const ExecStatusType status = PQresultStatus(got);
    if (status != PGRES_SINGLE_TUPLE && status != PGRES_TUPLES_OK) fail(connection);
    take(result);
  }
}

// Types of PostgreSQL.
constexpr Oid boolean = 16, int8 = 20, int2 = 21, int4 = 23, json = 114, float4 = 700, float8 = 701, jsonb = 3802;

// Calls `take` with a null pointer, or with the field's value in the type that fits its column.
template <class Take>
auto with_value(const Result& result, int row, int column, Take take) {
  if (PQgetisnull(result.get(), row, column) != 0) return take(nullptr);
  const std::string_view text(PQgetvalue(result.get(), row, column),
                              static_cast<std::size_t>(PQgetlength(result.get(), row, column)));
  const auto number = [&](auto value) {
    std::from_chars(text.begin(), text.end(), value);
    return take(value);
  };
  switch (PQftype(result.get(), column)) {
    case boolean:
      return take(text == "t");
    case int2:
    case int4:
    case int8:
      return number(std::int64_t{});
    case float4:
    case float8:
      return number(double{});
    default:
      return take(text);
  }
}

inline Json value_of(const Result& result, int row, int column) {
  const Oid type = PQftype(result.get(), column);
  return with_value(result, row, column, [&](auto value) -> Json {
    if constexpr (std::is_same_v<decltype(value), std::string_view>) {
      if (type == json || type == jsonb) return Json::parse(value);
    }
    return value;
  });
}

inline Json object_of(const Result& result, int row) {
  Json object = Json::object();
  for (int i = 0; i < PQnfields(result.get()); ++i) object[PQfname(result.get(), i)] = value_of(result, row, i);
  return object;
}

inline Json names_of(const Result& result) {
  Json names = Json::array();
  for (int i = 0; i < PQnfields(result.get()); ++i) names.push_back(PQfname(result.get(), i));
  return names;
}

// Appends a field as COPY does.
inline void append_csv(std::string& out, std::string_view text) {
  if (!text.empty() && text.find_first_of(",\"\r\n") == text.npos) {
    out += text;
    return;
  }
  out += '"';
  for (const char byte : text) {
    if (byte == '"') out += '"';
    out += byte;
  }
  out += '"';
}

inline void append_json_string(std::string& out, std::string_view text) {
  constexpr std::string_view letters = "btnvfr", hex = "0123456789abcdef";  // of the bytes 8 to 13; JSON has no \v
  out += '"';
  for (const char byte : text) {
    const auto code = static_cast<unsigned char>(byte);
    if (byte == '"' || byte == '\\') {
      out += '\\';
      out += byte;
    } else if (code >= ' ') {
      out += byte;
    } else if (code >= 8 && code <= 13 && code != 11) {
      out += '\\';
      out += letters[code - 8U];
    } else {
      out += "\\u00";
      out += hex[code >> 4];
      out += hex[code & 15];
    }
  }
  out += '"';
}

// The text of a value in a string of its own. Whole numbers in a column of doubles end with .0, unlike PostgreSQL's.
inline std::string text_of(const Json& value, Format format) {
  if (format == Format::csj) return value.dump();
  if (value.is_null()) return "";
  if (value.is_boolean()) return value.get<bool>() ? "t" : "f";
  std::string text;
  append_csv(text, value.is_string() ? value.get<std::string>() : value.dump());
  return text;
}

// Appends a field as libpq returned it, without making a value first.
inline void append_field(std::string& out, const Result& result, int row, int column, Format format) {
  if (PQgetisnull(result.get(), row, column) != 0) {
    if (format == Format::csj) out += "null";
    return;
  }
  const std::string_view text(PQgetvalue(result.get(), row, column),
                              static_cast<std::size_t>(PQgetlength(result.get(), row, column)));
  if (format == Format::csv) return append_csv(out, text);
  switch (PQftype(result.get(), column)) {
    case boolean:
      out += text == "t" ? "true" : "false";
      break;
    case int2:
    case int4:
    case int8:
    case float4:
    case float8:
      out += text;
      break;
    default:
      append_json_string(out, text);
  }
}

}  // namespace exports
