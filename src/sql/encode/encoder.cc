#include "sql/encode/encoder.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "sql/encode/writer.h"

namespace sluice::sql {

using encode::Writer;

namespace {

// Separates a row's object from the previous one; the first row omits it.
constexpr std::string_view json_separator = ",\n";

[[nodiscard]] bool is_csv(Format format) { return format == Format::csv; }

}  // namespace

Layout::Layout(Format format, std::span<const Column> columns, EncodeOptions options)
    : format_(format), options_(options) {
  Buffer head;
  Buffer leads;
  {
    Writer head_writer(head);
    Writer lead_writer(leads);
    if (format == Format::json && !options.object) head_writer.put('[');
    columns_.reserve(columns.size());
    for (const Column& column : columns) {
      const bool first = columns_.empty();
      ColumnPlan& plan = columns_.emplace_back();
      if (column.type) plan.form = column.type->form;
      if (!is_csv(format) && (plan.form == Form::array || plan.form == Form::composite)) {
        plan.nested = static_cast<std::uint32_t>(nested_.size());
        depth_ = std::max(depth_, nested_.emplace_back(*column.type).depth);
      }
      if (format == Format::csv || format == Format::csj) {
        if (!first) head_writer.put(',');
        if (is_csv(format)) {
          head_writer.csv(column.name, columns.size() == 1);
        } else {
          head_writer.string(column.name);
        }
      } else {
        const std::size_t start = lead_writer.mark();
        if (first && format == Format::json) lead_writer.put(json_separator);
        lead_writer.put(first ? '{' : ',');
        lead_writer.string(column.name);
        lead_writer.put(':');
        plan.lead = static_cast<std::uint32_t>(start);
        plan.lead_size = static_cast<std::uint32_t>(lead_writer.mark() - start);
      }
    }
    if (format == Format::csv || format == Format::csj) head_writer.put('\n');
  }
  head_ = head.view();
  leads_ = leads.view();
  leads_.append(encode::Chunk::size, '\0');
}

Encoder::Encoder(const Layout& layout) : layout_(&layout), scratch_(layout.depth_) {}

Encoder::Encoder(Format format, std::span<const Column> columns, EncodeOptions options)
    : owned_(std::make_unique<const Layout>(format, columns, options)),
      layout_(owned_.get()),
      scratch_(layout_->depth_) {}

void Encoder::begin(Buffer& out, Header header) {
  if (header == Header::absent && (is_csv(layout_->format_) || layout_->format_ == Format::csj)) return;
  if (!layout_->head_.empty()) out.append(layout_->head_);
}

void Encoder::rows(const Block& block, Buffer& out) {
  SLUICE_ASSERT(block.columns.size() == layout_->columns_.size());
  std::size_t count = block.rows;
  if (layout_->options_.object) count = std::min<std::size_t>(count, row_count_ == 0 ? 1 : 0);
  if (count == 0) return;
  switch (layout_->format_) {
    case Format::json:
      write<Format::json>(block, count, out);
      break;
    case Format::ndjson:
      write<Format::ndjson>(block, count, out);
      break;
    case Format::csv:
      write<Format::csv>(block, count, out);
      break;
    case Format::csj:
      write<Format::csj>(block, count, out);
      break;
  }
  row_count_ += count;
}

void Encoder::end(Buffer& out) {
  if (layout_->format_ != Format::json) return;
  if (!layout_->options_.object) {
    out.append("]\n");
  } else if (row_count_ != 0) {
    out.push_back('\n');
  }
}

// Short values of plain forms are written here, through pointers that the compiler keeps in registers. The Writer
// writes all others and reserves room for each.
template <Format format>
void Encoder::write(const Block& block, std::size_t count, Buffer& out_buffer) {
  constexpr bool objects = format == Format::json || format == Format::ndjson;
  const std::size_t width = layout_->columns_.size();
  const Layout::ColumnPlan* const columns = layout_->columns_.data();
  const char* const leads = layout_->leads_.data();
  const Field* field = block.fields.data();
  const bool single = width == 1;
  std::size_t skip = format == Format::json && row_count_ == 0 ? json_separator.size() : 0;

  Writer writer(out_buffer);
  char* out = writer.out;
  const char* limit = writer.limit;
  const auto hand_over = [&] { writer.out = out; };
  const auto take_back = [&] {
    out = writer.out;
    limit = writer.limit;
  };

  for (std::size_t row = 0; row < count; ++row) {
    for (std::size_t i = 0; i < width; ++i, ++field) {
      const Layout::ColumnPlan& column = columns[i];
      const std::size_t size = field->size;
      const bool is_short = size <= encode::short_size;
      // Room for the text before the value, for the value if it is short, and for the text after it.
      const std::size_t bound = (objects ? column.lead_size : 0) + 16 +
                                (is_short ? size * (format == Format::csv ? 2 : encode::json_growth) : 0);
      if (limit - out < static_cast<std::ptrdiff_t>(bound)) [[unlikely]] {
        hand_over();
        writer.grow(bound);
        take_back();
      }
      if constexpr (objects) {
        out = encode::copy_padded(out, leads + column.lead + skip, column.lead_size - skip);
        skip = 0;
      }
      const char* const data = field->data;
      const Form form = column.form == Form::dynamic ? field->form : column.form;
      if (data == nullptr) {
        if constexpr (format != Format::csv) {
          std::memcpy(out, "null", 4);
          out += 4;
        }
      } else if (!is_short) [[unlikely]] {
        hand_over();
        write_value(writer, column, form, *field);
        take_back();
      } else if constexpr (format == Format::csv) {
        out = form == Form::bytes ? encode::csv_bytes(out, data, size) : encode::csv_value(out, data, size, single);
      } else {
        switch (form) {
          case Form::text:
            out = encode::json_string(out, data, size);
            break;
          case Form::number:
            out = encode::json_number(out, data, size);
            break;
          case Form::boolean:
            out = encode::json_boolean(out, data, size);
            break;
          case Form::timestamp:
          case Form::timestamp_tz:
            out = encode::json_timestamp(out, data, size, form == Form::timestamp_tz);
            break;
          default:
            hand_over();
            write_value(writer, column, form, *field);
            take_back();
            break;
        }
      }
      // The last value's comma becomes the line end. The Writer may have used all reserved room except the slack.
      if constexpr (!objects) *out++ = ',';
    }
    if constexpr (objects) {
      if (width == 0) [[unlikely]] {
        hand_over();
        writer.put(skip == 0 && format == Format::json ? ",\n{" : "{");
        skip = 0;
        take_back();
      }
      *out++ = '}';
      if constexpr (format == Format::ndjson) *out++ = '\n';
    } else if (width == 0) [[unlikely]] {
      hand_over();
      writer.put('\n');
      take_back();
    } else {
      out[-1] = '\n';
    }
  }
  hand_over();
}

void Encoder::write_value(Writer& writer, const Layout::ColumnPlan& column, Form form, const Field& field) {
  const std::string_view text = field.view();
  if (is_csv(layout_->format_)) {
    if (form == Form::bytes) return writer.csv_of_bytes(text);
    return writer.csv(text, layout_->columns_.size() == 1);
  }
  const bool one_line = layout_->format_ != Format::json;
  switch (form) {
    case Form::number:
      return writer.number(text);
    case Form::boolean:
      return writer.boolean(text);
    case Form::json:
      return writer.json(text, one_line);
    case Form::timestamp:
      return writer.timestamp(text, false);
    case Form::timestamp_tz:
      return writer.timestamp(text, true);
    case Form::bytes:
      return writer.bytes(text);
    case Form::array:
    case Form::composite:
      // A field's form can be a number, but it cannot describe the elements of an array.
      if (column.form == Form::dynamic) return writer.string(text);
      return encode::NestedWriter(writer, scratch_, one_line).value(layout_->nested_[column.nested], text);
    case Form::text:
    case Form::dynamic:
      return writer.string(text);
  }
}

}  // namespace sluice::sql
