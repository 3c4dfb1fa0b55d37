#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/failures.h"
#include "api/options.h"
#include "api/query_names.h"
#include "api/source.h"
#include "core/task.h"
#include "http/exchange.h"
#include "http/request.h"
#include "http/response.h"
#include "http/router.h"
#include "sql/database.h"
#include "sql/parameters.h"
#include "sql/transaction.h"

// `require`: conditions that must hold before an endpoint does anything.
//
//   expression = eq(value, value) | ne(value, value) | in(value, value ...) | contains(claim, value) | present(value)
//              | and(expression ...) | or(expression ...) | not(expression) | exists(SQL)
//   value      = a source as in `from`, but of the body | 'text', where '' is a quote | a number | true | false
namespace sluice::api {

struct Operand {
  std::optional<SourceName> source;  // nullopt for a literal
  std::string text;                  // as written; for a literal, its characters
  std::size_t offset = 0;            // position in the expression, in bytes
};

struct Requirement {
  enum class Kind : std::uint8_t { eq, ne, in, contains, present, all, any, negation, exists };
  Kind kind{};
  std::vector<Operand> operands;
  std::vector<Requirement> parts;
  std::string sql;  // exists: the SQL, in which each `claim.x` is replaced by a parameter of the same length
  std::vector<std::pair<std::string, std::string>> claims;  // exists: the parameters and their claims
  std::size_t offset = 0;                                   // position of the node, or of the SQL of exists, in bytes
};

struct RequirementFault {
  std::size_t offset = 0;  // in bytes
  std::string message;
};

inline constexpr std::size_t deepest_requirement = 32;

[[nodiscard]] std::expected<Requirement, RequirementFault> parse_requirement(std::string_view text);

// The statement to prepare for exists(SQL), and how many characters precede the SQL in it.
[[nodiscard]] std::string exists_statement(std::string_view sql);
inline constexpr std::uint32_t exists_statement_offset = 15;

// The prepared requirements of one method. Immutable, shared by all cores.
class Guards {
 public:
  // Adds the requirement of `options`, and appends the queries of its exists() to queries(). The caller prepares them
  // in that order. A source that is also in `declared` gets the type, default and trimming declared there.
  // Precondition: the expression parses.
  void add(const RequireOptions& options, const http::Pattern& pattern, std::span<const Source> declared = {});
  struct Query {
    const Requirement* written = nullptr;
    const RequireOptions* options = nullptr;  // until it is prepared
    sql::Statement statement;
    std::vector<Source> sources;
    bool must_hold = false;  // only and() encloses the query, so a false result refuses the request
  };
  [[nodiscard]] std::vector<Query>& queries() { return queries_; }
  [[nodiscard]] const std::vector<Query>& queries() const { return queries_; }
  void prepared(std::size_t query, sql::Statement statement, const EndpointOptions& endpoint,
                const http::Pattern& pattern);
  [[nodiscard]] bool empty() const { return rules_.empty(); }
  [[nodiscard]] std::string_view credential() const;  // as for log_text()
  // The status codes of its refusals.
  [[nodiscard]] std::vector<int> statuses() const;

  // Adds the query parameters of all values in the requirements.
  void add_to(QueryNames& query) const;

  // A refusal, or the query whose result is needed next. If both are empty, all requirements hold.
  struct Verdict {
    std::optional<http::Response> refusal;
    std::optional<std::size_t> wanted;
  };
  // `known`: the results of the queries so far, or empty.
  [[nodiscard]] Verdict judge(const http::Exchange& exchange, std::span<const std::optional<bool>> known) const;

  // Judges the request and runs the queries that it needs. Returns the refusal, or nullopt if all requirements hold.
  [[nodiscard]] core::Task<std::optional<http::Response>> ask(const http::Exchange& exchange, sql::Database& database,
                                                              const sql::QueryOptions& options,
                                                              const Failures& failures) const;
  // The same within a transaction. An error means that the transaction has failed; `refused` then gets the sources of
  // the failed query.
  [[nodiscard]] core::Task<sql::Result<std::optional<http::Response>>> ask(const http::Exchange& exchange,
                                                                           sql::Transaction& transaction,
                                                                           std::span<const Source>& refused) const;

 private:
  enum class Truth : std::uint8_t {
    no,
    yes,
    neither,  // the comparison and its negation both fail
    unknown,
  };
  struct Node {
    Requirement::Kind kind{};
    std::vector<Source> sources;  // of the operands; a literal is stored as a default
    std::vector<Node> parts;
    std::size_t query = 0;
  };
  struct Rule {
    std::unique_ptr<const Requirement> written;
    Node root;
    int status = 403;
    std::string detail;
    bool has_status = false;  // the configuration sets `status`
  };
  struct Case;

  [[nodiscard]] http::Response refuse(const Rule& rule, const http::Exchange& exchange) const;
  [[nodiscard]] bool depends_on_claims(const Node& node) const;

  static void add_to(QueryNames& query, const Node& node);
  [[nodiscard]] Node make(const Requirement& written, const RequireOptions& options, const http::Pattern& pattern,
                          std::span<const Source> declared, bool must_hold);

  std::vector<Rule> rules_;
  std::vector<Query> queries_;
};

}  // namespace sluice::api
