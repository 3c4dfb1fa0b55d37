#include "api/source.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "api/allowed_values.h"
#include "api/column_value.h"
#include "api/decimal.h"
#include "api/password.h"
#include "base/ascii.h"
#include "base/buffer.h"
#include "base/credentials.h"
#include "base/json.h"
#include "base/utf8.h"
#include "http/identity.h"
#include "http/query_string.h"
#include "http/request_id.h"
#include "sql/json_literal.h"
#include "sql/parameters.h"
#include "sql/postgres/types.h"

namespace sluice::api {
namespace {

constexpr std::array<std::pair<std::string_view, From>, 9> kinds{{{"path", From::path},
                                                                  {"query", From::query},
                                                                  {"header", From::header},
                                                                  {"cookie", From::cookie},
                                                                  {"claim", From::claim},
                                                                  {"env", From::environment},
                                                                  {"request", From::request},
                                                                  {"body", From::body},
                                                                  {"upload", From::upload}}};

constexpr std::array<std::pair<std::string_view, UploadField>, 3> upload_fields{
    {{"size", UploadField::size}, {"type", UploadField::type}, {"name", UploadField::name}}};

std::optional<std::string_view> value_of(const Upload& upload, UploadField field) {
  const std::optional<std::string>* text = nullptr;
  switch (field) {
    case UploadField::hash:
      text = &upload.hash;
      break;
    case UploadField::size:
      text = &upload.size;
      break;
    case UploadField::type:
      text = &upload.type;
      break;
    case UploadField::name:
      text = &upload.name;
      break;
  }
  return *text ? std::optional<std::string_view>(**text) : std::nullopt;
}

std::string_view name_of(sql::ParameterType type) {
  switch (type) {
    case sql::ParameterType::text:
      return "text";
    case sql::ParameterType::integer:
      return "an integer";
    case sql::ParameterType::real:
      return "a number";
    case sql::ParameterType::boolean:
      return "true or false";
    case sql::ParameterType::bytes:
      return "\\x and pairs of hexadecimal digits";
    default:
      return name_of(sql::element_of(type));
  }
}

// RFC 6265: `name=value` pairs separated by semicolons. Returns false if several pairs have the name.
bool find_cookie(const http::Request& request, std::string_view name, std::optional<std::string_view>& found) {
  for (const http::Field& field : request.fields) {
    if (!http::same_name(field.name, "cookie")) continue;
    for (std::string_view rest = field.value; !rest.empty();) {
      const auto end = rest.find(';');
      const std::string_view pair = trimmed(rest.substr(0, end));
      rest = end == rest.npos ? std::string_view{} : rest.substr(end + 1);
      const auto equals = pair.find('=');
      if (equals == pair.npos || pair.substr(0, equals) != name) continue;
      if (found) return false;
      std::string_view value = pair.substr(equals + 1);
      if (value.size() >= 2 && value.front() == '"' && value.back() == '"') value = value.substr(1, value.size() - 2);
      found = value;
    }
  }
  return true;
}

// If the configuration declares the type, a string is not accepted as a number, nor a number as a string.
bool kind_fits(sql::ParameterType type, Value::Kind kind) {
  switch (type) {
    case sql::ParameterType::text:
      return kind != Value::Kind::json;
    case sql::ParameterType::boolean:
      return kind == Value::Kind::boolean || kind == Value::Kind::string;
    case sql::ParameterType::bytes:
      return kind == Value::Kind::string;
    case sql::ParameterType::integer:
    case sql::ParameterType::real:
      return kind == Value::Kind::number || kind == Value::Kind::string;
    default:  // lists come only from the query string
      return false;
  }
}

// `text` is an integer. Rewrites 007 and -0 as 7 and 0, so that equal values have equal texts.
std::string_view canonical_integer(std::string_view text, std::forward_list<std::string>& rewritten) {
  const bool negative = text.starts_with('-');
  std::string_view digits = text.substr(negative ? 1 : 0);
  if (!digits.starts_with('0') || text.size() == 1) [[likely]]
    return text;
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size() - 1));
  if (!negative || digits == "0") return digits;
  return rewritten.emplace_front("-" + std::string(digits));
}

