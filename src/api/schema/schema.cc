#include "api/schema/schema.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <functional>
#include <optional>

#include <fmt/format.h>
#include <re2/re2.h>
#include <simdjson.h>

#include "api/schema/subschema.h"
#include "base/buffer.h"
#include "base/json.h"
#include "sql/parameters.h"

namespace sluice::api::schema {
namespace {

using simdjson::dom::element;

std::string_view text_of(element value) {
  std::string_view text;
  return value.get_string().get(text) == simdjson::SUCCESS ? text : std::string_view{};
}

std::optional<double> number_of(element value) {
  double number = 0;
  if (value.is_number() && value.get_double().get(number) == simdjson::SUCCESS) return number;
  return std::nullopt;
}

// The number of characters in valid UTF-8.
std::size_t length_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

// Appends the same text for equal values: members of an object in any order, 1 and 1.0.
void append_canonical(element value, std::string& out) {
  using simdjson::dom::element_type;
  switch (value.type()) {
    case element_type::ARRAY: {
      out += '[';
      simdjson::dom::array array;
      if (value.get_array().get(array) == simdjson::SUCCESS) {
        for (const element item : array) {
          append_canonical(item, out);
          out += ',';
        }
      }
      out += ']';
      return;
    }
    case element_type::OBJECT: {
      std::vector<std::string> members;
      simdjson::dom::object object;
      if (value.get_object().get(object) == simdjson::SUCCESS) {
        for (const auto& [key, member] : object) {
          std::string text = std::to_string(key.size()) + ":" + std::string(key);
          append_canonical(member, text);
          members.push_back(std::move(text));
        }
      }
      std::ranges::sort(members);
      out += '{';
      for (const std::string& member : members) out += member + ",";
      out += '}';
      return;
    }
    case element_type::STRING: {
      const std::string_view text = text_of(value);
      out += '"' + std::to_string(text.size()) + ":";
      out += text;
      return;
    }
    case element_type::INT64:
      out += std::to_string(std::int64_t(value));
      return;
    case element_type::UINT64:
      out += std::to_string(std::uint64_t(value));
      return;
    case element_type::DOUBLE: {
      const double number = double(value);
      if (std::trunc(number) == number && std::abs(number) < 9e15) {
        out += std::to_string(static_cast<std::int64_t>(number));
      } else {
        out += fmt::format("{}", number);
      }
      return;
    }
    case element_type::BOOL:
      out += bool(value) ? "true" : "false";
      return;
    case element_type::NULL_VALUE:
      out += "null";
      return;
  }
}

}  // namespace

Schema::Schema(std::string text, std::unique_ptr<const Compiled> compiled)
    : text_(std::move(text)), compiled_(std::move(compiled)) {
  simdjson::dom::array names;
  if (compiled_->parser.doc.root().at_key("required").get(names) != simdjson::SUCCESS) return;
  for (const element name : names) required_.emplace_back(text_of(name));
}
Schema::~Schema() = default;

std::expected<std::shared_ptr<const Schema>, std::vector<Fault>> Schema::parse(std::string_view json) {
  auto compiled = compile(json);
  if (!compiled) return std::unexpected(std::move(compiled.error()));
  return std::shared_ptr<const Schema>(new Schema(std::string(json), std::move(*compiled)));
}

struct Validator::State {
  explicit State(const Schema& given) : schema(given) {}
  const Schema& schema;
  simdjson::dom::parser parser;
};

// Applies the schema to one value. A keyword that does not hold adds a fault with its position. Faults are not reported
// within `not`, `if` and alternatives.
class Validator::Application {
 public:
  Application(Scalars scalars, std::size_t steps, std::size_t most, std::vector<Fault>& faults)
      : scalars_(scalars), steps_(steps), most_(most), faults_(faults) {}

  bool run(const Subschema& schema, element value) {
    const bool good = holds(schema, value);
    if (stopped_ != nullptr) {
      add(stopped_);
    } else if (!good && faults_.empty()) {
      add("does not fit the schema");
    }
    return good && stopped_ == nullptr;
  }

 private:
  // --- Common parts.

