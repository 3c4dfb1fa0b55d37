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
#include "http/request.h"
#include "sql/staging.h"

namespace sluice::api {

// What has been read of the body, and is not with the database yet.
class SetRows {
 public:
  // What is given outlives it.
  SetRows(const SetWritePlan& plan, BodyFormat format, const http::Request& request);

  [[nodiscard]] RowReader& reader() { return *reader_; }
  [[nodiscard]] const std::vector<RowFault>& faults() const { return faults_; }
  [[nodiscard]] bool broken() const { return broken_; }
  [[nodiscard]] bool ended() const { return ended_; }
  // Whether there has been no row so far.
  [[nodiscard]] bool empty() const { return empty_; }

  // Takes rows until the reader wants more bytes, or a batch is full (true): at the latest when it has `most_rows`.
  [[nodiscard]] bool take(std::uint64_t most_rows = UINT64_MAX);
  // The batch, whose views last until the next take().
  [[nodiscard]] std::span<const sql::StagedValue> values();
  // How many rows it has.
  [[nodiscard]] std::size_t pending() const { return lines_.size(); }
  // About how many bytes of the body are held here, in all forms.
  [[nodiscard]] std::size_t held() const {
    return reader_->held() + texts_.capacity() + values_.capacity() * sizeof(sql::StagedValue);
  }
  // Gives up the batch.
  void clear();
  // Hands the batch to the database and gives it up; nothing where there are faults.
  [[nodiscard]] core::Task<sql::Result<void>> hand_over(sql::Staging& staging);

  // What the database has said of its staged rows, as the body's reader names their places.
  [[nodiscard]] std::vector<RowFault> located(std::span<const sql::StagedFault> faults) const;
  // Likewise, by the names of columns.
  [[nodiscard]] static RowFault fault_of(const sql::StagedFault& fault) {
    // Rows are counted by batch: a line can be found in the file.
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
  const http::Request& request_;
  std::unique_ptr<RowReader> reader_;
  std::optional<schema::RowCheck> check_;
  Binder binder_;
  std::vector<sql::Argument> arguments_;
  std::string texts_;
  std::vector<sql::StagedValue> values_;
  std::vector<std::size_t> begins_;  // of each value in texts_
  std::vector<std::uint64_t> lines_;
  std::vector<RowFault> faults_;
  bool empty_ = true;
  bool broken_ = false;
  bool ended_ = false;
};

}  // namespace sluice::api