// Whether `source.allowed`, which is not null, contains the value or the element of a list.
bool is_allowed(const Source& source, std::string_view text) {
  using sql::ColumnKind;
  const bool is_number = source.integral || source.column == ColumnKind::integer || source.column == ColumnKind::real ||
                         source.column == ColumnKind::numeric;
  return source.allowed->contain(text, source.checked ? sql::element_of(source.type)
                                       : is_number    ? sql::ParameterType::real
                                                      : sql::ParameterType::text);
}

// All values of a query parameter as one text: a PostgreSQL array or a JSON array. Returns nullopt if there are none.
// An error is the reason of the refusal.
std::expected<std::optional<std::string>, std::string> list_of(const http::QueryString& query, const Source& source) {
  const sql::ParameterType type = sql::element_of(source.type);
  const bool is_array = source.is_array;
  std::forward_list<std::string> rewritten;
  Buffer list;
  http::QueryPairs pairs = query.pairs();
  while (const auto value = query.next(source.key, pairs)) {
    if (value->broken) return std::unexpected("has a broken percent escape");
    std::string_view text = source.trim ? trimmed(value->text) : value->text;
    if (text.empty() && type != sql::ParameterType::text) continue;
    if (!sql::fits(type, text)) return std::unexpected("must be " + std::string(name_of(type)) + ", each time");
    if (text.contains('\0')) return std::unexpected("holds a NUL character");
    if (source.allowed && !is_allowed(source, text)) return std::unexpected(source.allowed->reason);
    list.push_back(list.empty() ? (is_array ? '{' : '[') : ',');
    switch (type) {
      case sql::ParameterType::boolean:
        list.append(text.starts_with('t') || text == "1" ? "true" : "false");
        break;
      case sql::ParameterType::integer:
        list.append(canonical_integer(text, rewritten));
        break;
      case sql::ParameterType::real: {
        const auto decimal = parse_decimal(text);  // JSON accepts neither `.5` nor `1.`
        if (!decimal) return std::unexpected("must be " + std::string(name_of(type)) + ", each time");
        list.append((decimal->negative ? "-" : "") + (decimal->digits.empty() ? "0" : decimal->digits) + "e" +
                    std::to_string(decimal->exponent));
        break;
      }
      default:
        list.push_back('"');
        if (is_array) {
          for (const char c : text) {
            if (c == '"' || c == '\\') list.push_back('\\');
            list.push_back(c);
          }
        } else {
          append_json_escaped(list, text);
        }
        list.push_back('"');
    }
  }
  if (list.empty()) return std::nullopt;
  list.push_back(is_array ? '}' : ']');
  return std::string(list.view());
}

// Whether an empty text counts as missing. JSON's "" and a claim's "" are values. `written`: the value in the body.
bool is_left_empty(const Source& source, const Value& written) {
  const bool is_bare = source.from == From::query || source.from == From::header || source.from == From::cookie ||
                       (source.from == From::body && written.json.empty());
  return is_bare && (source.checked ? source.type != sql::ParameterType::text : sql::has_no_empty_text(source.column));
}

// Whether the value is bound with the declared type. Otherwise the declared type is only an additional check, and the
// column determines the binding. Booleans are bound as 0 and 1, and bytes as bytes, unless the column stores them in
// another form.
bool is_as_declared(const Source& source) {
  using sql::ColumnKind;
  const ColumnKind column = source.column;
  if (!source.checked || sql::is_list(source.type)) return source.checked;
  if (column == ColumnKind::by_server || column == ColumnKind::server_value || column == ColumnKind::any) return true;
  // The binding is the same.
  if (source.type == sql::ParameterType::integer && column == ColumnKind::integer) return true;
  if (source.type == sql::ParameterType::bytes) return column != ColumnKind::text;
  return source.type == sql::ParameterType::boolean && column != ColumnKind::boolean && column != ColumnKind::text &&
         !sql::is_json(column);
}

