#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "api/body/row_reader.h"
#include "api/refusals.h"
#include "api/schema/row_check.h"
#include "api/set_endpoint.h"
#include "api/source.h"
#include "http/exchange.h"
#include "http/request.h"
#include "sql/staging.h"

namespace sluice::api {

// The rows that have been read from the body but not yet passed to the database.
class SetRows {
 public:
  // The arguments outlive this.
  SetRows(const SetWritePlan& plan, BodyFormat format, const http::Exchange& exchange);

  [[nodiscard]] RowReader& reader() { return *reader_; }
  [[nodiscard]] const std::vector<RowFault>& faults() const { return faults_; }
  [[nodiscard]] bool broken() const { return broken_; }
  [[nodiscard]] bool ended() const { return ended_; }
  // Whether the body has had no row so far.
  [[nodiscard]] bool empty() const { return empty_; }

  // Takes rows until the reader needs more bytes, the body ends or the batch is full. Returns true if the batch is
  // full. It never has more than `most_rows` rows.
  [[nodiscard]] bool take(std::uint64_t most_rows = UINT64_MAX);
  // The values of the batch. The views last until the next take().
  [[nodiscard]] std::span<const sql::StagedValue> values();
  [[nodiscard]] std::size_t pending() const { return lines_.size(); }
  // Roughly how many bytes of the body are held here, including copies.
  [[nodiscard]] std::size_t held() const {
    return reader_->held() + texts_.capacity() + values_.capacity() * sizeof(sql::StagedValue);
  }
  void clear();
  // Passes the batch to the database and clears it. Does not pass it if there are faults.
  [[nodiscard]] core::Task<sql::Result<void>> hand_over(sql::Staging& staging);

  // Converts the database's faults in staged rows. The reader determines the notation of their positions in the body.
  [[nodiscard]] std::vector<RowFault> located(std::span<const sql::StagedFault> faults) const;
  // The same, but with column names as positions.
  [[nodiscard]] static RowFault fault_of(const sql::StagedFault& fault) {
    // Names the line, because the row number counts only within a batch.
    const std::string twin = "has the same key as line " + std::to_string(fault.twin_line);
    return {.line = fault.line,
            .row = fault.row,
            .pointer = fault.column,
            .reason = fault.twin_line == 0 ? fault.reason : twin};
  }

 private:
  void take_row();
  void add_fault(RowFault fault) {
    if (faults_.size() < most_faults) faults_.push_back(std::move(fault));
  }

  const SetWritePlan& plan_;
  const http::Exchange& exchange_;
  std::unique_ptr<RowReader> reader_;
  std::optional<schema::RowCheck> check_;
  Binder binder_;
  std::vector<sql::Argument> arguments_;
  std::string texts_;
  std::vector<sql::StagedValue> values_;
  std::vector<std::size_t> begins_;  // the start of each value in texts_
  std::vector<std::uint64_t> lines_;
  std::vector<RowFault> faults_;
  bool empty_ = true;
  bool broken_ = false;
  bool ended_ = false;
};

}  // namespace sluice::api
