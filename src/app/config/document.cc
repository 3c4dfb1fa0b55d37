#include "app/config/document.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <toml++/toml.h>

#include "base/contains.h"

namespace sluice::app::config {
namespace {

Position position_of(const toml::source_position& position, std::uint32_t file) {
  return {static_cast<std::uint32_t>(position.line), static_cast<std::uint32_t>(position.column), file};
}

// The TOML library frees nested tables recursively and limits the depth of values only, not of dotted keys. A file that
// could exhaust the stack is therefore refused before it is parsed. Dots in comments do not count, and ordinary lines
// have few dots.
std::optional<Position> too_many_dots(std::string_view text) {
  constexpr std::size_t usual = 16;
  constexpr std::size_t allowed = 2000;
  std::size_t total = 0;
  for (std::uint32_t line = 1; !text.empty(); ++line) {
    std::string_view row = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(row.size() + 1, text.size()));
    std::size_t first = row.find_first_not_of(" \t");
    if (first == row.npos || row[first] == '#') continue;
    std::size_t dots = static_cast<std::size_t>(std::ranges::count(row, '.'));
    if (dots > usual) total += dots - usual;
    if (total > allowed) return Position{line, 1};
  }
  return {};
}

// The keys whose values messages show: statements, paths, names and numbers with units. The value of any other key,
// such as a misspelled one, may be a secret.
constexpr auto shown_keys = std::to_array<std::string_view>(
    {"all",      "allow",         "any",      "at_most",       "audience", "balance", "before",
     "budget",   "cache_control", "claim",    "client_header", "codings",  "cookie",  "copy",
     "database", "delete",        "deny",     "every",         "existing", "expect",  "expose",
     "fallback", "for",           "format",   "formats",       "from",     "get",     "header",
     "host",     "include",       "index",    "insert",        "issuer",   "leeway",  "listen",
     "location", "longest",       "match",    "max_age",       "method",   "methods", "name",
     "notify",   "origins",       "patch",    "path",          "per",      "post",    "protocols",
     "put",      "query",         "rate",     "rate_claim",    "realm",    "remove",  "require",
     "retry_on", "returning",     "returns",  "revocations",   "revoked",  "role",    "root",
     "size",     "slashes",       "split_by", "sql",           "status",   "store",   "strip",
     "table",    "tables",        "that",     "timeout",       "to",       "type",    "types",
     "update",   "upgrade",       "upstream", "use",           "used",     "version", "wait"});
// Tables with names that the user has chosen as their keys. Their values may be secrets, whatever the names are.
constexpr auto tables_of_names =
    std::to_array<std::string_view>({"add", "fields", "headers", "keys", "query", "set", "settings", "users"});

// Turns the library's values into ours.
class Converter {
 public:
  explicit Converter(std::uint32_t file) : file_(file) {}

  // `is_hidden`: messages show no value of the table.
  Value convert_table(const toml::table& table, bool is_hidden);
  std::vector<WrittenValue> take_written() { return std::move(written_); }

 private:
  Value convert(const toml::node& node, std::string_view key, bool is_hidden);
  [[nodiscard]] Position at(const toml::source_position& position) const { return position_of(position, file_); }

  const std::uint32_t file_;
  std::vector<WrittenValue> written_;
};

Value Converter::convert_table(const toml::table& table, bool is_hidden) {
  Value value;
  for (const auto& [key, child] : table) {
    value.entries.push_back({{std::string(key.str()), at(key.source().begin)}, convert(child, key.str(), is_hidden)});
  }
  // The library keeps keys in alphabetical order.
  std::ranges::sort(value.entries, {}, [](const Entry& entry) { return entry.key.position; });
  return value;
}

Value Converter::convert(const toml::node& node, std::string_view key, bool is_hidden) {
  Value value;
  if (const toml::table* table = node.as_table()) {
    value = convert_table(*table, is_hidden || contains(tables_of_names, key));
  } else if (const toml::array* list = node.as_array()) {
    value.kind = Value::Kind::list;
    for (const toml::node& item : *list) value.items.push_back(convert(item, key, is_hidden));
  } else if (const auto* text = node.as_string()) {
    value.kind = Value::Kind::string;
    value.text = text->get();
  } else if (const auto* integer = node.as_integer()) {
    value.kind = Value::Kind::integer;
    value.integer = integer->get();
    value.text = fmt::to_string(value.integer);
  } else if (const auto* real = node.as_floating_point()) {
    value.kind = Value::Kind::real;
    value.real = real->get();
    value.text = fmt::to_string(value.real);
  } else if (const auto* boolean = node.as_boolean()) {
    value.kind = Value::Kind::boolean;
    value.boolean = boolean->get();
    value.text = value.boolean ? "true" : "false";
  } else {
    value.kind = Value::Kind::date;
  }
  value.position = at(node.source().begin);
  // Short numbers are not secrets.
  const bool is_shown =
      value.kind == Value::Kind::string ? !is_hidden && contains(shown_keys, key) : value.text.size() <= 5;
  if (!node.is_table() && !node.is_array()) {
    written_.push_back({value.position, at(node.source().end), is_shown});
  }
  return value;
}

// Reorders the library's message to our style: "Error while parsing string: expected x" -> "expected x, while parsing
// string".
Diagnostic describe(std::string message, Position position) {
  constexpr std::string_view prefix = "Error while ";
  std::size_t colon = message.find(": ");
  if (message.starts_with(prefix) && colon != message.npos) {
    message =
        fmt::format("{}, while {}", message.substr(colon + 2), message.substr(prefix.size(), colon - prefix.size()));
  }
  if (!message.empty() && message[0] >= 'A' && message[0] <= 'Z')
    message[0] = static_cast<char>(message[0] - 'A' + 'a');
  // The library reports a line break inside "..." like this.
  std::string hint = message.starts_with("unescaped control characters") ? "is the closing quote missing?" : "";
  return {position, std::move(message), std::move(hint)};
}

bool is_name(std::string_view text) {
  auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return !text.empty() && letter(text[0]) && std::ranges::all_of(text, [&](char c) { return letter(c) || digit(c); });
}

// Replaces what ${...} stands for.
class Substituter {
 public:
  Substituter(const Environment& environment, const ReadSecret& read_secret, Source& source,
              std::vector<Diagnostic>& errors)
      : environment_(environment), read_secret_(read_secret), source_(source), errors_(errors) {}