// A column of integers can be compared with 1.5. If the declared type allows it, the comparison simply finds nothing.
sql::ColumnKind kind_for(const Source& source) {
  using Use = sql::Compared::Use;
  const bool takes_reals = source.use == Use::compared || (source.use == Use::equal && source.checked);
  return takes_reals && source.column == sql::ColumnKind::integer ? sql::ColumnKind::numeric : source.column;
}

void take_from_path(std::span<const std::string> in_path, std::string_view name, Source& source) {
  const auto found = std::ranges::find(in_path, name);
  if (found == in_path.end()) return;
  source.from = From::path;
  source.path_index = static_cast<std::uint8_t>(found - in_path.begin());
}

void apply(const ParamOptions& options, std::span<const std::string> in_path, Source& source) {
  if (options.from) {
    const auto named = *parse_source(options.from->value);
    source.from = named.from;
    source.key = named.key;
    source.upload_field = named.field;
    source.store = options.store.value;
    if (source.from == From::path) take_from_path(in_path, named.key, source);
  }
  source.required = options.required;
  source.trim = options.trim;
  if (options.default_value) source.default_text = options.default_value->value.text;
  if (options.environment) source.default_text = options.environment;
  source.allowed = allowed_values(options);
  source.password = password_rules(options);
  if (source.password) {
    source.type = sql::ParameterType::text;
    source.checked = true;
  }
}

}  // namespace

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t\r\n");
  if (begin == text.npos) return {text.data(), 0};
  return text.substr(begin, text.find_last_not_of(" \t\r\n") + 1 - begin);
}

std::optional<std::string> integer_of(std::string_view number) {
  constexpr std::uint64_t most_digits = 19;
  if (number.find_first_of(".eE") == number.npos) return std::nullopt;
  const auto decimal = parse_decimal(number);
  if (!decimal || decimal->exponent < 0) return std::nullopt;
  if (static_cast<std::uint64_t>(decimal->exponent) + decimal->digits.size() > most_digits) return std::nullopt;
  std::string digits = plain(*decimal);
  if (!sql::fits(sql::ParameterType::integer, digits)) return std::nullopt;
  return digits;
}

std::optional<std::string> canonical(sql::ParameterType type, std::string_view text) {
  if (!sql::fits(type, text)) return std::nullopt;
  switch (type) {
    case sql::ParameterType::boolean:
      return text.starts_with('t') || text == "1" ? "true" : "false";
    case sql::ParameterType::integer:
    case sql::ParameterType::real: {
      const auto decimal = parse_decimal(text);
      return decimal ? std::optional(plain(*decimal)) : std::nullopt;
    }
    case sql::ParameterType::bytes:
      return to_lower(text);
    default:
      return std::string(text);
  }
}

std::expected<SourceName, std::string> parse_source(std::string_view text) {
  const auto dot = text.find('.');
  const std::string_view kind = text.substr(0, dot);
  const auto known = std::ranges::find(kinds, kind, &std::pair<std::string_view, From>::first);
  if (known == kinds.end())
    return std::unexpected("must begin with path, query, header, cookie, claim, env, request, body or upload");
  const std::string_view key = dot == text.npos ? std::string_view{} : text.substr(dot + 1);
  const bool of_body = known->second == From::body || known->second == From::upload;
  if (of_body && dot == text.npos) return SourceName{known->second, {}};
  if (key.empty()) return std::unexpected("must name something behind \"" + std::string(kind) + "\"");
  if (known->second == From::request && key != "id") return std::unexpected("must be request.id");
  if (known->second == From::body && (key.starts_with('.') || key.ends_with('.') || key.contains(".."))) {
    return std::unexpected("must not have an empty name between its dots");
  }
  if (known->second == From::upload) {
    const auto end = key.find('.');
    SourceName name{From::upload, std::string(key.substr(0, end))};
    if (name.key.empty()) return std::unexpected("must name something behind \"upload\"");
    if (end == key.npos) return name;
    const auto field =
        std::ranges::find(upload_fields, key.substr(end + 1), &decltype(upload_fields)::value_type::first);
    if (field == upload_fields.end()) return std::unexpected("of a file there are its size, type and name");
    name.field = field->second;
    return name;
  }
  return SourceName{known->second, std::string(key)};
}

