#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>

#include "base/buffer.h"
#include "sql/encode/scan.h"
#include "sql/encode/text.h"

namespace sluice::sql::encode {

// Appends to a Buffer through a raw pointer. The Writer's destructor commits the bytes to the Buffer.
//
//   buffer's end <= out <= limit + slack;   up to slack bytes past limit may be written too. So the one or two
//   bytes that close a value need no check against the limit; the next need() makes it
struct Writer {
  explicit Writer(Buffer& target) : buffer(target) { take(0); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  ~Writer() { commit(); }

  [[nodiscard]] bool has(std::size_t bytes) const { return limit - out >= static_cast<std::ptrdiff_t>(bytes); }
  void need(std::size_t bytes) {
    if (!has(bytes)) [[unlikely]]
      grow(bytes);
  }
  void grow(std::size_t bytes) {
    commit();
    take(bytes);
  }

  void put(char byte) {
    need(1);
    *out++ = byte;
  }
  void put(std::string_view bytes) {
    need(bytes.size());
    out = copy(out, bytes.data(), bytes.size());
  }

  // Returns a position for back_to(), which drops everything after it.
  [[nodiscard]] std::size_t mark() const { return static_cast<std::size_t>(out - buffer.data()); }
  void back_to(std::size_t mark) {
    commit();
    buffer.truncate(mark);
    take(0);
  }

  // The functions below take values of any size.
  void string(std::string_view text) {
    need(2 + (text.size() <= short_size ? json_growth * text.size() : json_escaped_size(text.data(), text.size())));
    out = json_string(out, text.data(), text.size());
  }
  void number(std::string_view text) {
    if (text.size() > short_size && is_json_number(text.data(), text.size())) return put(text);
    if (text.size() > short_size) return string(text);
    need(2 + json_growth * text.size());
    out = json_number(out, text.data(), text.size());
  }
  // Text that is already JSON. Empty text is not valid JSON and becomes a string.
  void json(std::string_view text, bool one_line) {
    if (text.empty()) return string(text);
    need(text.size());
    out = one_line ? copy_on_one_line(out, text.data(), text.size()) : copy(out, text.data(), text.size());
  }
  void boolean(std::string_view text) {
    need(5);
    out = json_boolean(out, text.data(), text.size());
  }
  void timestamp(std::string_view text, bool with_zone) {
    if (text.size() > short_size) return string(text);
    need(5 + json_growth * text.size());
    out = json_timestamp(out, text.data(), text.size(), with_zone);
  }
  void bytes(std::string_view raw) {
    need(5 + 2 * raw.size());
    out = json_bytes(out, raw.data(), raw.size());
  }
  void csv(std::string_view text, bool single) {
    need(2 + text.size() + (text.size() <= short_size ? text.size() : count_quotes(text.data(), text.size())));
    out = csv_value(out, text.data(), text.size(), single);
  }
  void csv_of_bytes(std::string_view raw) {
    need(2 + 2 * raw.size());
    out = csv_bytes(out, raw.data(), raw.size());
  }

  Buffer& buffer;
  char* out = nullptr;
  char* limit = nullptr;

 private:
  void commit() { buffer.commit(static_cast<std::size_t>(out - (buffer.data() + buffer.size()))); }
  void take(std::size_t bytes) {
    out = buffer.reserve(bytes + slack);
    limit = out + (buffer.writable() - slack);
  }
};

}  // namespace sluice::sql::encode
