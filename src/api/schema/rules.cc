#include "api/schema/rules.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <unordered_map>

#include <re2/re2.h>
#include <simdjson.h>

#include "base/buffer.h"
#include "base/json.h"

namespace sluice::api::schema {
namespace {

using simdjson::dom::element;

enum class Kind : std::uint8_t {
  annotation,  // does not affect validity
  text,        // an annotation that is a string
  subschema,
  items,         // a schema, or a list of them
  list,          // a list of schemas
  named,         // an object of schemas
  patterned,     // an object of schemas, by regular expressions
  definitions,   // an object of schemas, which apply only where they are referenced
  dependencies,  // an object of schemas and lists of names
  reference,
  type,
  values,  // a nonempty list
  number,
  positive,
  count,
  pattern,
  format,
  names,
  boolean,
};

struct Keyword {
  std::string_view name;
  Kind kind;
  bool in_place = false;  // its subschemas apply to the same value
};

constexpr std::array keywords{
    Keyword{"$schema", Kind::text},
    Keyword{"$comment", Kind::text},
    Keyword{"title", Kind::text},
    Keyword{"description", Kind::text},
    Keyword{"default", Kind::annotation},
    Keyword{"examples", Kind::annotation},
    Keyword{"readOnly", Kind::annotation},
    Keyword{"writeOnly", Kind::annotation},
    Keyword{"deprecated", Kind::annotation},
    Keyword{"definitions", Kind::definitions},
    Keyword{"$defs", Kind::definitions},
    Keyword{"$ref", Kind::reference, true},
    Keyword{"allOf", Kind::list, true},
    Keyword{"anyOf", Kind::list, true},
    Keyword{"oneOf", Kind::list, true},
    Keyword{"not", Kind::subschema, true},
    Keyword{"if", Kind::subschema, true},
    Keyword{"then", Kind::subschema, true},
    Keyword{"else", Kind::subschema, true},
    Keyword{"dependencies", Kind::dependencies, true},
    Keyword{"properties", Kind::named},
    Keyword{"patternProperties", Kind::patterned},
    Keyword{"additionalProperties", Kind::subschema},
    Keyword{"propertyNames", Kind::subschema},
    Keyword{"required", Kind::names},
    Keyword{"minProperties", Kind::count},
    Keyword{"maxProperties", Kind::count},
    Keyword{"items", Kind::items},
    Keyword{"additionalItems", Kind::subschema},
    Keyword{"contains", Kind::subschema},
    Keyword{"minItems", Kind::count},
    Keyword{"maxItems", Kind::count},
    Keyword{"uniqueItems", Kind::boolean},
    Keyword{"type", Kind::type},
    Keyword{"enum", Kind::values},
    Keyword{"const", Kind::annotation},
    Keyword{"minimum", Kind::number},
    Keyword{"maximum", Kind::number},
    Keyword{"exclusiveMinimum", Kind::number},
    Keyword{"exclusiveMaximum", Kind::number},
    Keyword{"multipleOf", Kind::positive},
    Keyword{"minLength", Kind::count},
    Keyword{"maxLength", Kind::count},
    Keyword{"pattern", Kind::pattern},
    Keyword{"format", Kind::format},
};

constexpr std::array types{"array", "boolean", "integer", "null", "number", "object", "string"};

#define SLUICE_DATE "[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
#define SLUICE_TIME \
  "(?:[01][0-9]|2[0-3]):[0-5][0-9]:(?:[0-5][0-9]|60)(?:\\.[0-9]+)?(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
#define SLUICE_BYTE "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"

struct Format {
  std::string_view name;
  std::string_view pattern;
};
constexpr std::array formats{
    Format{"date", "^" SLUICE_DATE "$"},
    Format{"time", "^" SLUICE_TIME "$"},
    Format{"date-time", "^" SLUICE_DATE "[Tt ]" SLUICE_TIME "$"},
    Format{"uuid", "^[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}$"},
    Format{"email", "^[^@[:space:][:cntrl:]]+@[^@[:space:][:cntrl:]]+$"},
    Format{"ipv4", "^(?:" SLUICE_BYTE "\\.){3}" SLUICE_BYTE "$"},
};

std::string escaped(std::string_view name) {
  std::string step = "/";
  append_pointer_escaped(step, name);
  return step;
}

// A fault is thrown and caught at its keyword. The check then continues with the next keyword.
class Rules {
 public:
  explicit Rules(element root) : root_(root) {}

