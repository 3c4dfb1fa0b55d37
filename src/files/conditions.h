#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "http/fields.h"

namespace sluice::files {

// Validators that distinguish one version of a representation from another.
struct Validators {
  std::string_view tag;         // a strong entity-tag, with its quotes
  bool is_dated = false;        // has a Last-Modified
  std::int64_t modified_s = 0;  // seconds since 1970
};

// A request's conditions and its Range, gathered in one pass over its fields. The views point into the fields.
class Conditions {
 public:
  explicit Conditions(std::span<const http::Field> fields) : fields_(fields) {
    for (const http::Field& field : fields) {
      switch (field.name.size()) {
        case 5:
        case 8:
        case 13:
        case 17:
        case 19:
          if (field.name[0] == 'i' || field.name[0] == 'I' || field.name[0] == 'r' || field.name[0] == 'R')
            gather(field);
          break;
        default:
          break;
      }
    }
  }

  [[nodiscard]] bool empty() const { return seen_ == 0; }

  enum class Verdict : std::uint8_t { proceed, not_modified, failed, malformed };
  // For a GET or HEAD of an existing representation, in the order of RFC 9110, 13.2.2. `now_s` is needed for dates with
  // two-digit years.
  [[nodiscard]] Verdict judge(const Validators& current, std::int64_t now_s) const;

  // The Range to apply. Empty if the request has none, or if its If-Range names another version.
  [[nodiscard]] std::string_view range(const Validators& current, std::int64_t now_s) const;

 private:
  enum Seen : std::uint8_t {
    match = 1,
    none_match = 2,
    modified_since = 4,
    unmodified_since = 8,
    range_field = 16,
    if_range = 32,
  };
  // A field that must not be repeated. If the request repeats it, it is ignored.
  struct Single {
    std::string_view value;
    bool is_void = false;
  };

  void gather(const http::Field& field);
  void take(Single& single, Seen bit, std::string_view value);
  // Whether the list field contains the tag or "*".
  [[nodiscard]] bool lists(std::string_view name, std::string_view tag, bool strongly) const;

  std::span<const http::Field> fields_;
  std::uint8_t seen_ = 0;
  Single modified_since_;
  Single unmodified_since_;
  Single range_;
  Single if_range_;
};

}  // namespace sluice::files
