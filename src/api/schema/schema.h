#pragma once

#include <cstddef>
#include <expected>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/schema/rules.h"

// JSON Schema (draft 7) for request bodies: rules.h compiles a schema once, the Validator applies it with limits.
namespace sluice::api::schema {

// Immutable, shared by all cores.
class Schema {
 public:
  [[nodiscard]] static std::expected<std::shared_ptr<const Schema>, std::vector<Fault>> parse(std::string_view json);
  ~Schema();

  [[nodiscard]] const std::string& text() const { return text_; }
  // The names in the schema's top-level "required".
  [[nodiscard]] const std::vector<std::string>& required() const { return required_; }

 private:
  friend class Validator;

  Schema(std::string text, std::unique_ptr<const Compiled> compiled);

  std::string text_;
  std::vector<std::string> required_;
  std::unique_ptr<const Compiled> compiled_;
};

// How the scalars of a value are written.
enum class Scalars : std::uint8_t {
  typed,  // as in JSON
  text,   // as strings, because csv and forms have no other types: "7" is an integer, "true" a boolean
};

// Limits for one value; exceeding one is a fault. A step is an applied subschema or an examined text. A value may take
// most_steps steps, plus most_steps_per_byte for each of its bytes.
inline constexpr std::size_t most_steps = 10'000;
inline constexpr std::size_t most_steps_per_byte = 4;
inline constexpr std::size_t deepest_application = 400;  // nesting of applied subschemas

// Applies a schema to successive values, for one request at a time.
class Validator {
 public:
  // `schema` outlives this.
  explicit Validator(const Schema& schema);
  ~Validator();

  // Whether `json`, a valid value, matches the schema. Appends faults to `faults` until there are `most`. Pointers are
  // relative to the value.
  bool validate(std::string_view json, Scalars scalars, std::size_t most, std::vector<Fault>& faults);

 private:
  class Application;
  struct State;

  std::unique_ptr<State> state_;
};

}  // namespace sluice::api::schema
