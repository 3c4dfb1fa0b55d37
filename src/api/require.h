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
#include "http/request.h"
#include "http/response.h"
#include "http/router.h"
#include "sql/database.h"
#include "sql/parameters.h"
#include "sql/transaction.h"

// `require`: what must hold before an endpoint does anything.
//
//   expression = eq(value, value) | ne(value, value) | in(value, value ...) | contains(claim, value) | present(value)
//              | and(expression ...) | or(expression ...) | not(expression) | exists(SQL)
//   value      = a source as in `from`, but of the body | 'text', where '' is a quote | a number | true | false
namespace sluice::api {

struct Operand {
  std::optional<SourceName> source;  // nothing: a literal
  std::string text;                  // as it is written; a literal's characters
  std::size_t offset = 0;            // where it stands in the expression, in bytes
};

struct Requirement {
  enum class Kind : std::uint8_t { eq, ne, in, contains, present, all, any, negation, exists };
  Kind kind{};
  std::vector<Operand> operands;
  std::vector<Requirement> parts;
  std::string sql;  // exists: with `claim.x` written as parameters of the same length
  std::vector<std::pair<std::string, std::string>> claims;  // exists: parameters, and the claims that they stand for
  std::size_t offset = 0;                                   // where it, or exists' SQL, begins, in bytes
};

struct RequirementFault {
  std::size_t offset = 0;  // in bytes
  std::string message;
};

inline constexpr std::size_t deepest_requirement = 32;

[[nodiscard]] std::expected<Requirement, RequirementFault> parse_requirement(std::string_view text);

// What exists(SQL) is prepared as, and by how many characters that puts the SQL off.
[[nodiscard]] std::string exists_statement(std::string_view sql);
inline constexpr std::uint32_t exists_statement_offset = 15;

// The requirements of one method, made ready. Immutable, shared by all cores.
class Guards {
 public:
  // Appends what `options` says, and the queries of its exists() to `queries`: they are prepared in that order. Values
  // that `declared` has too are read as it says. Precondition: it parses.
  void add(const RequireOptions& options, const http::Pattern& pattern, std::span<const Source> declared = {});
  struct Query {
    const Requirement* written = nullptr;
    const RequireOptions* options = nullptr;  // until prepare() is done
    sql::Statement statement;
    std::vector<Source> sources;
    bool must_hold = false;  // there is nothing but and() around it
  };
  [[nodiscard]] std::vector<Query>& queries() { return queries_; }
  [[nodiscard]] const std::vector<Query>& queries() const { return queries_; }
  void prepared(std::size_t query, sql::Statement statement, const EndpointOptions& endpoint,
                const http::Pattern& pattern);
  [[nodiscard]] bool empty() const { return rules_.empty(); }
  [[nodiscard]] std::string_view credential() const;  // as for log_text()
  // What it may answer.
  [[nodiscard]] std::vector<int> statuses() const;

  // Of all values that it compares or asks with.
  void add_to(QueryNames& query) const;

  // How far it can be told: whether all hold, what refuses the request, or which query must be asked first.
  struct Verdict {
    std::optional<http::Response> refusal;
    std::optional<std::size_t> wanted;
  };
  // `known`: what queries have answered so far, or empty.
  [[nodiscard]] Verdict judge(const http::Request& request, std::span<const std::optional<bool>> known) const;

  // With the queries that it takes: an answer is a refusal, nothing is leave to go on.
  [[nodiscard]] core::Task<std::optional<http::Response>> ask(const http::Request& request, sql::Database& database,
                                                              const sql::QueryOptions& options,
                                                              const Failures& failures) const;
  // Within a transaction; an error is the transaction's end. Then `refused` gets the sources of the query that failed.
  [[nodiscard]] core::Task<sql::Result<std::optional<http::Response>>> ask(const http::Request& request,
                                                                           sql::Transaction& transaction,
                                                                           std::span<const Source>& refused) const;

 private:
  enum class Truth : std::uint8_t {
    no,
    yes,
    neither,  // a comparison that fails, and so does its contrary
    unknown,
  };
  struct Node {
    Requirement::Kind kind{};
    std::vector<Source> sources;  // of the operands; a literal is a default
    std::vector<Node> parts;
    std::size_t query = 0;
  };
  struct Rule {
    std::unique_ptr<const Requirement> written;
    Node root;
    int status = 403;
    std::string detail;
  };
  struct Case;

  static void add_to(QueryNames& query, const Node& node);
  [[nodiscard]] Node make(const Requirement& written, const RequireOptions& options, const http::Pattern& pattern,
                          std::span<const Source> declared, bool must_hold);

  std::vector<Rule> rules_;
  std::vector<Query> queries_;
};

}  // namespace sluice::api