std::string check_source(std::string_view text) {
  auto parsed = parse_source(text);
  return parsed ? std::string{} : std::move(parsed.error());
}

std::string_view credential_of(std::span<const Source> sources) {
  for (const Source& source : sources) {
    if (source.password) return source.name;
    if (source.from == From::upload) continue;
    if (source.from == From::body && source.key.empty()) return "body";  // the whole body, whatever it contains
    if (source.from == From::cookie || names_credential(source.key)) return source.key;
    if (names_credential(source.name)) return source.name;
  }
  return {};
}

Source source_of(const sql::Parameter& parameter, std::span<const Named<ParamOptions>> params,
                 const http::Pattern& pattern, bool in_body) {
  Source source;
  source.name = source.key = parameter.name;
  source.from = in_body ? From::body : From::query;
  const auto in_path = pattern.names();
  take_from_path(in_path, parameter.name, source);
  if (parameter.declared) {
    source.type = *parameter.declared;
    source.checked = true;
  }
  const auto options = std::ranges::find(params, parameter.name, [](const auto& one) { return one.name.value; });
  if (options != params.end()) apply(options->value, in_path, source);
  return source;
}

Source column_source(const Named<ColumnOptions>& column, const http::Pattern& pattern) {
  Source source;
  source.name = source.key = column.name.value;
  source.from = From::body;
  if (column.value.type) {
    source.type = column.value.type->value;
    source.checked = true;
  }
  apply(column.value, pattern.names(), source);
  return source;
}

void take_type(Source& source, const sql::Statement& statement, std::size_t parameter) {
  if (parameter >= statement.described_types.size()) return;
  const std::uint32_t oid = statement.described_types[parameter];
  source.integral = oid == 21 || oid == 23 || oid == 20;  // int2, int4, int8
  if (parameter >= statement.described.size()) return;
  const auto& type = statement.described[parameter];
  source.is_array = type->form == sql::Form::array;
  source.column = sql::postgres::column_kind(type);
  if (sql::has_literal(*type)) source.nested = type;
}

void take_column(const sql::TableColumn& column, Source& source) {
  source.column = column.kind;
  source.takes_json_null = sql::is_json(column.kind) && column.not_null;
  source.nested = column.nested;
}

