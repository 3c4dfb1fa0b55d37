#include "api/source.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

#include "api/query_string.h"
#include "base/credentials.h"
#include "sql/parameters.h"

namespace sluice::api {
namespace {

constexpr std::array<std::pair<std::string_view, From>, 8> kinds{{{"path", From::path},
                                                                  {"query", From::query},
                                                                  {"header", From::header},
                                                                  {"cookie", From::cookie},
                                                                  {"claim", From::claim},
                                                                  {"env", From::environment},
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
  }
  return "text";
}

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t\r\n");
  if (begin == text.npos) return {text.data(), 0};
  return text.substr(begin, text.find_last_not_of(" \t\r\n") + 1 - begin);
}

// RFC 6265: `name=value` pairs between semicolons; of several with the name, the first.
std::optional<std::string_view> cookie(const http::Request& request, std::string_view name) {
  for (const http::Field& field : request.fields) {
    if (!http::same_name(field.name, "cookie")) continue;
    for (std::string_view rest = field.value; !rest.empty();) {
      const auto end = rest.find(';');
      const std::string_view pair = trimmed(rest.substr(0, end));
      rest = end == rest.npos ? std::string_view{} : rest.substr(end + 1);
      const auto equals = pair.find('=');
      if (equals == pair.npos || pair.substr(0, equals) != name) continue;
      std::string_view value = pair.substr(equals + 1);
      if (value.size() >= 2 && value.front() == '"' && value.back() == '"') value = value.substr(1, value.size() - 2);
      return value;
    }
  }
  return std::nullopt;
}

// What a value of the body is bound as, where the configuration does not say.
sql::ParameterType type_of(const Value& value) {
  switch (value.kind) {
    case Value::Kind::number:
      return value.text.find_first_of(".eE") == value.text.npos && sql::fits(sql::ParameterType::integer, value.text)
                 ? sql::ParameterType::integer
                 : sql::ParameterType::real;
    case Value::Kind::boolean:
      return sql::ParameterType::boolean;
    default:
      return sql::ParameterType::text;
  }
}

// A string is no number, and a number no string, where the configuration says the type.
bool kind_fits(sql::ParameterType type, Value::Kind kind) {
  switch (type) {
    case sql::ParameterType::text:
      return kind != Value::Kind::json;
    case sql::ParameterType::boolean:
      return kind == Value::Kind::boolean || kind == Value::Kind::string;
    case sql::ParameterType::integer:
    case sql::ParameterType::real:
      return kind == Value::Kind::number || kind == Value::Kind::string;
  }
  return true;
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
  if (source.from == From::environment) {
    if (const char* value = std::getenv(source.key.c_str())) source.default_text = value;
  }
}

}  // namespace

std::optional<std::string> integer_of(std::string_view number) {
  const auto mark = number.find_first_of(".eE");
  if (mark == number.npos) return std::nullopt;
  const bool negative = number.starts_with('-');
  std::string digits(number.substr(negative ? 1 : 0, mark - (negative ? 1 : 0)));
  const auto e = number.find_first_of("eE");
  std::int64_t exponent = 0;
  if (number[mark] == '.') {
    const std::string_view fraction = number.substr(mark + 1, e == number.npos ? e : e - mark - 1);
    digits += fraction;
    exponent = -static_cast<std::int64_t>(fraction.size());
  }
  if (e != number.npos) {
    std::string_view text = number.substr(e + 1);
    if (text.starts_with('+')) text.remove_prefix(1);
    std::int64_t more = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), more);
    if (error != std::errc{} || end != text.data() + text.size() || more > 1'000'000 || more < -1'000'000) {
      return std::nullopt;
    }
    exponent += more;
  }
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size()));
  for (; exponent < 0 && digits.ends_with('0'); ++exponent) digits.pop_back();
  if (digits.empty()) return "0";
  constexpr std::size_t most_digits = 19;
  if (exponent < 0 || digits.size() > most_digits ||
      static_cast<std::uint64_t>(exponent) > most_digits - digits.size()) {
    return std::nullopt;
  }
  digits.append(static_cast<std::size_t>(exponent), '0');
  if (negative) digits.insert(0, 1, '-');
  if (!sql::fits(sql::ParameterType::integer, digits)) return std::nullopt;
  return digits;
}