  bool holds(const Subschema& given, element value) {
    const Subschema* schema = &given;
    while (schema->reference != nullptr) schema = schema->reference;
    if (!spend(1)) return false;
    if (depth_ == deepest_application) return stop("is nested too deeply for its schema");
    if (schema->nothing) return fail("is not allowed");
    const element before = std::exchange(value_, value);
    ++depth_;
    const bool good = apply(*schema);
    --depth_;
    value_ = before;
    return good && stopped_ == nullptr;
  }
  bool apply(const Subschema& schema) {
    using A = Application;
    // In the order of Check.
    static constexpr bool (A::* checks[])(const Subschema&) = {
        &A::all_of,
        &A::any_of,
        &A::constant,
        &A::contains,
        &A::dependencies,
        &A::one_of_values,
        &A::format,
        &A::items,
        &A::condition,
        &A::exclusive_maximum,
        &A::maximum,
        &A::max_size,
        &A::exclusive_minimum,
        &A::minimum,
        &A::min_size,
        &A::multiple_of,
        &A::excluded,
        &A::one_of,
        &A::pattern,
        &A::properties,
        &A::property_names,
        &A::required,
        &A::type,
        &A::unique_items,
    };
    static_assert(std::size(checks) == static_cast<std::size_t>(Check::none));
    bool good = true;
    for (auto left = schema.checks; left != 0 && (good || !silent_); left &= left - 1) {
      good &= (this->*checks[static_cast<std::size_t>(std::countr_zero(left))])(schema);
    }
    return good;
  }
  // Appends a step to the pointer while `act` runs.
  template <class Act>
  bool below(std::string_view step, const Act& act) {
    const std::size_t size = pointer_.size();
    pointer_ += '/';
    append_pointer_escaped(pointer_, step);
    const bool good = act();
    pointer_.resize(size);
    return good;
  }
  bool holds_at(const Subschema& schema, element value, std::string_view step) {
    return below(step, [&] { return holds(schema, value); });
  }
  // Whether the schema holds, without reporting faults.
  bool holds_silently(const Subschema& schema, element value) {
    const bool before = std::exchange(silent_, true);
    const bool good = holds(schema, value);
    silent_ = before;
    return good;
  }
  bool fail(std::string reason) {
    if (!silent_) add(std::move(reason));
    return false;
  }
  bool fail_at(std::string_view step, std::string reason) {
    return below(step, [&] { return fail(std::move(reason)); });
  }
  void add(std::string reason) {
    if (faults_.size() < most_) faults_.push_back({pointer_, std::move(reason)});
  }
  // Refuses the whole value, whatever else holds.
  bool stop(const char* reason) {
    if (stopped_ == nullptr) stopped_ = reason;
    return false;
  }
  // Whether the result is certain, so that the rest can be skipped.
  [[nodiscard]] bool enough(bool good) const {
    return stopped_ != nullptr || (!good && (silent_ || faults_.size() == most_));
  }
  bool spend(std::size_t steps) {
    if (stopped_ != nullptr) return false;
    if (steps_ < steps) return stop("takes too long to compare with its schema");
    steps_ -= steps;
    return true;
  }
  bool spend_on(std::string_view text) { return spend(1 + text.size() / 64); }

  // --- Types of values.

