#include "api/schema/schema.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <exception>
#include <optional>
#include <unordered_map>

#include <fmt/format.h>
#include <re2/re2.h>
#include <simdjson.h>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>

#include "api/schema/simdjson_adapter.h"
#include "base/buffer.h"
#include "base/json.h"
#include "sql/parameters.h"

namespace sluice::api::schema {
namespace {

using simdjson::dom::element;
using valijson::Subschema;

struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
using Patterns = std::unordered_map<std::string, std::unique_ptr<const re2::RE2>, TextHash, std::equal_to<>>;

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

struct Schema::Parsed {
  simdjson::dom::parser parser;  // owns the memory of the constants
  valijson::Schema schema;
  Patterns patterns;
};

Schema::Schema(std::string text, std::unique_ptr<const Parsed> parsed)
    : text_(std::move(text)), parsed_(std::move(parsed)) {}
Schema::~Schema() = default;

std::expected<std::shared_ptr<const Schema>, std::vector<Fault>> Schema::parse(std::string_view json) {
  const auto patterns = check_rules(json);
  if (!patterns) return std::unexpected(patterns.error());
  auto parsed = std::make_unique<Parsed>();
  element root;
  if (const auto error = parsed->parser.parse(json.data(), json.size()).get(root); error != simdjson::SUCCESS) {
    return std::unexpected(std::vector{Fault{"", simdjson::error_message(error)}});
  }
  try {
    valijson::SchemaParser parser(valijson::SchemaParser::kDraft7);
    parser.populateSchema(SchemaAdapter(root), parsed->schema);
  } catch (const std::exception& error) {
    return std::unexpected(std::vector{Fault{"", error.what()}});
  }
  const auto compile = [&](std::string_view pattern) {
    if (parsed->patterns.contains(pattern)) return;
    parsed->patterns.emplace(
        pattern, std::make_unique<const re2::RE2>(re2::StringPiece(pattern.data(), pattern.size()), re2::RE2::Quiet));
  };
  for (const std::string& pattern : *patterns) compile(pattern);  // including those of formats
  const std::shared_ptr<Schema> made(new Schema(std::string(json), std::move(parsed)));
  simdjson::dom::array required;
  if (root["required"].get(required) == simdjson::SUCCESS) {
    for (const element name : required) made->required_.emplace_back(std::string_view(name));
  }
  return made;
}

struct Validator::State {
  explicit State(const Schema& given) : schema(given) {}
  const Schema& schema;
  simdjson::dom::parser parser;
};

// Applies the schema to one value. A constraint that does not hold adds a fault with its position. Faults are not
// reported within `not`, `if` and alternatives.
class Validator::Application final : public valijson::constraints::ConstraintVisitor {
 public:
  Application(const Patterns& patterns, Scalars scalars, std::size_t steps, std::size_t most,
              std::vector<Fault>& faults)
      : patterns_(patterns), scalars_(scalars), steps_(steps), most_(most), faults_(faults) {}

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
  using Constraint = valijson::constraints::Constraint;

  // --- Common parts.