std::expected<void, ValueFault> Binder::bind(std::span<const Source> sources, const http::Exchange& exchange,
                                             std::span<const Value> row, std::vector<sql::Argument>& into) {
  const http::Request& request = exchange.request;
  const http::QueryString query(request.query, scratch_);
  rewritten_.clear();
  for (const Source& source : sources) {
    std::optional<std::string_view> text;
    Value written{.kind = Value::Kind::string, .text = {}};  // the value as it is in the body, if it comes from there
    sql::ParameterType type = source.type;
    bool is_null = false;  // explicitly null; the default applies only to missing values
    const auto refuse = [&](std::string reason) { return std::unexpected(ValueFault{&source, std::move(reason)}); };
    switch (source.from) {
      case From::path:
        text = request.path_values[source.path_index];
        break;
      case From::query:
        if (sql::is_list(source.type)) {
          auto list = list_of(query, source);
          if (!list) return refuse(std::move(list.error()));
          if (*list) text = rewritten_.emplace_front(std::move(**list));
        } else if (const auto value = query.find(source.key)) {
          if (value->broken) return refuse("has a broken percent escape");
          text = value->text;
        }
        break;
      case From::header:
        for (const http::Field& field : request.fields) {
          if (!http::same_name(field.name, source.key)) continue;
          // It is unknown which of them a proxy in front has checked or set.
          if (text) return refuse("comes more than once");
          text = field.value;
        }
        break;
      case From::cookie:
        if (!find_cookie(request, source.key, text)) return refuse("comes more than once");
        break;
      case From::claim: {
        const http::Claims* const claims = http::claims_of(exchange);
        const http::Claim* const claim = claims != nullptr ? claims->find(source.key) : nullptr;
        if (claim == nullptr || claim->kind == http::Claim::Kind::null) break;
        text = claim->text;
        // The issuer of a token treats "2", "02" and "2e0" as three different names, so they stay different.
        const bool is_integral = source.integral || source.column == sql::ColumnKind::integer;
        const auto read_as = source.checked ? source.type : is_integral ? sql::ParameterType::integer : type;
        if (claim->kind == http::Claim::Kind::string && read_as != sql::ParameterType::text && !sql::is_list(read_as)) {
          const std::string_view name = source.trim ? trimmed(*text) : *text;
          const auto plain = canonical(read_as, name);
          if (!plain) return refuse("must be " + std::string(name_of(read_as)));
          if (*plain != name) return refuse("must be written " + *plain);
        }
        break;
      }
      case From::environment:
        break;
      case From::request:
        if (const std::string_view id = http::request_id_of(exchange); !id.empty()) text = id;
        break;
      case From::upload:
        if (source.upload_index < uploads_.size()) text = value_of(uploads_[source.upload_index], source.upload_field);
        if (source.asks_presence) {
          text = source.upload_index < uploads_.size() && uploads_[source.upload_index].hash ? "true" : "false";
          type = sql::ParameterType::boolean;
        } else if (source.upload_field == UploadField::size && !source.checked) {
          type = sql::ParameterType::integer;
        }
        break;
      case From::body: {
        const Value missing{Value::Kind::missing, {}};
        const Value& value = source.body_index < row.size() ? row[source.body_index] : missing;
        if (source.asks_presence) {
          text = value.kind == Value::Kind::missing ? "false" : "true";
          type = sql::ParameterType::boolean;
          break;
        }
        is_null = value.kind == Value::Kind::null;
        if (value.kind == Value::Kind::missing) break;
        written = value;
        if (is_null) break;
        if (source.checked &&
            (!kind_fits(source.type, value.kind) || (source.password && value.kind != Value::Kind::string))) {
          return refuse("must be " + std::string(name_of(source.type)));
        }
        text = value.text;
        if (value.kind == Value::Kind::number &&
            (source.integral || (source.checked && source.type == sql::ParameterType::integer))) {
          if (auto integer = integer_of(*text)) {
            text = rewritten_.emplace_front(std::move(*integer));
          }
        } else if (value.kind == Value::Kind::json && source.nested) {
          if (auto literal = sql::json_literal(*text, *source.nested)) {
            text = rewritten_.emplace_front(std::move(*literal));
          }
        }
        break;
      }
    }
    if (text && source.trim) {
      text = trimmed(*text);
      if (source.required && text->empty()) text.reset();
    }
    if (text && text->empty() && is_left_empty(source, written)) {
      text.reset();
      is_null = source.from == From::body;
    }
    if (!text && source.required) return refuse(is_null ? "must not be null" : "is missing");
    if (!text && is_null && source.takes_json_null && !written.json.empty()) text = written.json;
    const bool is_default = !text && !is_null && source.default_text;
    if (is_default) text = *source.default_text;
    if (source.password && text) [[unlikely]] {
      if (auto fault = source.password->fault_of(*text); !fault.empty()) return refuse(std::move(fault));
      text = passwords_ != nullptr ? passwords_->hash_of(source.key, *text) : std::nullopt;
    }
    // PostgreSQL and SQLite would report different errors. The body's reader has already checked the body's values.
    if (text && source.from != From::body && !is_utf8(*text)) return refuse("is not UTF-8");
    if (text && source.checked && !sql::is_list(source.type)) {
      if (!sql::fits(source.type, *text)) return refuse("must be " + std::string(name_of(source.type)));
      if (source.type == sql::ParameterType::integer) text = canonical_integer(*text, rewritten_);
    }
    if (text && source.integral && source.from == From::path &&
        !sql::fits(sql::ParameterType::integer, text->substr(text->starts_with('+') ? 1 : 0))) {
      return refuse("must be an integer");
    }
    if (source.allowed && text && !is_null && !sql::is_list(source.type) && !is_allowed(source, *text)) [[unlikely]]
      return refuse(source.allowed->reason);
    const bool is_of_request = !source.asks_presence && (source.checked || type == sql::ParameterType::text);
    if (text && is_of_request && !is_as_declared(source)) {
      written.text = *text;
      const bool is_stored = source.use <= sql::Compared::Use::stored;
      const bool is_text = source.checked && source.type == sql::ParameterType::text;
      const auto converted = column_value(kind_for(source), written, {.is_stored = is_stored, .allows_texts = is_text});
      // With `<>` or `>=`, a default may be a value that excludes nothing, or everything.
      const bool may_differ = is_default && source.use == sql::Compared::Use::compared;
      if (!converted && !may_differ) return refuse(std::string(converted.error()));
      if (converted) {
        text = converted->text;
        type = converted->type;
      }
    }
    // A JSON column has received the escaped form.
    if (text && text->contains('\0')) return refuse("holds a NUL character");
    into.push_back({.text = text, .type = type});
  }
  return {};
}