  [[nodiscard]] bool written_as(sql::ParameterType type) const {
    return scalars_ == Scalars::text && value_.is_string() && sql::fits(type, text_of(value_));
  }
  [[nodiscard]] std::optional<double> number() const {
    if (value_.is_number()) return number_of(value_);
    if (!written_as(sql::ParameterType::real)) return std::nullopt;
    const std::string_view text = text_of(value_);
    double read = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), read);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return read;
  }
  [[nodiscard]] bool is(Type type) const {
    switch (type) {
      case Type::array:
        return value_.is_array();
      case Type::boolean:
        return value_.is_bool() || written_as(sql::ParameterType::boolean);
      case Type::integer: {
        if (value_.is_int64() || value_.is_uint64()) return true;
        if (const auto real = value_.is_number() ? number_of(value_) : std::nullopt) return std::trunc(*real) == *real;
        return written_as(sql::ParameterType::integer);
      }
      case Type::null:
        return value_.is_null();
      case Type::number:
        return value_.is_number() || written_as(sql::ParameterType::real);
      case Type::object:
        return value_.is_object();
      case Type::string:
        return value_.is_string();
    }
    return false;
  }
  bool equals(element constant) {
    if (value_.is_string() && constant.is_string())
      return spend_on(text_of(value_)) && text_of(value_) == text_of(constant);
    if (scalars_ == Scalars::text && value_.is_string()) {
      if (const auto wanted = number_of(constant)) return spend(1) && number() == wanted;
      if (constant.is_bool()) return spend(1) && text_of(value_) == (bool(constant) ? "true" : "false");
    }
    if (value_.type() != constant.type() && !(value_.is_number() && constant.is_number())) {
      (void)spend(1);
      return false;
    }
    std::string here;
    std::string there;
    append_canonical(value_, here);
    append_canonical(constant, there);
    return spend_on(here) && here == there;
  }
  [[nodiscard]] std::optional<simdjson::dom::array> array() const {
    simdjson::dom::array found;
    return value_.get_array().get(found) == simdjson::SUCCESS ? std::optional(found) : std::nullopt;
  }
  [[nodiscard]] std::optional<simdjson::dom::object> object() const {
    simdjson::dom::object found;
    return value_.get_object().get(found) == simdjson::SUCCESS ? std::optional(found) : std::nullopt;
  }
  static std::size_t count(simdjson::dom::array array) {
    return static_cast<std::size_t>(std::distance(array.begin(), array.end()));
  }
  static std::size_t count(simdjson::dom::object object) {
    return static_cast<std::size_t>(std::distance(object.begin(), object.end()));
  }
  static bool has(simdjson::dom::object object, std::string_view name) {
    return object.at_key(name).error() == simdjson::SUCCESS;
  }
  [[nodiscard]] bool matches(const re2::RE2& pattern, std::string_view text) {
    return spend_on(text) && re2::RE2::PartialMatch(re2::StringPiece(text.data(), text.size()), pattern);
  }

  // --- Keywords.

  bool type(const Subschema& schema) {
    const unsigned types = schema.types;
    static constexpr std::string_view all[] = {"an array", "true or false", "an integer", "null",
                                               "a number", "an object",     "a string"};
    std::string names;
    for (std::uint8_t i = 0; i != std::size(all); ++i) {
      if ((types >> i & 1) != 0 && is(Type(i))) return true;
    }
    for (std::uint8_t i = 0; i != std::size(all) && !silent_; ++i) {
      if ((types >> i & 1) != 0) names += (names.empty() ? "" : " or ") + std::string(all[i]);
    }
    return fail("must be " + names);
  }
  bool one_of_values(const Subschema& schema) {
    std::size_t tried = 0;
    for (const element value : schema.values) {
      ++tried;
      if (equals(value)) return true;
      if (stopped_ != nullptr) break;
    }
    std::string all;
    for (std::size_t i = 0; !silent_ && i != std::min<std::size_t>(tried, 10); ++i) {
      all += (i == 0 ? "" : ", ") + shown(schema.values[i]);
    }
    return fail("must be one of " + all + (tried > 10 ? " ..." : ""));
  }
  bool constant(const Subschema& schema) {
    return equals(schema.constant) || fail("must be " + shown(schema.constant));
  }
  static std::string shown(element constant) {
    std::string text = simdjson::minify(constant);
    if (text.size() > 60) {
      text.resize(60);
      while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xC0) == 0x80) text.pop_back();
      if (!text.empty() && static_cast<unsigned char>(text.back()) >= 0xC0) text.pop_back();
      text += "...";
    }
    return text;
  }

  template <class Compare>
  bool compares(double bound, std::string_view how, Compare compare) {
    const auto found = number();
    return !found || compare(*found, bound) || fail(fmt::format("must be {} {}", how, bound));
  }
  bool exclusive_maximum(const Subschema& schema) {
    return compares(schema.exclusive_maximum, "less than", std::less());
  }
  bool maximum(const Subschema& schema) { return compares(schema.maximum, "at most", std::less_equal()); }
  bool exclusive_minimum(const Subschema& schema) {
    return compares(schema.exclusive_minimum, "more than", std::greater());
  }
  bool minimum(const Subschema& schema) { return compares(schema.minimum, "at least", std::greater_equal()); }
  bool multiple_of(const Subschema& schema) {
    constexpr auto message = "must be a multiple of {}";
    if (std::int64_t exact = 0; value_.is_int64() && schema.multiple_of.get(exact) == simdjson::SUCCESS) {
      return std::int64_t(value_) % exact == 0 || fail(fmt::format(message, exact));
    }
    const auto found = number();
    if (!found) return true;
    const double rounded = double(schema.multiple_of);
    const double quotient = *found / rounded;
    // Allows for rounding, because decimal fractions are meant: 0.3 is a multiple of 0.1.
    if (std::isfinite(quotient) &&
        std::abs(quotient - std::round(quotient)) <= 1e-9 * std::max(1.0, std::abs(quotient)))
      return true;
    return fail(fmt::format(message, rounded));
  }

  // The size of a list, a text or an object, each of which has a limit of its own.
  template <class Compare>
  bool has_size(Subschema::Count items, Subschema::Count length, Subschema::Count members, std::string_view how,
                Compare compare) {
    const auto within = [&](Subschema::Count limit, std::size_t size, std::string_view unit) {
      return compare(size, *limit) || fail(fmt::format("must have {} {} {}", how, *limit, unit));
    };
    if (items && value_.is_array()) return within(items, count(*array()), "items");
    if (members && value_.is_object()) return within(members, count(*object()), "fields");
    if (!length || !value_.is_string()) return true;
    return spend_on(text_of(value_)) && within(length, length_of(text_of(value_)), "characters");
  }
  bool max_size(const Subschema& schema) {
    return has_size(schema.max_items, schema.max_length, schema.max_properties, "at most", std::less_equal());
  }
  bool min_size(const Subschema& schema) {
    return has_size(schema.min_items, schema.min_length, schema.min_properties, "at least", std::greater_equal());
  }
  bool pattern(const Subschema& schema) {
    return !value_.is_string() || matches(*schema.pattern, text_of(value_)) ||
           fail("must match " + schema.pattern->pattern());
  }
  bool format(const Subschema& schema) {
    if (!value_.is_string()) return true;
    const std::string_view name = schema.format_name;
    return matches(*schema.format, text_of(value_)) ||
           fail(fmt::format("must be {} {}", name.starts_with("e") || name.starts_with("i") ? "an" : "a", name));
  }

  bool unique_items(const Subschema& schema) {
    const auto items = schema.unique_items ? array() : std::nullopt;
    if (!items) return true;
    std::vector<std::string> texts;
    for (const element item : *items) {
      append_canonical(item, texts.emplace_back());
      if (!spend_on(texts.back())) return false;
    }
    std::ranges::sort(texts);
    return std::ranges::adjacent_find(texts) == texts.end() || fail("must not have an item twice");
  }
  bool items(const Subschema& schema) {
    const Subschema::Schemas& first = schema.first_items;
    const auto items = array();
    if (!items) return true;
    bool good = true;
    std::size_t index = 0;
    for (const element item : *items) {
      const Subschema* const of_item = index < first.size() ? first[index] : schema.other_items;
      if (of_item == nullptr) return fail(fmt::format("must have at most {} items", first.size()));
      good &= holds_at(*of_item, item, std::to_string(index++));
      if (enough(good)) break;
    }
    return good;
  }
  bool contains(const Subschema& schema) {
    const auto items = array();
    if (!items) return true;
    for (const element item : *items) {
      if (holds_silently(*schema.contains, item)) return true;
      if (stopped_ != nullptr) return false;
    }
    return fail("has no item that it must have (contains)");
  }

  bool required(const Subschema& schema) {
    const auto members = object();
    if (!members) return true;
    bool good = true;
    for (const std::string_view name : schema.required) {
      if (!spend(1 + members->size() / 16)) return false;
      if (!has(*members, name)) good = fail_at(name, "is missing");
      if (enough(good)) break;
    }
    return good;
  }
  bool properties(const Subschema& schema) {
    const auto members = object();
    if (!members) return true;
    bool good = true;
    for (const auto& [key, value] : *members) {
      const std::string_view name = key;
      const auto found = std::ranges::find_if(schema.properties, [&](const auto& one) { return one.first == name; });
      bool known = found != schema.properties.end();
      if (known) good &= holds_at(*found->second, value, name);
      if (!spend(static_cast<std::size_t>(1 + (found - schema.properties.begin()) + (known ? 1 : 0)) / 8)) return false;
      for (const auto& [pattern, of_member] : schema.pattern_properties) {
        if (!matches(*pattern, name)) continue;
        known = true;
        good &= holds_at(*of_member, value, name);
        if (enough(good)) break;
      }
      if (stopped_ != nullptr) return false;
      if (!known) {
        good &= schema.other_properties == nullptr ? fail_at(name, "is not allowed")
                                                   : holds_at(*schema.other_properties, value, name);
      }
      if (enough(good)) break;
    }
    return good;
  }
  bool property_names(const Subschema& schema) {
    const auto members = object();
    if (!members) return true;
    simdjson::dom::parser parser;  // a name is validated as a separate value
    for (const auto& [key, value] : *members) {
      element name;
      Buffer quoted;
      quoted.append("\"");
      append_json_escaped(quoted, key);
      quoted.append("\"");
      const std::string_view json = quoted.view();
      if (parser.parse(json.data(), json.size()).get(name) != simdjson::SUCCESS)
        return fail("has a name that is not allowed");
      if (!holds_silently(*schema.property_names, name))
        return stopped_ == nullptr && fail_at(key, "is not allowed as a name");
    }
    return true;
  }
  bool dependencies(const Subschema& schema) {
    const auto members = object();
    if (!members) return true;
    bool good = true;
    for (const auto& [name, needed] : schema.dependent_names) {
      if (!spend(1 + members->size() / 16)) return false;
      if (!has(*members, name)) continue;
      for (const std::string_view one : needed) {
        if (!has(*members, one)) good = fail_at(one, "is missing beside \"" + std::string(name) + "\"");
      }
    }
    for (const auto& [name, dependent] : schema.dependent_schemas) {
      if (has(*members, name)) good &= holds(*dependent, value_);
      if (enough(good)) break;
    }
    return good;
  }

  bool all_of(const Subschema& schema) {
    bool good = true;
    for (const Subschema* const one : schema.all_of) {
      good &= holds(*one, value_);
      if (enough(good)) break;
    }
    return good;
  }
  std::size_t count_alternatives(const Subschema::Schemas& schemas, std::size_t most) {
    std::size_t good = 0;
    for (const Subschema* const schema : schemas) {
      good += holds_silently(*schema, value_) ? 1 : 0;
      if (good == most || stopped_ != nullptr) break;
    }
    return good;
  }
  bool any_of(const Subschema& schema) {
    if (count_alternatives(schema.any_of, 1) == 1) return true;
    return stopped_ == nullptr && fail("fits none of the alternatives of its schema (anyOf)");
  }
  bool one_of(const Subschema& schema) {
    const std::size_t good = count_alternatives(schema.one_of, 2);
    if (stopped_ != nullptr) return false;
    if (good == 1) return true;
    return fail(good == 0 ? "fits none of the alternatives of its schema (oneOf)"
                          : "fits more than one of the alternatives of its schema (oneOf)");
  }
  bool excluded(const Subschema& schema) {
    const bool good = holds_silently(*schema.excluded, value_);
    if (stopped_ != nullptr) return false;
    return !good || fail("is what its schema excludes (not)");
  }
  bool condition(const Subschema& schema) {
    const Subschema* const next = holds_silently(*schema.condition, value_) ? schema.if_true : schema.if_false;
    return stopped_ == nullptr && (next == nullptr || holds(*next, value_));
  }

  const Scalars scalars_;
  std::size_t steps_;
  const std::size_t most_;
  std::vector<Fault>& faults_;
  element value_;
  std::string pointer_;
  std::size_t depth_ = 0;
  bool silent_ = false;
  const char* stopped_ = nullptr;
};

Validator::Validator(const Schema& schema) : state_(std::make_unique<State>(schema)) {}
Validator::~Validator() = default;

bool Validator::validate(std::string_view json, Scalars scalars, std::size_t most, std::vector<Fault>& faults) {
  element value;
  if (const auto error = state_->parser.parse(json.data(), json.size()).get(value); error != simdjson::SUCCESS) {
    // The row reader accepts numbers of any size, but simdjson does not.
    if (faults.size() < most) faults.push_back({"", "holds a number that is out of range"});
    return false;
  }
  std::vector<Fault> found;
  Application application(scalars, most_steps + most_steps_per_byte * json.size(), most - std::min(most, faults.size()),
                          found);
  const bool good = application.run(state_->schema.compiled_->subschemas.front(), value);
  faults.insert(faults.end(), std::make_move_iterator(found.begin()), std::make_move_iterator(found.end()));
  return good;
}

}  // namespace sluice::api::schema
