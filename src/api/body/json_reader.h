#pragma once

#include <cstddef>
#include <cstdint>

#include "api/body/json_row.h"
#include "api/body/line_scan.h"
#include "api/body/reader.h"

namespace sluice::api {

// Finds the end of an array element, even of a malformed one. Looks at each byte only once. The end is after the
// closing bracket of the element, or before the comma or bracket that follows it.
class ElementScan {
 public:
  // Returns null if the element does not end before `end`. Call it again with the following bytes.
  [[nodiscard]] const char* run(const char* at, const char* end);
  void clear() { *this = {}; }

 private:
  std::size_t depth_ = 0;
  bool begun_ = false;
  bool container_ = false;
  bool in_string_ = false;
  bool escaped_ = false;
};

// application/json: an object, or an array of objects. A row is parsed in place as soon as it has arrived. If it is
// incomplete or malformed, ElementScan finds its end first.
class JsonReader final : public Reader {
 public:
  JsonReader(const Shape& shape, const RowLimits& limits) : Reader(shape, limits), json_(fields_, limits) {}

  [[nodiscard]] bool single() const override { return single_; }

 private:
  enum class State : std::uint8_t {
    mark,
    start,
    first,      // after the opening bracket
    element,    // after a comma
    row,        // at the first byte of a row
    skipping,   // in a row that is too long
    separator,  // after a row
    after,      // after the body's value
  };

  Next step() override;
  [[nodiscard]] std::string pointer_to(std::string_view name, std::uint64_t row) const override;
  [[nodiscard]] std::string place_of(std::string_view pointer, std::uint64_t row) const override;
  Next element();
  Next skip_element();
  Next cut_short();
  void skip_blanks();
  void end_element(const char* at);
  void to(const char* at, State state) {
    text_.use_to(at);
    state_ = state;
  }
  [[nodiscard]] const std::string& pointer();

  JsonRow json_;
  ElementScan scan_;
  std::size_t scanned_ = 0;  // bytes already scanned of the row at the beginning of the text
  std::string pointer_;
  State state_ = State::mark;
  bool single_ = false;
};

// application/x-ndjson: an object per line.
class NdjsonReader final : public Reader {
 public:
  NdjsonReader(const Shape& shape, const RowLimits& limits) : Reader(shape, limits), json_(fields_, limits) {}

  [[nodiscard]] bool single() const override { return false; }

 private:
  Next step() override;
  [[nodiscard]] std::string pointer_to(std::string_view name, std::uint64_t) const override {
    return JsonRow::pointer_to(name);
  }
  [[nodiscard]] std::string place_of(std::string_view pointer, std::uint64_t) const override {
    return std::string(pointer);
  }
  Next line(char* begin, char* end);

  JsonRow json_;
  LineScan lines_;
  bool started_ = false;
};

}  // namespace sluice::api