std::optional<std::size_t> differing_echo(std::span<const Echo> echoes, const http::Request& request,
                                          std::span<const Value> row) {
  for (const Echo& echo : echoes) {
    const Value& value = row[echo.body_index];
    if (value.kind == Value::Kind::missing) continue;
    if (value.kind == Value::Kind::null || value.text != request.path_values[echo.path_index]) return echo.body_index;
  }
  return std::nullopt;
}

std::size_t field_of(std::span<const std::string> columns, std::span<const Source> sources) {
  std::size_t found = SIZE_MAX;
  for (const Source& source : sources) {
    if (source.from != From::body) continue;
    const bool is_meant = std::ranges::any_of(columns, [&](const std::string& column) {
      return equal_ignoring_case(column, source.name) || equal_ignoring_case(column, source.key);
    });
    if (!is_meant || source.body_index == found) continue;
    if (found != SIZE_MAX) return SIZE_MAX;
    found = source.body_index;
  }
  return found;
}

http::Response refuse_value(const ValueFault& fault) {
  if (fault.source->from == From::claim) {
    return http::problem(403, "The token's claim \"" + fault.source->key + "\" " + fault.reason + ".");
  }
  if (fault.source->from == From::upload) {
    return http::problem(400, fault.source->key.empty()
                                  ? "The file " + fault.reason + "."
                                  : "The file \"" + fault.source->key + "\" " + fault.reason + ".");
  }
  const std::string_view what = fault.source->from == From::header    ? "header"
                                : fault.source->from == From::cookie  ? "cookie"
                                : fault.source->from == From::request ? "request's"
                                                                      : "parameter";
  return http::problem(400, "The " + std::string(what) + " \"" + fault.source->key + "\" " + fault.reason + ".");
}

std::vector<Source> declared_sources(const EndpointOptions& endpoint, const MethodOptions* method,
                                     const http::Pattern& pattern, bool in_body) {
  std::vector<Source> sources;
  for (const sql::Parameter& parameter : declared_parameters(endpoint, pattern)) {
    sources.push_back(source_of(parameter, endpoint.params, pattern, in_body));
  }
  for (const auto& param : endpoint.params) {
    if (!param.value.type) sources.push_back(source_of({param.name.value, {}}, endpoint.params, pattern, in_body));
  }
  if (method != nullptr) {
    for (const auto& column : method->columns) sources.push_back(column_source(column, pattern));
  }
  return sources;
}

std::vector<sql::Parameter> declared_parameters(const EndpointOptions& options, const http::Pattern& pattern) {
  std::vector<sql::Parameter> declared;
  for (const auto& segment : pattern.segments) {
    if (segment.kind == http::Pattern::Kind::integer) declared.push_back({segment.text, sql::ParameterType::integer});
  }
  for (const auto& param : options.params) {
    if (param.value.type) declared.push_back({param.name.value, param.value.type->value});
  }
  return declared;
}

}  // namespace sluice::api
