#include "api/schema/rules.h"

#include <algorithm>
#include <array>
#include <map>
#include <variant>

#include <re2/re2.h>
#include <simdjson.h>

#include "api/schema/subschema.h"
#include "base/buffer.h"
#include "base/json.h"

namespace sluice::api::schema {
namespace {

using simdjson::dom::element;

enum class Kind : std::uint8_t {
  annotation,  // does not affect validity
  text,        // an annotation that is a string
  subschema,
  others,        // a schema for items or members that other keywords do not name
  items,         // a schema, or a list of them
  list,          // a list of schemas
  properties,    // an object of schemas
  patterned,     // an object of schemas, by regular expressions
  definitions,   // an object of schemas, which apply only where they are referenced
  dependencies,  // an object of schemas and lists of names
  reference,
  type,
  constant,
  values,  // a nonempty list
  number,
  multiple,
  count,
  pattern,
  format,
  names,
  boolean,
};

using Target = std::variant<std::monostate, const Subschema * Subschema::*, Subschema::Schemas Subschema::*,
                            double Subschema::*, Subschema::Count Subschema::*>;

struct Keyword {
  std::string_view name;
  Kind kind;
  Check check = Check::none;
  Target target = {};     // the member that receives it, unless its kind has only one keyword
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
    Keyword{"$ref", Kind::reference, Check::none, {}, true},
    Keyword{"allOf", Kind::list, Check::all_of, &Subschema::all_of, true},
    Keyword{"anyOf", Kind::list, Check::any_of, &Subschema::any_of, true},
    Keyword{"oneOf", Kind::list, Check::one_of, &Subschema::one_of, true},
    Keyword{"not", Kind::subschema, Check::excluded, &Subschema::excluded, true},
    Keyword{"if", Kind::subschema, Check::condition, &Subschema::condition, true},
    Keyword{"then", Kind::subschema, Check::condition, &Subschema::if_true, true},
    Keyword{"else", Kind::subschema, Check::condition, &Subschema::if_false, true},
    Keyword{"dependencies", Kind::dependencies, Check::dependencies, {}, true},
    Keyword{"properties", Kind::properties, Check::properties},
    Keyword{"patternProperties", Kind::patterned, Check::properties},
    Keyword{"additionalProperties", Kind::others, Check::properties, &Subschema::other_properties},
    Keyword{"propertyNames", Kind::subschema, Check::property_names, &Subschema::property_names},
    Keyword{"required", Kind::names, Check::required},
    Keyword{"minProperties", Kind::count, Check::min_size, &Subschema::min_properties},
    Keyword{"maxProperties", Kind::count, Check::max_size, &Subschema::max_properties},
    Keyword{"items", Kind::items, Check::items},
    Keyword{"additionalItems", Kind::others, Check::items, &Subschema::other_items},
    Keyword{"contains", Kind::subschema, Check::contains, &Subschema::contains},
    Keyword{"minItems", Kind::count, Check::min_size, &Subschema::min_items},
    Keyword{"maxItems", Kind::count, Check::max_size, &Subschema::max_items},
    Keyword{"uniqueItems", Kind::boolean, Check::unique_items},
    Keyword{"type", Kind::type, Check::type},
    Keyword{"enum", Kind::values, Check::one_of_values},
    Keyword{"const", Kind::constant, Check::constant},
    Keyword{"minimum", Kind::number, Check::minimum, &Subschema::minimum},
    Keyword{"maximum", Kind::number, Check::maximum, &Subschema::maximum},
    Keyword{"exclusiveMinimum", Kind::number, Check::exclusive_minimum, &Subschema::exclusive_minimum},
    Keyword{"exclusiveMaximum", Kind::number, Check::exclusive_maximum, &Subschema::exclusive_maximum},
    Keyword{"multipleOf", Kind::multiple, Check::multiple_of},
    Keyword{"minLength", Kind::count, Check::min_size, &Subschema::min_length},
    Keyword{"maxLength", Kind::count, Check::max_size, &Subschema::max_length},
    Keyword{"pattern", Kind::pattern, Check::pattern},
    Keyword{"format", Kind::format, Check::format},
};

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
class Compiler {
 public:
  Compiler(element root, Compiled& compiled) : root_(root), compiled_(compiled) {}

  std::vector<Fault> run() {
    attempt([&] { subschema(root_, "", 0); });
    for (const auto& [pointer, place] : places_) {
      if (faults_.empty()) attempt([&] { find_loop(pointer); });
    }
    return std::move(faults_);
  }

 private:
  struct Place {
    const Subschema* schema = nullptr;
    std::vector<std::string> in_place;  // the subschemas that apply to the same value
    enum class Color : std::uint8_t { unseen, open, closed } color = Color::unseen;
  };

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