  void substitute(Value& value) {
    if (value.kind == Value::Kind::string) substitute_string(value);
    for (Value& item : value.items) substitute(item);
    for (Entry& entry : value.entries) substitute(entry.value);
  }

 private:
  struct Wrong {
    std::string message;
    std::string hint;
  };

  void substitute_string(Value& value);
  // `inside`: the text between ${ and }. `at`: the position of the string.
  std::expected<std::string, Wrong> replacement_of(std::string_view inside, Position at);

  const Environment& environment_;
  const ReadSecret& read_secret_;
  Source& source_;
  std::vector<Diagnostic>& errors_;
};

std::expected<std::string, Substituter::Wrong> Substituter::replacement_of(std::string_view inside, Position at) {
  constexpr std::string_view file = "file:";
  const std::size_t colon = inside.find(":-");
  const std::string_view name = inside.substr(0, colon);
  if (inside.starts_with(file) && name != "file") {
    const std::string_view path = inside.substr(file.size());
    auto secret = read_secret_(path, at);
    if (!secret) return std::unexpected(Wrong{fmt::format("{}: {}", path, secret.error()), {}});
    source_.add_secret(*secret);
    return std::move(*secret);
  }
  if (!is_name(name)) {
    return std::unexpected(Wrong{"${ must be followed by a name and }, as in ${NAME}, ${NAME:-default} or ${file:PATH}",
                                 "$${ stands for ${ itself"});
  }
  std::optional<std::string> found = environment_(name);
  if (colon != inside.npos && (!found || found->empty())) found = inside.substr(colon + 2);
  if (found) return std::move(*found);
  return std::unexpected(Wrong{fmt::format("the environment variable {} is not set", name),
                               fmt::format("${{{}:-default}} gives it a default", name)});
}

void Substituter::substitute_string(Value& value) {
  std::string_view rest = value.text;
  std::string result;
  std::uint32_t decoded = 0;   // characters of the literal that have been decoded
  std::uint32_t produced = 0;  // characters of the result
  auto copy = [&](std::string_view text) {
    result += text;
    decoded += count_characters(text);
    produced += count_characters(text);
  };
  auto replace = [&](std::string_view written, std::string_view replacement) {
    std::uint32_t before = count_characters(written);
    std::uint32_t after = count_characters(replacement);
    source_.add({value.position, decoded, before, produced, after});
    result += replacement;
    decoded += before;
    produced += after;
  };

  for (;;) {
    std::size_t dollar = rest.find("${");
    if (dollar == rest.npos) break;
    if (dollar > 0 && rest[dollar - 1] == '$') {
      copy(rest.substr(0, dollar - 1));
      replace("$${", "${");
      rest.remove_prefix(dollar + 2);
      continue;
    }
    copy(rest.substr(0, dollar));
    rest.remove_prefix(dollar);
    const std::size_t end = rest.find('}');
    auto replacement = replacement_of(rest.substr(2, end == rest.npos ? 0 : end - 2), value.position);
    if (!replacement) {
      auto& [message, hint] = replacement.error();
      errors_.push_back({source_.locate(value.position, produced + 1), std::move(message), std::move(hint)});
      value.broken = true;
      replacement.emplace();
    }
    if (end == rest.npos) break;
    value.substituted = true;
    replace(rest.substr(0, end + 1), *replacement);
    rest.remove_prefix(end + 1);
  }
  result += rest;
  value.text = std::move(result);
}

}  // namespace

std::string_view name_of(Value::Kind kind) {
  switch (kind) {
    case Value::Kind::string:
      return "a string";
    case Value::Kind::integer:
      return "an integer";
    case Value::Kind::real:
      return "a float";
    case Value::Kind::boolean:
      return "a boolean";
    case Value::Kind::date:
      return "a date or time";
    case Value::Kind::list:
      return "a list";
    case Value::Kind::table:
      return "a table";
  }
  return {};
}

std::optional<Value> parse_document(Source& source, std::vector<Diagnostic>& errors, std::uint32_t file) {
  if (auto position = too_many_dots(source.text(file))) {
    position->file = file;
    errors.push_back({*position, "too many dotted keys"});
    return {};
  }
  try {
    Converter converter(file);
    Value document = converter.convert_table(toml::parse(std::string_view(source.text(file))), false);
    source.take(converter.take_written(), file);
    return document;
  } catch (const toml::parse_error& error) {
    errors.push_back(describe(std::string(error.description()), position_of(error.source().begin, file)));
    return {};
  }
}

void substitute(Value& value, const Environment& environment, const ReadSecret& read_secret, Source& source,
                std::vector<Diagnostic>& errors) {
  Substituter(environment, read_secret, source, errors).substitute(value);
}

}  // namespace sluice::app::config
