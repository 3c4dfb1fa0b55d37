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
  bool object = false;  // the first row alone: in JSON an object, without the array around it
};

// All that can be known of an answer before its first row. Immutable; one for a statement and a format serves every
// request on every core.
class Layout {
 public:
  Layout(Format format, std::span<const Column> columns, EncodeOptions options = {});

 private:
  friend class Encoder;

  struct ColumnPlan {
    Form form = Form::text;
    std::uint32_t lead = 0;  // what comes before the value in a JSON object, in leads_
    std::uint32_t lead_size = 0;
    std::uint32_t nested = 0;  // array, composite: in nested_
  };

  Format format_;
  EncodeOptions options_;
  std::string head_;   // what comes before the rows
  std::string leads_;  // padded by a chunk
  std::vector<ColumnPlan> columns_;
  std::vector<encode::ValuePlan> nested_;
  std::size_t depth_ = 0;  // of the deepest value
};

// Turns the blocks of one answer into bytes: begin(), rows() any number of times, end(). JSON values are what
// PostgreSQL's to_json gives, CSV is what its COPY writes. Does no I/O and appends whole rows only.
class Encoder {
 public:
  // `layout` outlives the encoder.
  explicit Encoder(const Layout& layout);
  Encoder(Format format, std::span<const Column> columns, EncodeOptions options = {});

  void begin(Buffer& out, Header header = Header::present);
  // The block has the columns that the layout was made from.
  void rows(const Block& block, Buffer& out);
  void end(Buffer& out);

  // Rows written so far.
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
