#include "api/list/cursor.h"

#include <cstring>
#include <utility>

#include "base/base64url.h"
#include "base/hex.h"
#include "base/utf8.h"
#include "sql/parameters.h"

namespace sluice::api::list {
namespace {

using sql::ParameterType;

// The first byte of a value.
constexpr char null_tag = 'n';
constexpr std::pair<char, ParameterType> tags[] = {{'t', ParameterType::text},
                                                   {'i', ParameterType::integer},
                                                   {'r', ParameterType::real},
                                                   {'b', ParameterType::boolean},
                                                   {'x', ParameterType::bytes}};

// Seven bits in each byte, the lowest first; the last byte has no high bit.
void append_size(std::string& out, std::size_t size) {
  for (; size >= 0x80; size >>= 7) out.push_back(static_cast<char>(size | 0x80));
  out.push_back(static_cast<char>(size));
}

bool take_size(std::string_view& bytes, std::size_t& size) {
  size = 0;
  for (unsigned shift = 0; !bytes.empty() && shift < 28; shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    size |= std::size_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) return size <= bytes.size();
  }
  return false;
}

bool is_value(const CursorValue& value, sql::Dialect dialect) {
  if (value.type == ParameterType::text) return is_utf8(*value.text) && !value.text->contains('\0');
  const bool is_infinite =
      value.type == ParameterType::real && (*value.text == "Infinity" || *value.text == "-Infinity");
  return dialect == sql::Dialect::sqlite && (is_infinite || sql::fits(value.type, *value.text));
}

}  // namespace

CursorValue cursor_value(const sql::Field& field, sql::Dialect dialect) {
  if (field.is_null()) return {};
  CursorValue value{.text = std::string(field.view())};
  if (dialect == sql::Dialect::postgres) return value;
  switch (field.form) {
    case sql::Form::number:
      value.type =
          field.view().find_first_of(".eEI") == std::string_view::npos ? ParameterType::integer : ParameterType::real;
      break;
    case sql::Form::boolean:
      value.type = ParameterType::boolean;
      break;
    case sql::Form::bytes:
      value.type = ParameterType::bytes;
      value.text = "\\x" + hex(field.view());
      break;
    default:
      break;
  }
  return value;
}

std::string write_cursor(std::uint64_t digest, std::span<const CursorValue> values) {
  std::string bytes(sizeof digest, '\0');
  std::memcpy(bytes.data(), &digest, sizeof digest);
  for (const CursorValue& value : values) {
    if (!value.text) {
      bytes.push_back(null_tag);
      continue;
    }
    for (const auto& [tag, type] : tags) {
      if (type == value.type) bytes.push_back(tag);
    }
    append_size(bytes, value.text->size());
    bytes += *value.text;
  }
  return encode_base64url(bytes);
}

std::optional<std::vector<CursorValue>> read_cursor(std::string_view text, std::uint64_t digest, std::size_t count,
                                                    sql::Dialect dialect) {
  std::string decoded;
  if (!decode_base64url(text, decoded) || decoded.size() < sizeof digest) return std::nullopt;
  if (std::memcmp(decoded.data(), &digest, sizeof digest) != 0) return std::nullopt;
  std::string_view bytes(decoded);
  bytes.remove_prefix(sizeof digest);
  std::vector<CursorValue> values;
  while (!bytes.empty() && values.size() < count) {
    const char tag = bytes.front();
    bytes.remove_prefix(1);
    CursorValue& value = values.emplace_back();
    if (tag == null_tag) continue;
    std::size_t size = 0;
    if (!take_size(bytes, size)) return std::nullopt;
    value.text = bytes.substr(0, size);
    bytes.remove_prefix(size);
    bool is_known = false;
    for (const auto& [its, type] : tags) {
      if (its != tag) continue;
      is_known = true;
      value.type = type;
    }
    if (!is_known || !is_value(value, dialect)) return std::nullopt;
  }
  if (!bytes.empty() || values.size() != count) return std::nullopt;
  return values;
}

}  // namespace sluice::api::list
