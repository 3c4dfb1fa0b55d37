#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "sql/encode/format.h"
#include "sql/encode/nested.h"
#include "sql/rows.h"

namespace sluice::sql {

struct EncodeOptions {
  bool object = false;  // only the first row; in JSON an object instead of an array
};

// Everything about an answer that is known before its first row. Immutable: one layout per statement and format serves
// all requests on all cores.
class Layout {
 public:
  Layout(Format format, std::span<const Column> columns, EncodeOptions options = {});

 private:
  friend class Encoder;

  struct ColumnPlan {
    Form form = Form::text;
    std::uint32_t lead = 0;  // offset in leads_ of the text before the value in a JSON object
    std::uint32_t lead_size = 0;
    std::uint32_t nested = 0;  // array, composite: index in nested_
  };

  Format format_;
  EncodeOptions options_;
  std::string head_;   // the text before the rows
  std::string leads_;  // padded by one chunk
  std::vector<ColumnPlan> columns_;
  std::vector<encode::ValuePlan> nested_;
  std::size_t depth_ = 0;  // of the deepest value
};

// Turns the blocks of one answer into bytes: begin(), rows() any number of times, end(). JSON values equal those of
// PostgreSQL's to_json, CSV equals the output of its COPY. Does no I/O and appends only whole rows.
class Encoder {
 public:
  // `layout` outlives the encoder.
  explicit Encoder(const Layout& layout);
  Encoder(Format format, std::span<const Column> columns, EncodeOptions options = {});

  void begin(Buffer& out, Header header = Header::present);
  // The block must have the layout's columns.
  void rows(const Block& block, Buffer& out);
  void end(Buffer& out);

  [[nodiscard]] std::uint64_t row_count() const { return row_count_; }

 private:
  template <Format format>
  void write(const Block& block, std::size_t count, Buffer& out);
  void write_value(encode::Writer& writer, const Layout::ColumnPlan& column, Form form, const Field& field);

  std::unique_ptr<const Layout> owned_;
  const Layout* layout_;
  std::uint64_t row_count_ = 0;
  std::vector<Buffer> scratch_;
};

}  // namespace sluice::sql
