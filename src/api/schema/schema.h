#pragma once

#include <cstddef>
#include <expected>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/schema/rules.h"

// JSON Schema (draft 7) for request bodies. valijson parses a schema and follows its references; what it finds is
// applied to values here and not by its own validator, whose regular expressions (std::regex) recurse for each
// character and may take exponential time, and which knows no bounds.
namespace sluice::api::schema {

// Immutable, shared by all cores.
class Schema {
 public:
  [[nodiscard]] static std::expected<std::shared_ptr<const Schema>, std::vector<Fault>> parse(std::string_view json);
  ~Schema();

  [[nodiscard]] const std::string& text() const { return text_; }
  // The names that its own "required" lists.
  [[nodiscard]] const std::vector<std::string>& required() const { return required_; }

 private:
  friend class Validator;
  struct Parsed;

  Schema(std::string text, std::unique_ptr<const Parsed> parsed);

  std::string text_;
  std::vector<std::string> required_;
  std::unique_ptr<const Parsed> parsed_;
};

// How the scalars of a value have been written.
enum class Scalars : std::uint8_t {
  typed,  // as JSON has them
  text,   // as strings, which csv and forms have nothing else for: "7" is an integer, "true" a boolean
};

// What one value may take: more is a fault. Steps are subschemas that are applied, and texts that are looked at.
inline constexpr std::size_t most_steps = 10'000;  // and
inline constexpr std::size_t most_steps_per_byte = 4;
inline constexpr std::size_t deepest_application = 400;  // of subschemas within each other

// Applies a schema to one value after the other, for one request at a time.
class Validator {
 public:
  // `schema` outlives it.
  explicit Validator(const Schema& schema);
  ~Validator();

  // Whether `json`, a valid value, fits. Appends what is wrong with it to `faults`, until there are `most`; pointers
  // are from the value on.
  bool validate(std::string_view json, Scalars scalars, std::size_t most, std::vector<Fault>& faults);

 private:
  class Application;
  struct State;

  std::unique_ptr<State> state_;
};

}  // namespace sluice::api::schema
