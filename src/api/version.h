#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/source.h"
#include "http/entity_tag.h"
#include "http/request.h"
#include "http/response.h"
#include "sql/database.h"
#include "sql/encode/format.h"

// Optimistic locking (RFC 9110, 8.8.3 and 13). The state of an endpoint's only row is sent as an ETag. Clients send it
// back as the condition of a write.
//
// A tag is `"STATE"`, `"STATE;csv"`, `"STATE;csv;gzip"` and so on. The part after the first semicolon distinguishes
// representations of one state, because their bytes differ. The condition of a write compares only the state, because
// all representations of a state become outdated together.
namespace sluice::api {

// `version` of an endpoint: the column that distinguishes one state of the row from another.
class Version {
 public:
  // Stands for all columns, even if one of them has this name.
  static constexpr std::string_view whole_row = "*";

  // Returns nullopt if the column does not exist.
  [[nodiscard]] static std::optional<Version> of(std::string_view column, std::span<const sql::Column> columns);
  // The state of a block's first row, as tags contain it. Returns nullopt if it is NULL or the column no longer exists.
  [[nodiscard]] std::optional<std::string> state(const sql::Block& block) const;
  [[nodiscard]] bool is_whole_row() const { return column_ == none; }

 private:
  static constexpr std::size_t none = SIZE_MAX;

  std::string name_;
  std::size_t column_ = none;
};

[[nodiscard]] std::string tag_of(std::string_view state, sql::Format format, sql::Header header);

// The If-Match and If-None-Match of a request.
class Conditions {
 public:
  explicit Conditions(const http::Request& request);

  [[nodiscard]] bool none() const { return !match_ && !none_match_; }
  [[nodiscard]] bool has_match() const { return match_; }
  [[nodiscard]] bool has_none_match() const { return none_match_; }
  // If-None-Match: *, from a PUT that must only create.
  [[nodiscard]] bool wants_nothing() const { return wants_nothing_; }

  enum class Verdict : std::uint8_t {
    proceed,
    stale,  // If-Match is false
    known,  // If-None-Match is false
    malformed,
  };
  // Judges a write to an existing row. `state`: nullopt if the row has none.
  [[nodiscard]] Verdict judge(const std::optional<std::string>& state) const;
  // Judges the representation with this tag before it is sent. If-Match compares only the state.
  [[nodiscard]] Verdict judge(const std::optional<std::string>& state, std::string_view tag) const;
  // Judges a write to a row that does not exist.
  [[nodiscard]] Verdict judge_nothing() const {
    return malformed_ ? Verdict::malformed : match_ ? Verdict::stale : Verdict::proceed;
  }
  // The tag of If-None-Match, without W/, that equals `tag` or adds a content coding that the client accepts. May be
  // empty.
  [[nodiscard]] std::string_view known_tag(std::string_view tag) const;

 private:
  [[nodiscard]] bool lists(std::string_view name, std::string_view state, bool strongly) const;
  [[nodiscard]] bool match_fails(const std::optional<std::string>& state) const;

  const http::Request& request_;
  bool match_ = false;
  bool none_match_ = false;
  bool wants_anything_ = false;  // If-Match: *
  bool wants_nothing_ = false;
  bool malformed_ = false;
};

// The row that GET of the same path returns, for methods that write. Created at start, immutable; one for all methods
// of an endpoint.
struct CurrentRow {
  sql::Statement statement;  // the statement of GET, which runs in a transaction
  std::vector<Source> sources;
  // PostgreSQL: the same statement with FOR UPDATE, so that nobody else changes the row before the transaction ends.
  // nullopt if the statement cannot lock (GROUP BY and the like), or if its role may lack the permission; the
  // transaction is then serializable. SQLite does not need it, because it has only one writer at a time.
  std::optional<sql::Statement> lock;
  Version version;
  bool required = false;  // a write without a condition gets a 428
};

// The text of CurrentRow::lock for the statement of GET.
[[nodiscard]] std::string locking_statement(std::string_view get);

// The version of the row that a write returns. nullopt if it cannot be determined from these columns.
[[nodiscard]] std::optional<Version> returned_version(const Version& version, std::string_view name,
                                                      std::span<const sql::Column> got,
                                                      std::span<const sql::Column> returned);

[[nodiscard]] http::Response refuse_stale();
[[nodiscard]] http::Response refuse_existing();
[[nodiscard]] http::Response refuse_unconditional();

}  // namespace sluice::api