  bool holds(const Subschema& schema, element value) {
    if (!spend(1)) return false;
    if (depth_ == deepest_application) return stop("is nested too deeply for its schema");
    if (schema.getAlwaysInvalid()) return fail("is not allowed");
    const element before = std::exchange(value_, value);
    ++depth_;
    const bool good = silent_ ? schema.applyStrict(apply_) : schema.apply(apply_);
    --depth_;
    value_ = before;
    return good && stopped_ == nullptr;
  }
  bool holds_at(const Subschema& schema, element value, std::string_view step) {
    const std::size_t size = pointer_.size();
    pointer_ += '/';
    pointer_ += escaped(step);
    const bool good = holds(schema, value);
    pointer_.resize(size);
    return good;
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
  void add(std::string reason) {
    if (faults_.size() < most_) faults_.push_back({pointer_, std::move(reason)});
  }
  // Refuses the whole value, whatever else holds.
  bool stop(const char* reason) {
    if (stopped_ == nullptr) stopped_ = reason;
    return false;
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
  [[nodiscard]] bool is(valijson::constraints::TypeConstraint::JsonType type) const {
    using Types = valijson::constraints::TypeConstraint;
    switch (type) {
      case Types::kAny:
        return true;
      case Types::kArray:
        return value_.is_array();
      case Types::kBoolean:
        return value_.is_bool() || written_as(sql::ParameterType::boolean);
      case Types::kInteger: {
        if (value_.is_int64() || value_.is_uint64()) return true;
        if (const auto real = value_.is_number() ? number_of(value_) : std::nullopt) return std::trunc(*real) == *real;
        return written_as(sql::ParameterType::integer);
      }
      case Types::kNull:
        return value_.is_null();
      case Types::kNumber:
        return value_.is_number() || written_as(sql::ParameterType::real);
      case Types::kObject:
        return value_.is_object();
      case Types::kString:
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
  [[nodiscard]] bool matches(std::string_view pattern, std::string_view text) {
    if (!spend_on(text)) return false;
    const auto found = patterns_.find(pattern);
    return found != patterns_.end() &&
           re2::RE2::PartialMatch(re2::StringPiece(text.data(), text.size()), *found->second);
  }
  template <class String>
  static std::string_view view(const String& text) {
    return {text.data(), text.size()};
  }

  // --- Keywords.

  bool visit(const valijson::constraints::TypeConstraint& constraint) override {
    bool good = false;
    std::string names;
    constraint.applyToNamedTypes([&](auto type) {
      good |= is(type);
      static constexpr std::string_view all[] = {"anything", "an array", "true or false", "an integer",
                                                 "null",     "a number", "an object",     "a string"};
      names += (names.empty() ? "" : " or ") + std::string(all[static_cast<std::size_t>(type)]);
      return true;
    });
    return good || fail("must be " + names);
  }
  bool visit(const valijson::constraints::EnumConstraint& constraint) override {
    bool good = false;
    std::string all;
    std::size_t listed = 0;
    constraint.applyToValues([&](const valijson::adapters::FrozenValue& frozen) {
      const element constant = static_cast<const SchemaConstant&>(frozen).element();
      good = equals(constant);
      if (!silent_ && listed++ < 10) all += (all.empty() ? "" : ", ") + shown(constant);
      return !good && stopped_ == nullptr;
    });
    return good || fail("must be one of " + all + (listed > 10 ? " ..." : ""));
  }
  bool visit(const valijson::constraints::ConstConstraint& constraint) override {
    const element constant = static_cast<const SchemaConstant&>(*constraint.getValue()).element();
    return equals(constant) || fail("must be " + shown(constant));
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

  bool visit(const valijson::constraints::MinimumConstraint& constraint) override {
    const auto found = number();
    const double least = constraint.getMinimum();
    if (!found || (constraint.getExclusiveMinimum() ? *found > least : *found >= least)) return true;
    return fail(fmt::format("must be {} {}", constraint.getExclusiveMinimum() ? "more than" : "at least", least));
  }
  bool visit(const valijson::constraints::MaximumConstraint& constraint) override {
    const auto found = number();
    const double most = constraint.getMaximum();
    if (!found || (constraint.getExclusiveMaximum() ? *found < most : *found <= most)) return true;
    return fail(fmt::format("must be {} {}", constraint.getExclusiveMaximum() ? "less than" : "at most", most));
  }
  bool is_multiple(double divisor) {
    const auto found = number();
    if (!found) return true;
    const double quotient = *found / divisor;
    // Allows for rounding, because decimal fractions are meant: 0.3 is a multiple of 0.1.
    if (std::isfinite(quotient) &&
        std::abs(quotient - std::round(quotient)) <= 1e-9 * std::max(1.0, std::abs(quotient)))
      return true;
    return fail(fmt::format("must be a multiple of {}", divisor));
  }
  bool visit(const valijson::constraints::MultipleOfDoubleConstraint& constraint) override {
    return is_multiple(constraint.getDivisor());
  }
  bool visit(const valijson::constraints::MultipleOfIntConstraint& constraint) override {
    const std::int64_t divisor = constraint.getDivisor();
    if (value_.is_int64()) {
      return std::int64_t(value_) % divisor == 0 || fail(fmt::format("must be a multiple of {}", divisor));
    }
    return is_multiple(static_cast<double>(divisor));
  }

  bool visit(const valijson::constraints::MinLengthConstraint& constraint) override {
    if (!value_.is_string()) return true;
    if (!spend_on(text_of(value_))) return false;
    return length_of(text_of(value_)) >= constraint.getMinLength() ||
           fail(fmt::format("must have at least {} characters", constraint.getMinLength()));
  }
  bool visit(const valijson::constraints::MaxLengthConstraint& constraint) override {
    if (!value_.is_string()) return true;
    if (!spend_on(text_of(value_))) return false;
    return length_of(text_of(value_)) <= constraint.getMaxLength() ||
           fail(fmt::format("must have at most {} characters", constraint.getMaxLength()));
  }
  bool visit(const valijson::constraints::PatternConstraint& constraint) override {
    if (!value_.is_string()) return true;
    const auto pattern = constraint.getPattern<std::string::allocator_type>();
    return matches(view(pattern), text_of(value_)) || fail("must match " + std::string(view(pattern)));
  }
  bool visit(const valijson::constraints::FormatConstraint& constraint) override {
    if (!value_.is_string()) return true;
    const std::string& format = constraint.getFormat();
    return matches(format_pattern(format), text_of(value_)) ||
           fail("must be " + std::string(format.starts_with("e") || format.starts_with("i") ? "an " : "a ") + format);
  }

  bool visit(const valijson::constraints::MinItemsConstraint& constraint) override {
    const auto items = array();
    return !items || count(*items) >= constraint.getMinItems() ||
           fail(fmt::format("must have at least {} items", constraint.getMinItems()));
  }
  bool visit(const valijson::constraints::MaxItemsConstraint& constraint) override {
    const auto items = array();
    return !items || count(*items) <= constraint.getMaxItems() ||
           fail(fmt::format("must have at most {} items", constraint.getMaxItems()));
  }
  bool visit(const valijson::constraints::UniqueItemsConstraint&) override {
    const auto items = array();
    if (!items) return true;
    std::vector<std::string> texts;
    for (const element item : *items) {
      append_canonical(item, texts.emplace_back());
      if (!spend_on(texts.back())) return false;
    }
    std::ranges::sort(texts);
    return std::ranges::adjacent_find(texts) == texts.end() || fail("must not have an item twice");
  }
  bool visit(const valijson::constraints::SingularItemsConstraint& constraint) override {
    const auto items = array();
    const Subschema* const schema = constraint.getItemsSubschema();
    if (!items || schema == nullptr) return true;
    bool good = true;
    std::size_t index = 0;
    for (const element item : *items) {
      good &= holds_at(*schema, item, std::to_string(index++));
      if (enough(good)) break;
    }
    return good;
  }
  bool visit(const valijson::constraints::LinearItemsConstraint& constraint) override {
    const auto items = array();
    if (!items) return true;
    std::vector<const Subschema*> schemas;
    constraint.applyToItemSubschemas([&](unsigned int, const Subschema* schema) {
      schemas.push_back(schema);
      return true;
    });
    const Subschema* const others = constraint.getAdditionalItemsSubschema();
    bool good = true;
    std::size_t index = 0;
    for (const element item : *items) {
      const Subschema* const schema = index < schemas.size() ? schemas[index] : others;
      if (schema == nullptr) return fail(fmt::format("must have at most {} items", schemas.size()));
      good &= holds_at(*schema, item, std::to_string(index++));
      if (enough(good)) break;
    }
    return good;
  }
  bool visit(const valijson::constraints::ContainsConstraint& constraint) override {
    const auto items = array();
    if (!items) return true;
    for (const element item : *items) {
      if (holds_silently(*constraint.getSubschema(), item)) return true;
      if (stopped_ != nullptr) return false;
    }
    return fail("has no item that it must have (contains)");
  }

  bool visit(const valijson::constraints::MinPropertiesConstraint& constraint) override {
    const auto members = object();
    return !members || count(*members) >= constraint.getMinProperties() ||
           fail(fmt::format("must have at least {} fields", constraint.getMinProperties()));
  }
  bool visit(const valijson::constraints::MaxPropertiesConstraint& constraint) override {
    const auto members = object();
    return !members || count(*members) <= constraint.getMaxProperties() ||
           fail(fmt::format("must have at most {} fields", constraint.getMaxProperties()));
  }
  bool visit(const valijson::constraints::RequiredConstraint& constraint) override {
    const auto members = object();
    if (!members) return true;
    bool good = true;
    constraint.applyToRequiredProperties([&](const auto& name) {
      if (!spend(1 + members->size() / 16)) return good = false;
      if (!has(*members, view(name))) {
        good = false;
        fail_at(view(name), "is missing");
      }
      return !enough(good);
    });
    return good;
  }
  void fail_at(std::string_view step, std::string reason) {
    if (silent_) return;
    const std::size_t size = pointer_.size();
    pointer_ += '/';
    pointer_ += escaped(step);
    add(std::move(reason));
    pointer_.resize(size);
  }
  bool visit(const valijson::constraints::PropertiesConstraint& constraint) override {
    const auto members = object();
    if (!members) return true;
    bool good = true;
    for (const auto& [key, value] : *members) {
      const std::string_view name = key;
      const element of_member = value;
      bool known = false;
      std::size_t looked = 1;
      constraint.applyToProperties([&](const auto& property, const Subschema* schema) {
        ++looked;
        if (view(property) != name) return true;
        known = true;
        good &= holds_at(*schema, of_member, name);
        return false;
      });
      if (!spend(looked / 8)) return false;
      constraint.applyToPatternProperties([&](const auto& pattern, const Subschema* schema) {
        if (!matches(view(pattern), name)) return stopped_ == nullptr;
        known = true;
        good &= holds_at(*schema, of_member, name);
        return !enough(good);
      });
      if (stopped_ != nullptr) return false;
      if (!known) {
        const Subschema* const others = constraint.getAdditionalPropertiesSubschema();
        if (others == nullptr) {
          good = false;
          fail_at(name, "is not allowed");
        } else {
          good &= holds_at(*others, of_member, name);
        }
      }
      if (enough(good)) break;
    }
    return good;
  }
  bool visit(const valijson::constraints::PropertyNamesConstraint& constraint) override {
    const auto members = object();
    if (!members) return true;
    for (const auto& [key, value] : *members) {
      // A name is validated as a separate value.
      simdjson::dom::parser parser;
      element name;
      Buffer quoted;
      quoted.append("\"");
      append_json_escaped(quoted, key);
      quoted.append("\"");
      const std::string_view json = quoted.view();
      if (parser.parse(json.data(), json.size()).get(name) != simdjson::SUCCESS)
        return fail("has a name that is not allowed");
      if (!holds_silently(*constraint.getSubschema(), name)) {
        if (stopped_ != nullptr) return false;
        fail_at(key, "is not allowed as a name");
        return false;
      }
    }
    return true;
  }
  bool visit(const valijson::constraints::DependenciesConstraint& constraint) override {
    const auto members = object();
    if (!members) return true;
    bool good = true;
    constraint.applyToPropertyDependencies([&](const auto& name, const auto& needed) {
      if (!spend(1 + members->size() / 16)) return good = false;
      if (!has(*members, view(name))) return true;
      for (const auto& one : needed) {
        if (has(*members, view(one))) continue;
        good = false;
        fail_at(view(one), "is missing beside \"" + std::string(view(name)) + "\"");
      }
      return true;
    });
    constraint.applyToSchemaDependencies([&](const auto& name, const Subschema* schema) {
      if (has(*members, view(name))) good &= holds(*schema, value_);
      return !enough(good);
    });
    return good && stopped_ == nullptr;
  }

  bool visit(const valijson::constraints::AllOfConstraint& constraint) override {
    bool good = true;
    constraint.applyToSubschemas([&](unsigned int, const Subschema* schema) {
      good &= holds(*schema, value_);
      return !enough(good);
    });
    return good;
  }
  template <class Alternatives>
  std::size_t count_alternatives(const Alternatives& alternatives, std::size_t most) {
    std::size_t good = 0;
    alternatives.applyToSubschemas([&](unsigned int, const Subschema* schema) {
      good += holds_silently(*schema, value_) ? 1 : 0;
      return good < most && stopped_ == nullptr;
    });
    return good;
  }
  bool visit(const valijson::constraints::AnyOfConstraint& constraint) override {
    if (count_alternatives(constraint, 1) == 1) return true;
    return stopped_ == nullptr && fail("fits none of the alternatives of its schema (anyOf)");
  }
  bool visit(const valijson::constraints::OneOfConstraint& constraint) override {
    const std::size_t good = count_alternatives(constraint, 2);
    if (stopped_ != nullptr) return false;
    if (good == 1) return true;
    return fail(good == 0 ? "fits none of the alternatives of its schema (oneOf)"
                          : "fits more than one of the alternatives of its schema (oneOf)");
  }
  bool visit(const valijson::constraints::NotConstraint& constraint) override {
    const bool good = constraint.getSubschema() == nullptr || holds_silently(*constraint.getSubschema(), value_);
    if (stopped_ != nullptr) return false;
    return !good || fail("is what its schema excludes (not)");
  }
  bool visit(const valijson::constraints::ConditionalConstraint& constraint) override {
    const bool condition = holds_silently(*constraint.getIfSubschema(), value_);
    if (stopped_ != nullptr) return false;
    const Subschema* const next = condition ? constraint.getThenSubschema() : constraint.getElseSubschema();
    return next == nullptr || holds(*next, value_);
  }
  // Nothing creates one.
  bool visit(const valijson::constraints::PolyConstraint&) override {
    return stop("has a schema that cannot be applied");
  }

  // Whether the result is certain, so that the rest can be skipped.
  [[nodiscard]] bool enough(bool good) const {
    return stopped_ != nullptr || (!good && (silent_ || faults_.size() == most_));
  }
  static std::string escaped(std::string_view step) {
    std::string text;
    append_pointer_escaped(text, step);
    return text;
  }

  const Patterns& patterns_;
  const Scalars scalars_;
  std::size_t steps_;
  const std::size_t most_;
  std::vector<Fault>& faults_;
  Subschema::ApplyFunction apply_ = [this](const Constraint& constraint) { return constraint.accept(*this); };
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
    // The row reader has accepted it, because it accepts numbers of any size.
    if (faults.size() < most) faults.push_back({"", "holds a number that is out of range"});
    return false;
  }
  const Schema::Parsed& parsed = *state_->schema.parsed_;
  std::vector<Fault> found;
  Application application(parsed.patterns, scalars, most_steps + most_steps_per_byte * json.size(),
                          most - std::min(most, faults.size()), found);
  const bool good = application.run(parsed.schema, value);
  faults.insert(faults.end(), std::make_move_iterator(found.begin()), std::make_move_iterator(found.end()));
  return good;
}

}  // namespace sluice::api::schema
