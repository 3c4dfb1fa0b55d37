#include "api/body/csj_reader.h"

#include <algorithm>

namespace sluice::api {

RowReader::Next CsjReader::step() {
  if (!started_) {
    if (!skip_mark()) return Next::need_more;
    started_ = true;
  }
  for (;;) {
    char* end = nullptr;
    switch (lines_.run(text_, finished(), limits_.row_bytes, end)) {
      case LineScan::Found::need_more:
        return Next::need_more;
      case LineScan::Found::end:
        return has_header_ ? Next::end : broken(text_.begin(), "the body is empty");
      case LineScan::Found::too_long:
        return has_header_ ? too_long(text_.begin()) : broken(text_.begin(), "the header line is too long");
      case LineScan::Found::line:
        break;
    }
    const char* const begin = text_.begin();
    LineScan::next_line(text_, end);
    const char kept = *end;
    *end = '\0';
    const Next next = line(begin, end);
    *end = kept;
    if (next != Next::need_more) return next;
  }
}

// Returns need_more if the line had no row.
RowReader::Next CsjReader::line(const char* begin, const char* end) {
  json_.begin(begin, end);
  json_.skip_blanks();
  if (json_.at() == end) return Next::need_more;
  return has_header_ ? values(begin, end) : header(end);
}

RowReader::Next CsjReader::header(const char* end) {
  for (;;) {
    const char* const at = json_.at();
    std::string_view name;
    if (!json_.name(name)) return broken(json_.at(), json_.reason());
    if (names_.size() == limits_.columns) {
      return broken(at, "the header has more than " + std::to_string(limits_.columns) + " columns");
    }
    const std::uint32_t node = fields_.find(name);
    if (node == FieldTree::none && !fields_.allows_unknown()) {
      return broken(at, "there is no field \"" + shown(name) + "\"", shown(name));
    }
    if (std::ranges::find(names_, name) != names_.end()) {
      return broken(at, "the column is there twice", shown(name));
    }
    names_.emplace_back(name);
    columns_.push_back(node);
    json_.skip_blanks();
    if (json_.at() == end) break;
    if (*json_.at() != ',') return broken(json_.at(), "a comma is expected behind a name");
    json_.advance();
    json_.skip_blanks();
  }
  has_header_ = true;
  return Next::need_more;
}

RowReader::Next CsjReader::values(const char* begin, const char* end) {
  const std::string width = std::to_string(columns_.size());
  for (std::size_t i = 0;;) {
    const bool good = columns_[i] != FieldTree::none ? json_.value(columns_[i]) : json_.skip_value();
    if (!good) return bad_row(json_.at(), json_.reason(), names_[i]);
    json_.skip_blanks();
    const bool last = json_.at() == end;
    if (!last && *json_.at() != ',') return bad_row(json_.at(), "a comma is expected behind a value", names_[i]);
    ++i;
    if (last && i == columns_.size()) return good_row(begin);
    if (last) return bad_row(begin, "the row has " + std::to_string(i) + " of the header's " + width + " fields");
    if (i == columns_.size()) return bad_row(begin, "the row has more fields than the header, which has " + width);
    json_.advance();
    json_.skip_blanks();
  }
}

}  // namespace sluice::api
