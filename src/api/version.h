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

// Optimistic locking (RFC 9110, 8.8.3 and 13): the state of an endpoint's one row goes out as an ETag, and comes back
// as the condition of a write.
//
// A tag is `"STATE"`, or `"STATE;csv"`, `"STATE;csv;gzip"` ...: what follows the first semicolon tells representations
// of one state apart, whose bytes differ. A write is conditional on the state, for with it all of its representations
// are current or none is; so the part behind the semicolon is not compared.
namespace sluice::api {

// `version` of an endpoint: what tells one state of the row from another.
class Version {
 public:
  // A name that stands for all columns. A column that has it is one of them.
  static constexpr std::string_view whole_row = "*";

  // Nothing: there is no such column.
  [[nodiscard]] static std::optional<Version> of(std::string_view column, std::span<const sql::Column> columns);
  // The state as tags have it, of a block's first row. Nothing: the version is NULL, or its column is there no longer.
  [[nodiscard]] std::optional<std::string> state(const sql::Block& block) const;
  [[nodiscard]] bool is_whole_row() const { return column_ == none; }

 private:
  static constexpr std::size_t none = SIZE_MAX;

  std::string name_;
  std::size_t column_ = none;
};

[[nodiscard]] std::string tag_of(std::string_view state, sql::Format format, sql::Header header);

// If-Match and If-None-Match of a request.
class Conditions {
 public:
  explicit Conditions(const http::Request& request);

  [[nodiscard]] bool none() const { return !match_ && !none_match_; }
  [[nodiscard]] bool has_match() const { return match_; }
  [[nodiscard]] bool has_none_match() const { return none_match_; }
  // If-None-Match: *, which a PUT has that may only create.
  [[nodiscard]] bool wants_nothing() const { return wants_nothing_; }

  enum class Verdict : std::uint8_t {
    proceed,
    stale,  // If-Match does not hold
    known,  // If-None-Match does not hold
    malformed,
  };
  // Of what there is, which may have no state, before it is written.
  [[nodiscard]] Verdict judge(const std::optional<std::string>& state) const;
  // Of a representation that is to be answered with, and has this tag. If-Match looks at its state alone.
  [[nodiscard]] Verdict judge(const std::optional<std::string>& state, std::string_view tag) const;
  // Of what is not there.
  [[nodiscard]] Verdict judge_nothing() const {
    return malformed_ ? Verdict::malformed : match_ ? Verdict::stale : Verdict::proceed;
  }
  // Of If-None-Match, the one for the representation of this tag, or for it in a coding that the client takes, in its
  // strong form. Empty: there is none.
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

// How a method that writes sees the row that GET of the same path answers with. Made at start, immutable; one for all
// methods of an endpoint.
struct CurrentRow {
  sql::Statement statement;  // GET's, to be run in a transaction
  std::vector<Source> sources;
  // PostgreSQL: the same with FOR UPDATE, so that nobody else writes what was read before the transaction ends. Not
  // there: the statement can lock nothing (GROUP BY and the like), or its role might not be allowed to; then the
  // transaction is serializable. SQLite: the transaction has the only writer.
  std::optional<sql::Statement> lock;
  Version version;
  bool required = false;  // a write without a condition is answered 428
};

// The text of CurrentRow::lock for GET's.
[[nodiscard]] std::string locking_statement(std::string_view get);

// The version of the row that a write has returned: nothing where it cannot be known from these columns.
[[nodiscard]] std::optional<Version> returned_version(const Version& version, std::string_view name,
                                                      std::span<const sql::Column> got,
                                                      std::span<const sql::Column> returned);

[[nodiscard]] http::Response refuse_stale();
[[nodiscard]] http::Response refuse_existing();
[[nodiscard]] http::Response refuse_unconditional();

}  // namespace sluice::api
