#include "api/body/json_reader.h"

#include <bit>
#include <string>

#include "base/json.h"
#include "sql/encode/scan.h"

namespace sluice::api {
namespace {

using sql::encode::Chunk;

}  // namespace

// Chunks may reach past the end. Bytes found there are ignored.
const char* ElementScan::run(const char* at, const char* end) {
  if (!begun_ && at != end) {
    begun_ = true;
    container_ = *at == '{' || *at == '[';
  }
  while (at < end) {
    if (escaped_) {
      escaped_ = false;
      ++at;
      continue;
    }
    if (in_string_) {
      const unsigned specials = Chunk::load(at).json_specials();
      if (specials == 0) {
        at += Chunk::size;
        continue;
      }
      at += std::countr_zero(specials);
      if (at >= end) break;
      if (*at == '"') in_string_ = false;
      if (*at == '\\') escaped_ = true;
      ++at;
      continue;
    }
    switch (*at) {
      case '"':
        in_string_ = true;
        break;
      case '{':
      case '[':
        ++depth_;
        break;
      case ',':
        if (depth_ == 0) return at;
        break;
      case '}':
      case ']':
        if (depth_ == 0) {
          if (*at == ']') return at;
        } else if (--depth_ == 0 && container_) {
          return at + 1;
        }
        break;
      default:
        break;
    }
    ++at;
  }
  return nullptr;
}

void JsonReader::skip_blanks() {
  char* at = text_.begin();
  while (is_json_blank(*at)) ++at;  // stops at the end, because the byte there is not a blank
  text_.use_to(at);
}

RowReader::Next JsonReader::step() {
  for (;;) {
    if (state_ == State::row) return element();
    if (state_ == State::skipping) {
      if (const Next next = skip_element(); next != Next::row) return next;
      continue;
    }
    if (state_ == State::mark) {
      if (!skip_mark()) return Next::need_more;
      state_ = State::start;
    }
    skip_blanks();
    const char* const at = text_.begin();
    if (at == text_.end()) {
      if (!finished()) return Next::need_more;
      if (state_ == State::start) return broken(at, "the body is empty");
      if (state_ == State::after) return Next::end;
      return broken(at, "the body ends before its array does");
    }
    switch (state_) {
      case State::start:
        if (*at == '[') {
          to(at + 1, State::first);
        } else if (*at == '{') {
          single_ = true;
          state_ = State::row;
        } else {
          return broken(at, "an object or an array of objects is expected");
        }
        break;
      case State::first:
        if (*at == ']') {
          to(at + 1, State::after);
          break;
        }
        [[fallthrough]];
      case State::element:
        if (*at == ']' || *at == ',') {
          return broken(at, state_ == State::first ? "a row is expected" : "a row is expected behind a comma");
        }
        state_ = State::row;
        break;
      case State::separator:
        if (*at != ',' && *at != ']') return broken(at, "a comma or ']' is expected behind a row");
        to(at + 1, *at == ',' ? State::element : State::after);
        break;
      default:
        return broken(at, "there is something behind the end of the body's value");
    }
  }
}

RowReader::Next JsonReader::element() {
  const char* const begin = text_.begin();
  const char* const end = text_.end();
  bool parsed = false;
  if (scanned_ == 0) {
    json_.begin(begin, end);
    parsed = true;
    if (json_.object()) {
      const auto size = static_cast<std::size_t>(json_.at() - begin);
      end_element(json_.at());
      return size > limits_.row_bytes ? too_long(begin) : good_row(begin, begin + size);
    }
  }
  const char* const stop = scan_.run(begin + scanned_, end);
  const auto size = static_cast<std::size_t>((stop != nullptr ? stop : end) - begin);
  if (size > limits_.row_bytes) {
    if (stop != nullptr) {
      end_element(stop);
    } else {
      to(end, State::skipping);
      scanned_ = 0;
    }
    return too_long(begin);
  }
  if (stop == nullptr && !finished()) {
    scanned_ = size;
    return Next::need_more;
  }
  if (!parsed) {
    json_.begin(begin, end);
    if (json_.object()) {
      end_element(json_.at());
      return good_row(begin, json_.at());
    }
  }
  if (stop == nullptr) {
    return json_.ran_out() ? broken(end, "the body ends in the middle of a row", pointer())
                           : broken(json_.at(), json_.reason(), pointer());
  }
  end_element(stop);
  return bad_row(json_.at(), json_.reason(), pointer(), json_.is_syntax());
}

// Skips a row that is too long and has been reported. Returns `row` at its end.
RowReader::Next JsonReader::skip_element() {
  const char* const begin = text_.begin();
  const char* const end = text_.end();
  if (const char* const stop = scan_.run(begin, end)) {
    end_element(stop);
    return Next::row;
  }
  text_.use_to(end);
  return finished() ? broken(end, "the body ends in the middle of a row") : Next::need_more;
}

void JsonReader::end_element(const char* at) {
  to(at, single_ ? State::after : State::separator);
  scan_.clear();
  scanned_ = 0;
}

std::string JsonReader::pointer_to(std::string_view name, std::uint64_t row) const {
  std::string pointer = JsonRow::pointer_to(name);
  if (!single_) JsonRow::prepend(std::to_string(row), pointer);
  return pointer;
}

std::string JsonReader::place_of(std::string_view pointer, std::uint64_t row) const {
  return single_ ? std::string(pointer) : "/" + std::to_string(row) + std::string(pointer);
}

// The pointer to the row's fault, from the root of the body.
const std::string& JsonReader::pointer() {
  pointer_ = json_.pointer();
  if (!single_) JsonRow::prepend(std::to_string(row_), pointer_);
  return pointer_;
}

RowReader::Next NdjsonReader::step() {
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
        return Next::end;
      case LineScan::Found::too_long:
        return too_long(text_.begin());
      case LineScan::Found::line:
        break;
    }
    char* begin = text_.begin();
    LineScan::next_line(text_, end);
    while (begin != end && is_json_blank(*begin)) ++begin;
    if (begin != end) return line(begin, end);
  }
}

RowReader::Next NdjsonReader::line(char* begin, char* end) {
  const char kept = *end;
  *end = '\0';
  json_.begin(begin, end);
  bool good = json_.object();
  if (good) {
    json_.skip_blanks();
    good = json_.at() == end || json_.fail(json_.at(), "there is something behind the row's object");
  }
  *end = kept;
  return good ? good_row(begin, end) : bad_row(json_.at(), json_.reason(), json_.pointer(), json_.is_syntax());
}

}  // namespace sluice::api