  std::expected<std::vector<std::string>, std::vector<Fault>> run() {
    attempt([&] { subschema(root_, "", 0); });
    std::map<std::string, Color> colors;
    for (const auto& [pointer, edges] : in_place_) {
      if (faults_.empty()) attempt([&] { find_loop(pointer, colors); });
    }
    if (!faults_.empty()) return std::unexpected(std::move(faults_));
    return std::move(patterns_);
  }

 private:
  enum class Color : std::uint8_t { open, closed };

  [[noreturn]] static void fail(std::string pointer, std::string reason) {
    throw Fault{std::move(pointer), std::move(reason)};
  }

  template <class Step>
  void attempt(const Step& step) {
    if (faults_.size() == most_faults) return;
    try {
      step();
    } catch (Fault& fault) {
      faults_.push_back(std::move(fault));
    }
  }

  void subschema(element schema, const std::string& pointer, std::size_t depth) {
    if (!in_place_.emplace(pointer, std::vector<std::string>{}).second) return;
    if (in_place_.size() > most_subschemas) {
      fail(pointer, "there are more than " + std::to_string(most_subschemas) + " subschemas");
    }
    if (depth > deepest_schema) {
      fail(pointer,
           "subschemas are nested deeper than " + std::to_string(deepest_schema) + " levels, references included");
    }
    if (schema.is_bool()) return;
    simdjson::dom::object object;
    if (schema.get_object().get(object) != simdjson::SUCCESS) fail(pointer, "a schema is an object, true or false");
    std::vector<std::string_view> seen;
    for (const auto& [key, value] : object) {
      const std::string at = pointer + escaped(key);
      if (std::ranges::find(seen, key) != seen.end()) fail(at, "this is there twice");
      seen.push_back(key);
      if (key.starts_with("x-")) continue;
      if (key == "$id" && pointer.empty()) continue;
      const auto known = std::ranges::find(keywords, key, &Keyword::name);
      attempt([&] {
        if (known == keywords.end()) {
          fail(at, "the keyword \"" + std::string(key) + "\" is not known, and would not be enforced");
        }
        keyword(*known, value, pointer, at, depth);
      });
    }
    const auto has = [&](std::string_view key) { return std::ranges::find(seen, key) != seen.end(); };
    if (has("$ref")) {
      for (const std::string_view key : seen) {
        const auto known = std::ranges::find(keywords, key, &Keyword::name);
        const bool harmless = known == keywords.end() || known->kind == Kind::annotation || known->kind == Kind::text ||
                              known->kind == Kind::definitions || known->kind == Kind::reference;
        if (!harmless || key == "const") {
          fail(pointer + escaped(key), "beside \"$ref\" it would be passed over: put both into \"allOf\"");
        }
      }
    }
    if ((has("then") || has("else")) && !has("if")) fail(pointer, "\"then\" and \"else\" need an \"if\"");
    if (has("additionalItems")) {
      simdjson::dom::element items;
      if (object.at_key("items").get(items) != simdjson::SUCCESS || !items.is_array()) {
        fail(pointer + "/additionalItems", "it is for \"items\" that is a list");
      }
    }
  }

