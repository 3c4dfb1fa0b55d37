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

// One core's cache of encoded rows of one version. It serves answers with some of the fields, answers in CSV, and
// answers from a table that is encoded on demand. A row is encoded at the first request for it. Later answers use it
// without copying. A combination of fields and format is cached when it is requested the second time. If all
// combinations together exceed the limit, the least recently used is evicted. If one alone exceeds half the limit, its
// rows are dropped and cached anew. Answers that are being sent keep evicted rows in memory. While these take much
// memory, nothing new is cached.
class Projections {
 public:
  explicit Projections(std::size_t limit) : limit_(limit) {}
  Projections(const Projections&) = delete;
  ~Projections();

  // Returns nullopt if the answer cannot use cached rows or exceeds `most_bytes`. The answer keeps `tags`
  // alive, because its fields point into them, but not the table.
  [[nodiscard]] std::optional<http::SharedSpans> answer(const std::shared_ptr<const void>& tags, const Table& table,
                                                        const Selection& selection, const RowWriter::Wanted& wanted,
                                                        std::size_t most_bytes = SIZE_MAX);
  // Called when there is a new version.
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
  std::list<Entry> entries_;               // the most recently used first; only a few
  std::vector<std::weak_ptr<Rows>> left_;  // evicted, but kept by answers that are being sent
  std::array<std::uint64_t, 64> seen_{};   // hashes of past requests, indexed by their lowest bits
  std::uint64_t bytes_ = 0;
};

}  // namespace sluice::api::resident
