#pragma once

#include <cstddef>
#include <cstdint>

#include "api/body/json_row.h"
#include "api/body/line_scan.h"
#include "api/body/reader.h"

namespace sluice::api {

// Finds where an element of an array ends that may not be JSON, without looking at a byte twice: behind the bracket
// that closes it, or before the comma or bracket that follows.
class ElementScan {
 public:
  // Null: it does not end before `end`; then again with what follows.
  [[nodiscard]] const char* run(const char* at, const char* end);
  void clear() { *this = {}; }

 private:
  std::size_t depth_ = 0;
  bool begun_ = false;
  bool container_ = false;
  bool in_string_ = false;
  bool escaped_ = false;
};

// application/json: an object, or an array of objects. A row is parsed where it lies as soon as it is there; one that
// is not whole, or not good, is first looked through for its end.
class JsonReader final : public Reader {
 public:
  JsonReader(const Shape& shape, const RowLimits& limits) : Reader(shape, limits), json_(fields_, limits) {}

  [[nodiscard]] bool single() const override { return single_; }

 private:
  enum class State : std::uint8_t {
    mark,
    start,
    first,      // behind the opening bracket
    element,    // behind a comma
    row,        // on the first byte of one
    skipping,   // in one that is too long
    separator,  // behind one
    after,      // behind the body's value
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
  std::size_t scanned_ = 0;  // of the row that begins where the text does
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