  void keyword(const Keyword& keyword, element value, const std::string& pointer, const std::string& at,
               std::size_t depth) {
    const auto inner = [&](element schema, const std::string& place) {
      subschema(schema, place, depth + 1);
      if (keyword.in_place) in_place_[pointer].push_back(place);
    };
    const auto each = [&](const auto& of_member) {
      simdjson::dom::object object;
      if (value.get_object().get(object) != simdjson::SUCCESS) fail(at, "must be an object");
      std::vector<std::string_view> seen;
      for (const auto& [key, member] : object) {
        const std::string place = at + escaped(key);
        if (key.contains('\0')) fail(at, "a name holds the character NUL");
        if (std::ranges::find(seen, key) != seen.end()) fail(place, "this is there twice");
        seen.push_back(key);
        of_member(key, member, place);
      }
    };
    const auto list = [&](const auto& of_item) {
      simdjson::dom::array array;
      if (value.get_array().get(array) != simdjson::SUCCESS) fail(at, "must be a list");
      std::size_t index = 0;
      for (const element item : array) of_item(item, at + "/" + std::to_string(index++));
      return index;
    };
    switch (keyword.kind) {
      case Kind::annotation:
        return;
      case Kind::text:
        if (!value.is_string()) fail(at, "must be a string");
        return;
      case Kind::subschema:
        return inner(value, at);
      case Kind::items:
        if (!value.is_array()) return inner(value, at);
        list([&](element item, const std::string& place) { inner(item, place); });
        return;
      case Kind::list:
        if (list([&](element item, const std::string& place) { inner(item, place); }) == 0)
          fail(at, "must not be empty");
        return;
      case Kind::named:
      case Kind::definitions:
        return each([&](std::string_view, element member, const std::string& place) { inner(member, place); });
      case Kind::patterned:
        return each([&](std::string_view key, element member, const std::string& place) {
          take_pattern(key, place);
          inner(member, place);
        });
      case Kind::dependencies:
        return each([&](std::string_view, element member, const std::string& place) {
          if (!member.is_array()) return inner(member, place);
          names(member, place);
        });
      case Kind::reference:
        return reference(value, pointer, at, depth);
      case Kind::type: {
        const auto check = [&](element name, const std::string& place) {
          std::string_view text;
          if (name.get_string().get(text) != simdjson::SUCCESS || std::ranges::find(types, text) == types.end()) {
            fail(place, "a type is one of array, boolean, integer, null, number, object and string");
          }
        };
        if (!value.is_array()) return check(value, at);
        if (list(check) == 0) fail(at, "must not be empty");
        return;
      }
      case Kind::values:
        if (list([](element, const std::string&) {}) == 0) fail(at, "must not be empty");
        return;
      case Kind::number:
      case Kind::positive:
        if (!value.is_number()) fail(at, "must be a number");
        if (double number = 0;
            keyword.kind == Kind::positive && (value.get_double().get(number) != simdjson::SUCCESS || !(number > 0))) {
          fail(at, "must be more than 0");
        }
        return;
      case Kind::count:
        if (std::int64_t number = 0; value.get_int64().get(number) != simdjson::SUCCESS || number < 0) {
          fail(at, "must be an integer of at least 0");
        }
        return;
      case Kind::pattern: {
        std::string_view text;
        if (value.get_string().get(text) != simdjson::SUCCESS) fail(at, "must be a string");
        return take_pattern(text, at);
      }
      case Kind::format: {
        std::string_view name;
        if (value.get_string().get(name) != simdjson::SUCCESS) fail(at, "must be a string");
        if (const auto pattern = format_pattern(name); !pattern.empty()) {
          patterns_.emplace_back(pattern);
          return;
        }
        std::string all;
        for (const Format& format : formats) all += (all.empty() ? "" : ", ") + std::string(format.name);
        fail(at, "the format \"" + std::string(name) + "\" is none that is checked: " + all);
      }
      case Kind::names:
        return names(value, at);
      case Kind::boolean:
        if (!value.is_bool()) fail(at, "must be true or false");
        return;
    }
  }

  static void names(element value, const std::string& at) {
    simdjson::dom::array array;
    if (value.get_array().get(array) != simdjson::SUCCESS) fail(at, "must be a list of names");
    for (const element name : array) {
      if (!name.is_string()) fail(at, "must be a list of names");
    }
  }

  void reference(element value, const std::string& pointer, const std::string& at, std::size_t depth) {
    std::string_view text;
    if (value.get_string().get(text) != simdjson::SUCCESS) fail(at, "must be a string");
    if (!text.starts_with('#')) fail(at, "only references within the schema (\"#/definitions/...\") are followed");
    text.remove_prefix(1);
    if (!text.empty() && !text.starts_with('/')) fail(at, "a reference is a path (\"#/definitions/...\"), not a name");
    if (text.contains('%') || text.ends_with('/')) fail(at, "a reference holds no \"%\" and does not end with \"/\"");
    element target = root_;
    if (!text.empty() && root_.at_pointer(text).get(target) != simdjson::SUCCESS) {
      fail(at, "there is no \"#" + std::string(text) + "\"");
    }
    const std::string place(text);
    subschema(target, place, depth + 1);
    in_place_[pointer].push_back(place);
  }

  void take_pattern(std::string_view pattern, const std::string& at) {
    re2::RE2::Options options(re2::RE2::Quiet);
    const re2::RE2 compiled(re2::StringPiece(pattern.data(), pattern.size()), options);
    if (!compiled.ok()) {
      fail(at,
           "this regular expression cannot be taken (it is RE2's syntax, which has no look-around and no "
           "back-references): " +
               compiled.error());
    }
    patterns_.emplace_back(pattern);
  }