std::expected<SourceName, std::string> parse_source(std::string_view text) {
  const auto dot = text.find('.');
  const std::string_view kind = text.substr(0, dot);
  const auto known = std::ranges::find(kinds, kind, &std::pair<std::string_view, From>::first);
  if (known == kinds.end())
    return std::unexpected("must begin with path, query, header, cookie, claim, env, body or upload");
  const std::string_view key = dot == text.npos ? std::string_view{} : text.substr(dot + 1);
  const bool of_body = known->second == From::body || known->second == From::upload;
  if (of_body && dot == text.npos) return SourceName{known->second, {}};
  if (key.empty()) return std::unexpected("must name something behind \"" + std::string(kind) + "\"");
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
    if (source.from == From::claim || source.from == From::upload) continue;
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

std::expected<void, ValueFault> Binder::bind(std::span<const Source> sources, const http::Request& request,
                                             std::span<const Value> row, std::vector<sql::Argument>& into) {
  const QueryString query(request.query, scratch_);
  rewritten_.clear();
  for (const Source& source : sources) {
    std::optional<std::string_view> text;
    sql::ParameterType type = source.type;
    bool is_null = false;  // said to be: the default is for what is missing
    const auto refuse = [&](std::string reason) { return std::unexpected(ValueFault{&source, std::move(reason)}); };
    switch (source.from) {
      case From::path:
        text = request.path_values[source.path_index];
        break;
      case From::query:
        if (const auto value = query.find(source.key)) {
          if (value->broken) return refuse("has a percent escape that is none");
          text = value->text;
        }
        // What a form sends for a field that was left empty is no number.
        if (text && text->empty() && source.checked && source.type != sql::ParameterType::text) text.reset();
        break;
      case From::header:
        for (const http::Field& field : request.fields) {
          if (!http::same_name(field.name, source.key)) continue;
          // Which of them a proxy in front has looked at, or set, cannot be told.
          if (text) return refuse("comes more than once");
          text = field.value;
        }
        break;
      case From::cookie:
        text = cookie(request, source.key);
        break;
      case From::claim: {
        const http::Claim* const claim = request.findings.claims ? request.findings.claims->find(source.key) : nullptr;
        if (claim != nullptr && claim->kind != http::Claim::Kind::null) text = claim->text;
        break;
      }
      case From::environment:
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
        if (is_null || value.kind == Value::Kind::missing) break;
        if (source.checked && !kind_fits(source.type, value.kind)) {
          return refuse("must be " + std::string(name_of(source.type)));
        }
        if (!source.checked) type = type_of(value);
        text = value.text;
        if (value.kind == Value::Kind::number &&
            (source.integral || (source.checked && source.type == sql::ParameterType::integer))) {
          if (auto integer = integer_of(*text)) {
            text = rewritten_.emplace_front(std::move(*integer));
            type = sql::ParameterType::integer;
          }
        } else if (value.kind == Value::Kind::json && source.array) {
          if (auto literal = sql::array_literal(*text, *source.array)) {
            text = rewritten_.emplace_front(std::move(*literal));
          }
        }
        break;
      }
    }
    if (text && source.trim) text = trimmed(*text);
    if (!text && source.required) return refuse(is_null ? "must not be null" : "is missing");
    if (!text && !is_null && source.default_text) text = *source.default_text;
    if (text && source.checked && !sql::fits(source.type, *text)) {
      return refuse("must be " + std::string(name_of(source.type)));
    }
    if (text && source.integral && source.from == From::path &&
        !sql::fits(sql::ParameterType::integer, text->substr(text->starts_with('+') ? 1 : 0))) {
      return refuse("must be an integer");
    }
    if (text && text->contains('\0')) return refuse("holds a NUL character");
    into.push_back({.text = text, .type = type});
  }
  return {};
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
  const std::string_view what = fault.source->from == From::header ? "header" : "parameter";
  return http::problem(400, "The " + std::string(what) + " \"" + fault.source->key + "\" " + fault.reason + ".");
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