  const Subschema* subschema(element schema, const std::string& pointer, std::size_t depth) {
    const auto [place, is_new] = places_.try_emplace(pointer);
    if (!is_new) return place->second.schema;
    Subschema& made = compiled_.subschemas.emplace_back();
    place->second.schema = &made;
    if (places_.size() > most_subschemas) {
      fail(pointer, "there are more than " + std::to_string(most_subschemas) + " subschemas");
    }
    if (depth > deepest_schema) {
      fail(pointer,
           "subschemas are nested deeper than " + std::to_string(deepest_schema) + " levels, references included");
    }
    if (schema.is_bool()) {
      made.nothing = !bool(schema);
      return &made;
    }
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
        if (known->check != Check::none) made.checks |= 1U << static_cast<unsigned>(known->check);
        keyword(*known, value, made, place->second.in_place, at, depth);
      });
    }
    const auto has = [&](std::string_view key) { return std::ranges::find(seen, key) != seen.end(); };
    if (has("$ref")) {
      for (const std::string_view key : seen) {
        const auto known = std::ranges::find(keywords, key, &Keyword::name);
        const bool harmless = known == keywords.end() || known->kind == Kind::annotation || known->kind == Kind::text ||
                              known->kind == Kind::definitions || known->kind == Kind::reference;
        if (!harmless) fail(pointer + escaped(key), "beside \"$ref\" it would be passed over: put both into \"allOf\"");
      }
    }
    if ((has("then") || has("else")) && !has("if")) fail(pointer, "\"then\" and \"else\" need an \"if\"");
    if (has("additionalItems")) {
      simdjson::dom::element items;
      if (object.at_key("items").get(items) != simdjson::SUCCESS || !items.is_array()) {
        fail(pointer + "/additionalItems", "it is for \"items\" that is a list");
      }
    }
    return &made;
  }

  void keyword(const Keyword& keyword, element value, Subschema& made, std::vector<std::string>& in_place,
               const std::string& at, std::size_t depth) {
    const auto inner = [&](element schema, const std::string& place) {
      const Subschema* const compiled = subschema(schema, place, depth + 1);
      if (keyword.in_place) in_place.push_back(place);
      return compiled;
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
    const auto nonempty = [&](const auto& of_item) {
      if (list(of_item) == 0) fail(at, "must not be empty");
    };
    switch (keyword.kind) {
      case Kind::annotation:
        return;
      case Kind::text:
        (void)string(value, at);
        return;
      case Kind::subschema:
        target<const Subschema*>(keyword, made) = inner(value, at);
        return;
      case Kind::others: {
        const Subschema* const others = inner(value, at);
        target<const Subschema*>(keyword, made) = others->nothing ? nullptr : others;
        return;
      }
      case Kind::items:
        if (!value.is_array()) {
          made.other_items = inner(value, at);
          return;
        }
        list([&](element item, const std::string& place) { made.first_items.push_back(inner(item, place)); });
        return;
      case Kind::list: {
        auto& schemas = target<Subschema::Schemas>(keyword, made);
        return nonempty([&](element item, const std::string& place) { schemas.push_back(inner(item, place)); });
      }
      case Kind::definitions:
        return each([&](std::string_view, element member, const std::string& place) { inner(member, place); });
      case Kind::properties:
        each([&](std::string_view key, element member, const std::string& place) {
          made.properties.emplace_back(key, inner(member, place));
        });
        std::ranges::sort(made.properties);
        return;
      case Kind::patterned:
        each([&](std::string_view key, element member, const std::string& place) {
          const re2::RE2* const pattern = compile_pattern(key, place);
          made.pattern_properties.emplace_back(pattern, inner(member, place));
        });
        std::ranges::sort(made.pattern_properties, {}, [](const auto& member) { return member.first->pattern(); });
        return;
      case Kind::dependencies:
        each([&](std::string_view key, element member, const std::string& place) {
          if (member.is_array()) {
            made.dependent_names.emplace_back(key, names(member, place));
          } else {
            made.dependent_schemas.emplace_back(key, inner(member, place));
          }
        });
        std::ranges::sort(made.dependent_names);
        std::ranges::sort(made.dependent_schemas);
        return;
      case Kind::reference: {
        const std::string path = path_of_reference(value, at);
        element target = root_;
        if (!path.empty() && root_.at_pointer(path).get(target) != simdjson::SUCCESS) {
          fail(at, "there is no \"#" + path + "\"");
        }
        made.reference = inner(target, path);
        return;
      }
      case Kind::type: {
        const auto allow = [&](element name, const std::string& place) {
          std::string_view text;
          const auto error = name.get_string().get(text);
          const auto type = std::ranges::find(type_names, text);
          if (error != simdjson::SUCCESS || type == type_names.end()) {
            fail(place, "a type is one of array, boolean, integer, null, number, object and string");
          }
          made.types |= static_cast<std::uint8_t>(1U << (type - type_names.begin()));
        };
        return value.is_array() ? nonempty(allow) : allow(value, at);
      }
      case Kind::constant:
        made.constant = value;
        return;
      case Kind::values:
        return nonempty([&](element item, const std::string&) { made.values.push_back(item); });
      case Kind::number:
        target<double>(keyword, made) = number(value, at);
        return;
      case Kind::multiple:
        if (!(number(value, at) > 0)) fail(at, "must be more than 0");
        made.multiple_of = value;
        return;
      case Kind::count: {
        std::int64_t count = 0;
        if (value.get_int64().get(count) != simdjson::SUCCESS || count < 0) {
          fail(at, "must be an integer of at least 0");
        }
        target<Subschema::Count>(keyword, made) = static_cast<std::uint64_t>(count);
        return;
      }
      case Kind::pattern:
        made.pattern = compile_pattern(string(value, at), at);
        return;
      case Kind::format: {
        const std::string_view name = string(value, at);
        const auto format = std::ranges::find(formats, name, &Format::name);
        if (format == formats.end()) {
          std::string all;
          for (const Format& known : formats) all += (all.empty() ? "" : ", ") + std::string(known.name);
          fail(at, "the format \"" + std::string(name) + "\" is not known: it is one of " + all);
        }
        made.format = compile_pattern(format->pattern, at);
        made.format_name = format->name;
        return;
      }
      case Kind::names:
        made.required = names(value, at);
        return;
      case Kind::boolean:
        if (value.get_bool().get(made.unique_items) != simdjson::SUCCESS) fail(at, "must be true or false");
        return;
    }
  }

  template <class T>
  static T& target(const Keyword& keyword, Subschema& made) {
    return made.*std::get<T Subschema::*>(keyword.target);
  }

  static std::string_view string(element value, const std::string& at) {
    std::string_view text;
    if (value.get_string().get(text) != simdjson::SUCCESS) fail(at, "must be a string");
    return text;
  }
  static double number(element value, const std::string& at) {
    double number = 0;
    if (!value.is_number() || value.get_double().get(number) != simdjson::SUCCESS) fail(at, "must be a number");
    return number;
  }
  static Subschema::Names names(element value, const std::string& at) {
    simdjson::dom::array array;
    if (value.get_array().get(array) != simdjson::SUCCESS) fail(at, "must be a list of names");
    Subschema::Names names;
    for (const element name : array) {
      if (!name.is_string()) fail(at, "must be a list of names");
      names.push_back(string(name, at));
    }
    std::ranges::sort(names);
    const auto repeated = std::ranges::unique(names);
    names.erase(repeated.begin(), repeated.end());
    return names;
  }

  static std::string path_of_reference(element value, const std::string& at) {
    std::string_view text = string(value, at);
    if (!text.starts_with('#')) fail(at, "only references within the schema (\"#/definitions/...\") are followed");
    text.remove_prefix(1);
    if (!text.empty() && !text.starts_with('/')) fail(at, "a reference is a path (\"#/definitions/...\"), not a name");
    if (text.contains('%') || text.ends_with('/')) fail(at, "a reference holds no \"%\" and does not end with \"/\"");
    return std::string(text);
  }

  const re2::RE2* compile_pattern(std::string_view pattern, const std::string& at) {
    auto& compiled = compiled_.patterns[std::string(pattern)];
    if (compiled == nullptr) {
      compiled = std::make_unique<const re2::RE2>(re2::StringPiece(pattern.data(), pattern.size()), re2::RE2::Quiet);
    }
    if (!compiled->ok()) {
      fail(at,
           "this regular expression cannot be taken (it is RE2's syntax, which has no look-around and no "
           "back-references): " +
               compiled->error());
    }
    return compiled.get();
  }

  // Finds references that would apply a schema to the same value endlessly.
  void find_loop(const std::string& pointer) {
    Place& place = places_.at(pointer);
    if (place.color == Place::Color::open) {
      fail(pointer, "this schema applies itself to the same value, without end");
    }
    if (place.color == Place::Color::closed) return;
    place.color = Place::Color::open;
    for (const std::string& next : place.in_place) find_loop(next);
    place.color = Place::Color::closed;
  }

  element root_;
  Compiled& compiled_;
  std::map<std::string, Place> places_;  // by JSON pointer
  std::vector<Fault> faults_;
};

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
        case Kind::others:
          members.add(key == "additionalItems" ? "items" : key, this->schema(value, false));
          break;
        case Kind::items:
          members.add(has_list ? "prefixItems" : key, has_list ? list(value) : this->schema(value, false));
          break;
        case Kind::list:
          members.add(key, list(value));
          break;
        case Kind::properties:
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

std::expected<std::unique_ptr<const Compiled>, std::vector<Fault>> compile(std::string_view json) {
  if (json.size() > longest_schema) {
    return std::unexpected(std::vector{Fault{"", "a schema has at most " + std::to_string(longest_schema) + " bytes"}});
  }
  auto compiled = std::make_unique<Compiled>();
  element root;
  if (const auto error = compiled->parser.parse(json.data(), json.size()).get(root); error != simdjson::SUCCESS) {
    return std::unexpected(std::vector{Fault{"", std::string("it is not JSON: ") + simdjson::error_message(error)}});
  }
  if (auto faults = Compiler(root, *compiled).run(); !faults.empty()) return std::unexpected(std::move(faults));
  return compiled;
}

}  // namespace sluice::api::schema