  // Finds references that would apply a schema to the same value endlessly.
  void find_loop(const std::string& pointer, std::map<std::string, Color>& colors) {
    const auto [color, is_new] = colors.emplace(pointer, Color::open);
    if (!is_new) {
      if (color->second == Color::open) fail(pointer, "this schema applies itself to the same value, without end");
      return;
    }
    for (const std::string& next : in_place_[pointer]) find_loop(next, colors);
    color->second = Color::closed;
  }

  element root_;
  std::map<std::string, std::vector<std::string>> in_place_;  // for each subschema, those that apply to the same value
  std::vector<std::string> patterns_;
  std::vector<Fault> faults_;
};

// Rewrites a schema for another place.
class Relocation {
 public:
  explicit Relocation(std::string_view place) : place_(place) {}

  std::string schema(element schema, bool is_root) {
    simdjson::dom::object object;
    if (schema.get_object().get(object) != simdjson::SUCCESS) return simdjson::to_string(schema);
    Members members;
    const bool has_list = [&] {
      element items;
      return object.at_key("items").get(items) == simdjson::SUCCESS && items.is_array();
    }();
    for (const auto& [key, value] : object) {
      if (is_root && (key == "$schema" || key == "$id")) continue;
      const auto known = std::ranges::find(keywords, key, &Keyword::name);
      const Kind kind = known == keywords.end() ? Kind::annotation : known->kind;
      switch (kind) {
        case Kind::subschema:
          members.add(key == "additionalItems" ? "items" : key, this->schema(value, false));
          break;
        case Kind::items:
          members.add(has_list ? "prefixItems" : key, has_list ? list(value) : this->schema(value, false));
          break;
        case Kind::list:
          members.add(key, list(value));
          break;
        case Kind::named:
        case Kind::patterned:
        case Kind::definitions:
          members.add(key, named(value, false));
          break;
        case Kind::dependencies:
          members.add("dependentSchemas", named(value, false));
          members.add("dependentRequired", named(value, true));
          break;
        case Kind::reference: {
          std::string_view target;
          if (value.get_string().get(target) == simdjson::SUCCESS)
            members.add(key, quoted(place_ + std::string(target.substr(1))));
          break;
        }
        default:
          members.add(key, simdjson::to_string(value));
      }
    }
    return members.text();
  }

 private:
  struct Members {
    std::string inside;
    void add(std::string_view name, const std::string& json) {
      if (!inside.empty()) inside += ',';
      inside += quoted(name) + ":" + json;
    }
    [[nodiscard]] std::string text() const { return "{" + inside + "}"; }
  };

  static std::string quoted(std::string_view text) {
    Buffer escaped;
    append_json_escaped(escaped, text);
    return "\"" + std::string(escaped.view()) + "\"";
  }
  std::string list(element value) {
    std::string items;
    simdjson::dom::array array;
    if (value.get_array().get(array) != simdjson::SUCCESS) return "[]";
    for (const element item : array) items += (items.empty() ? "" : ",") + schema(item, false);
    return "[" + items + "]";
  }
  // Selects from "dependencies" either the lists of names or the schemas.
  std::string named(element value, bool lists) {
    Members members;
    simdjson::dom::object object;
    if (value.get_object().get(object) != simdjson::SUCCESS) return "{}";
    for (const auto& [key, member] : object) {
      if (member.is_array() != lists) continue;
      members.add(key, lists ? simdjson::to_string(member) : schema(member, false));
    }
    return members.text();
  }

  std::string place_;
};

}  // namespace

std::string relocated(std::string_view json, std::string_view place) {
  simdjson::dom::parser parser;
  element root;
  if (parser.parse(json.data(), json.size()).get(root) != simdjson::SUCCESS) return "true";
  return Relocation(place).schema(root, true);
}

std::string_view format_pattern(std::string_view format) {
  const auto found = std::ranges::find(formats, format, &Format::name);
  return found == formats.end() ? std::string_view{} : found->pattern;
}

std::expected<std::vector<std::string>, std::vector<Fault>> check_rules(std::string_view json) {
  if (json.size() > longest_schema) {
    return std::unexpected(std::vector{Fault{"", "a schema has at most " + std::to_string(longest_schema) + " bytes"}});
  }
  simdjson::dom::parser parser;
  element root;
  if (const auto error = parser.parse(json.data(), json.size()).get(root); error != simdjson::SUCCESS) {
    return std::unexpected(std::vector{Fault{"", std::string("it is not JSON: ") + simdjson::error_message(error)}});
  }
  return Rules(root).run();
}

}  // namespace sluice::api::schema
