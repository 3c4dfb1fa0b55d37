// Any bytes as rows of any types, in every format. JSON, NDJSON and CSJ must be valid whatever the values are (a value
// of type json is used only if it is valid), and texts must survive a round trip through JSON strings and CSV.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fuzzing.h"
#include "sql/encode/encoder.h"

namespace {

using namespace sluice;
using sluice::fuzz::require;
using sql::Column;
using sql::Field;
using sql::Form;
using sql::Format;
using sql::Type;

class Input {
 public:
  explicit Input(std::string_view bytes) : bytes_(bytes) {}

  [[nodiscard]] bool empty() const { return bytes_.empty(); }
  std::uint8_t byte() {
    if (bytes_.empty()) return 0;
    const auto value = static_cast<std::uint8_t>(bytes_.front());
    bytes_.remove_prefix(1);
    return value;
  }
  std::string_view text() {
    // Long texts are rare: only the size byte 255 starts one.
    std::size_t size = byte();
    if (size == 255) size = 255 + 16 * byte();
    const std::string_view result = bytes_.substr(0, size);
    bytes_.remove_prefix(result.size());
    return result;
  }

 private:
  std::string_view bytes_;
};

// RFC 8259, strictly; recursion is bounded by `depth`. Advances past the value.
bool skip_value(std::string_view& text, int depth);

void skip_space(std::string_view& text) {
  while (!text.empty() && std::strchr(" \t\n\r", text.front()) != nullptr && text.front() != 0) text.remove_prefix(1);
}

bool skip(std::string_view& text, std::string_view what) {
  if (!text.starts_with(what)) return false;
  text.remove_prefix(what.size());
  return true;
}

std::optional<std::string> string_value(std::string_view& text) {
  if (!skip(text, "\"")) return std::nullopt;
  std::string value;
  while (!text.empty()) {
    const char byte = text.front();
    text.remove_prefix(1);
    if (byte == '"') return value;
    if (static_cast<unsigned char>(byte) < 0x20) return std::nullopt;
    if (byte != '\\') {
      value += byte;
      continue;
    }
    if (text.empty()) return std::nullopt;
    const char escape = text.front();
    text.remove_prefix(1);
    static constexpr std::string_view letters = "\"\\/bfnrt";
    static constexpr std::string_view meanings = "\"\\/\b\f\n\r\t";
    if (const std::size_t at = letters.find(escape); at != std::string_view::npos) {
      value += meanings[at];
    } else if (escape == 'u' && text.size() >= 4) {
      unsigned code = 0;
      for (const char digit : text.substr(0, 4)) {
        const bool decimal = digit >= '0' && digit <= '9';
        if (!decimal && (digit < 'a' || digit > 'f') && (digit < 'A' || digit > 'F')) return std::nullopt;
        code = code * 16 + static_cast<unsigned>(decimal ? digit - '0' : (digit | 0x20) - 'a' + 10);
      }
      text.remove_prefix(4);
      value += static_cast<char>(code);
    } else {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

bool skip_digits(std::string_view& text) {
  const std::size_t before = text.size();
  while (!text.empty() && text.front() >= '0' && text.front() <= '9') text.remove_prefix(1);
  return text.size() != before;
}

bool skip_number(std::string_view& text) {
  skip(text, "-");
  if (!skip(text, "0") && !skip_digits(text)) return false;
  if (skip(text, ".") && !skip_digits(text)) return false;
  if (skip(text, "e") || skip(text, "E")) {
    if (!skip(text, "+")) skip(text, "-");
    return skip_digits(text);
  }
  return true;
}

bool skip_members(std::string_view& text, char end, bool object, int depth) {
  skip_space(text);
  if (skip(text, {&end, 1})) return true;
  for (;;) {
    if (object) {
      skip_space(text);
      if (!string_value(text)) return false;
      skip_space(text);
      if (!skip(text, ":")) return false;
    }
    if (!skip_value(text, depth - 1)) return false;
    if (skip(text, {&end, 1})) return true;
    if (!skip(text, ",")) return false;
  }
}

bool skip_value(std::string_view& text, int depth) {
  if (depth == 0) return false;
  skip_space(text);
  bool good = false;
  if (text.starts_with('"')) {
    good = string_value(text).has_value();
  } else if (skip(text, "{")) {
    good = skip_members(text, '}', true, depth);
  } else if (skip(text, "[")) {
    good = skip_members(text, ']', false, depth);
  } else {
    good = skip(text, "true") || skip(text, "false") || skip(text, "null") || skip_number(text);
  }
  skip_space(text);
  return good;
}

constexpr int deep = 3000;

bool is_json(std::string_view text) { return skip_value(text, deep) && text.empty(); }

std::shared_ptr<const Type> make_type(Input& input, int depth) {
  static constexpr Form forms[] = {Form::text,         Form::number, Form::boolean,  Form::timestamp,
                                   Form::timestamp_tz, Form::bytes,  Form::dynamic,  Form::json,
                                   Form::array,        Form::array,  Form::composite};
  auto type = std::make_shared<Type>();
  type->form = forms[input.byte() % std::size(forms)];
  // JSON inside an array or a composite cannot be validated before it is used.
  if (type->form == Form::json && depth != 0) type->form = Form::text;
  if ((type->form == Form::array || type->form == Form::composite) && depth == 4) type->form = Form::number;
  if (type->form == Form::array) {
    static constexpr char delimiters[] = {',', ';', ' '};
    type->delimiter = delimiters[input.byte() % 3];
    type->element = make_type(input, depth + 1);
  } else if (type->form == Form::composite) {
    for (int i = 0, count = input.byte() % 4; i < count; ++i) {
      const std::string name(input.text().substr(0, 20));
      type->attributes.push_back({name, make_type(input, depth + 1)});
    }
  }
  return type;
}

struct Rows {
  std::vector<Column> columns;
  std::vector<std::unique_ptr<char[]>> memory;
  std::vector<Field> fields;
  std::size_t count = 0;
};

std::string encode(const Rows& rows, Format format, std::size_t cut) {
  Buffer out;
  sql::Encoder encoder(format, rows.columns);
  encoder.begin(out);
  const std::size_t width = rows.columns.size();
  const std::span<const Field> fields = rows.fields;
  encoder.rows({.columns = rows.columns, .fields = fields.first(cut * width), .rows = cut}, out);
  encoder.rows({.columns = rows.columns, .fields = fields.subspan(cut * width), .rows = rows.count - cut}, out);
  encoder.end(out);
  require(encoder.row_count() == rows.count);
  return std::string(out.view());
}

std::string text_of(const Field& field, Form form) {
  if (form != Form::bytes) return std::string(field.view());
  std::string text = "\\x";
  for (const char byte : field.view()) {
    text += "0123456789abcdef"[static_cast<unsigned char>(byte) >> 4];
    text += "0123456789abcdef"[static_cast<unsigned char>(byte) & 15];
  }
  return text;
}

Form form_of(const Rows& rows, std::size_t column, const Field& field) {
  const Form form = rows.columns[column].type->form;
  return form == Form::dynamic ? field.form : form;
}

// One value of a line of CSJ or of an NDJSON object.
void check_value(const Rows& rows, std::size_t column, const Field& field, std::string_view value) {
  if (field.is_null()) {
    require(value == "null");
  } else if (const Form form = form_of(rows, column, field); form == Form::text || form == Form::bytes) {
    const auto text = string_value(value);
    require(text && *text == text_of(field, form) && value.empty());
  } else {
    require(value != "null" || form == Form::json);
  }
}

void check_lines(const Rows& rows, std::string_view out, bool objects) {
  const Field* field = rows.fields.data();
  const auto line = [&](bool head) {
    const std::size_t end = out.find('\n');
    require(end != std::string_view::npos);
    std::string_view text = out.substr(0, end);
    out.remove_prefix(end + 1);
    if (objects) require(skip(text, "{"));
    for (std::size_t i = 0; i < rows.columns.size(); ++i) {
      if (i != 0) require(skip(text, ","));
      if (objects || head) {
        const auto name = string_value(text);
        require(name && *name == rows.columns[i].name);
        if (head) continue;
        require(skip(text, ":"));
      }
      const std::string_view start = text;
      require(skip_value(text, deep));
      check_value(rows, i, *field++, start.substr(0, start.size() - text.size()));
    }
    if (objects) require(skip(text, "}"));
    require(text.empty());
  };
  if (!objects) line(true);
  for (std::size_t row = 0; row < rows.count; ++row) line(false);
  require(out.empty());
}

void check_csv(const Rows& rows, std::string_view out) {
  const auto value = [&]() -> std::optional<std::string> {
    std::string text;
    if (!skip(out, "\"")) {
      while (!out.empty() && out.front() != ',' && out.front() != '\n') {
        require(out.front() != '"' && out.front() != '\r');
        text += out.front();
        out.remove_prefix(1);
      }
      if (text.empty()) return std::nullopt;
      return text;
    }
    for (;;) {
      require(!out.empty());
      if (out.starts_with("\"\"")) {
        out.remove_prefix(1);
      } else if (skip(out, "\"")) {
        return text;
      }
      text += out.front();
      out.remove_prefix(1);
    }
  };
  for (std::size_t row = 0; row <= rows.count; ++row) {
    for (std::size_t i = 0; i < rows.columns.size(); ++i) {
      if (i != 0) require(skip(out, ","));
      const auto text = value();
      if (row == 0) {
        require(text && *text == rows.columns[i].name);
        continue;
      }
      const Field& field = rows.fields[(row - 1) * rows.columns.size() + i];
      require(text.has_value() != field.is_null());
      if (text) require(*text == text_of(field, form_of(rows, i, field)));
    }
    require(skip(out, "\n"));
  }
  require(out.empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input({reinterpret_cast<const char*>(data), size});
  Rows rows;
  for (int i = 0, width = input.byte() % 5; i < width; ++i) {
    const std::string name(input.text().substr(0, 40));
    rows.columns.push_back({name, make_type(input, 0)});
  }
  do {
    ++rows.count;
    for (const Column& column : rows.columns) {
      Field& field = rows.fields.emplace_back();
      static constexpr Form forms[] = {Form::text, Form::number, Form::bytes, Form::array, Form::dynamic};
      const std::uint8_t kind = input.byte();
      field.form = forms[kind % std::size(forms)];
      std::string_view text = input.text();
      if (column.type->form == Form::json && !is_json(text)) text = "[1,\n{\"a\": \"\\\\n\"}\r]";
      if (kind >= 240) continue;
      // An allocation of exactly this size, so that the address sanitizer finds a read past the end.
      rows.memory.push_back(std::make_unique<char[]>(text.size()));
      if (!text.empty()) std::memcpy(rows.memory.back().get(), text.data(), text.size());
      field.data = rows.memory.back().get();
      field.size = static_cast<std::uint32_t>(text.size());
    }
  } while (!input.empty() && rows.count < 200);

  const std::size_t cut = rows.count / 2;
  require(is_json(encode(rows, Format::json, cut)));
  check_lines(rows, encode(rows, Format::ndjson, cut), true);
  check_lines(rows, encode(rows, Format::csj, cut), false);
  check_csv(rows, encode(rows, Format::csv, cut));
  return 0;
}
