#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "api/resident/row_writer.h"
#include "api/resident/selection.h"
#include "api/resident/table.h"
#include "http/shared_spans.h"

namespace sluice::api::resident {

// One core's rows of one version as answers have them: with some of the fields, as CSV, or of a table that is encoded
// on demand. A row is encoded when it is first asked for; from then on answers are made of it without copying. What
// fields and format ask for is worth a place when it comes the second time. What has been used least recently goes
// where all take more than the limit, and what alone takes more than half of it begins anew. What goes is held by
// answers that are being sent: while there is much of that, nothing is kept.
class Projections {
 public:
  explicit Projections(std::size_t limit) : limit_(limit) {}
  Projections(const Projections&) = delete;
  ~Projections();

  // The answer; nothing: it is not made of rows that are kept, or is longer than `most_bytes`. `tags`, what its fields
  // are views of, are held as long as it; the table is not.
  [[nodiscard]] std::optional<http::SharedSpans> answer(const std::shared_ptr<const void>& tags, const Table& table,
                                                        const Selection& selection, const RowWriter::Wanted& wanted,
                                                        std::size_t most_bytes = SIZE_MAX);
  // When there is a new version.
  void clear();

  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  class Rows;
  struct Entry {
    std::string key;
    std::shared_ptr<Rows> rows;
  };

  [[nodiscard]] Rows* find(std::string_view key, const std::shared_ptr<const void>& tags);
  void make_room();
  void leave(Entry& entry);
  [[nodiscard]] bool much_is_left();

  const std::size_t limit_;
  std::list<Entry> entries_;               // the most recently used first; a few
  std::vector<std::weak_ptr<Rows>> left_;  // no longer kept, but held by answers that are being sent
  std::array<std::uint64_t, 64> seen_{};   // hashes of what has come, by their lowest bits
  std::uint64_t bytes_ = 0;
};

}  // namespace sluice::api::resident
