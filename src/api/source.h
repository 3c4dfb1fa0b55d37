#pragma once

#include <cstdint>
#include <expected>
#include <forward_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/body/row_reader.h"
#include "api/options.h"
#include "http/exchange.h"
#include "http/request.h"
#include "http/response.h"
#include "http/router.h"
#include "sql/column_kind.h"
#include "sql/compared.h"
#include "sql/database.h"
#include "sql/set/table.h"

namespace sluice::api {

struct AllowedValues;
struct PasswordRules;
class Passwords;

// The property of an uploaded file that a parameter takes.
enum class UploadField : std::uint8_t { hash, size, type, name };

// A file of the request that has been stored. A property that is nullopt is bound as NULL.
struct Upload {
  std::optional<std::string> hash;  // nullopt if the request has no such file
  std::optional<std::string> size;
  std::optional<std::string> type;  // media type from the client, without parameters
  std::optional<std::string> name;  // file name from the client, without folders
};

// The source of a statement parameter's value, and the rules for the value. Created at start, immutable.
struct Source {
  std::string name;  // the name of the statement's parameter
  From from = From::query;
  std::string key;  // name of the query parameter, header, cookie or claim; From::body: the path, "" for the whole body
  std::uint8_t path_index = 0;  // From::path
  std::size_t body_index = 0;   // From::body: index of the value in the body's row
  std::size_t upload_index =
      0;  // From::upload: index of the file; `key` is the name of its part, or "" for the whole body
  UploadField upload_field = UploadField::hash;  // From::upload
  std::string store;                             // From::upload with UploadField::hash: the store's name
  bool asks_presence = false;  // From::body, From::upload: the value is "true" if the field is present, else "false"
  bool required = false;
  bool trim = false;
  std::optional<std::string> default_text;             // From::environment: the value of the variable
  sql::ParameterType type = sql::ParameterType::text;  // a list holds all values of the query parameter
  bool checked = false;   // the configuration declares the type, so the value is checked before it goes to the database
  bool integral = false;  // the database's own type is an integer type
  sql::ColumnKind column = sql::ColumnKind::any;        // of the column that stores the value, if known
  sql::Compared::Use use = sql::Compared::Use::stored;  // how the statement uses that column
  bool takes_json_null = false;                         // the column holds JSON and is NOT NULL
  std::shared_ptr<const AllowedValues> allowed{};       // null if the configuration allows every value
  std::shared_ptr<const PasswordRules> password{};      // null if the value is bound as it is, not as a hash
  std::shared_ptr<const sql::Type> nested{};            // the database's type, if JSON is converted to its literals
  bool is_array = false;                                // write a list as PostgreSQL's array literal, not as JSON
};

// The name of the first source whose value is a credential: a password, or judging by the name of the parameter or its
// source. May be empty.
[[nodiscard]] std::string_view credential_of(std::span<const Source> sources);

// The result of parsing "path.slug" and the like. An error says what is wrong with the text, for the operator.
struct SourceName {
  From from{};
  std::string key;
  UploadField field = UploadField::hash;  // From::upload
};
[[nodiscard]] std::expected<SourceName, std::string> parse_source(std::string_view text);

// The source of a parameter, according to [endpoint.params] and the path. A parameter without a declared source is a
// field of the body if `in_body`, else of the query string.
[[nodiscard]] Source source_of(const sql::Parameter& parameter, std::span<const Named<ParamOptions>> params,
                               const http::Pattern& pattern, bool in_body);

// The source of a column's value. By default it is the body's field of the same name.
[[nodiscard]] Source column_source(const Named<ColumnOptions>& column, const http::Pattern& pattern);

// All sources that the configuration declares for one method; null means GET. Requirements read these values in the
// same way.
[[nodiscard]] std::vector<Source> declared_sources(const EndpointOptions& endpoint, const MethodOptions* method,
                                                   const http::Pattern& pattern, bool in_body);

// Sets what follows from PostgreSQL's type of the statement's parameter with this index.
void take_type(Source& source, const sql::Statement& statement, std::size_t parameter);
// Sets what follows from the column that stores the value.
void take_column(const sql::TableColumn& column, Source& source);

// The types declared for parameters, for Database::prepare(): `{name:int}` in the path and [endpoint.params].
[[nodiscard]] std::vector<sql::Parameter> declared_parameters(const EndpointOptions& options,
                                                              const http::Pattern& pattern);

// Rewrites a JSON number with an integral value (1.0, 1e3) in plain digits. Returns nullopt if it is not a 64-bit
// integer, or if it already has plain digits.
[[nodiscard]] std::optional<std::string> integer_of(std::string_view number);

// The canonical text of a value, which may have several notations: 7 for 007, 1.5 for 15e-1, true for t. Returns
// nullopt if the text is not a value of the type.
[[nodiscard]] std::optional<std::string> canonical(sql::ParameterType type, std::string_view text);

struct ValueFault {
  const Source* source = nullptr;
  std::string reason;  // "must be an integer"
};

// The text without blanks at both ends, which the option `trim` removes.
[[nodiscard]] std::string_view trimmed(std::string_view text);

// The arguments of one statement, from a request and, if sources name the body, from one of its rows. The views point
// into the request, the row and the scratch memory.
class Binder {
 public:
  // Appends to `into`, in the order of the sources.
  [[nodiscard]] std::expected<void, ValueFault> bind(std::span<const Source> sources, const http::Exchange& exchange,
                                                     std::span<const Value> row, std::vector<sql::Argument>& into);
  // Sets the request's files for sources that name them. The files must outlive the arguments.
  void take(std::span<const Upload> uploads) { uploads_ = uploads; }
  // Sets the request's passwords, which must outlive the arguments. A password without a hash is bound as NULL.
  void take(Passwords& passwords) { passwords_ = &passwords; }

 private:
  std::span<const Upload> uploads_;
  Passwords* passwords_ = nullptr;            // null: all passwords are bound as NULL
  std::string scratch_;                       // decoded query parameters
  std::forward_list<std::string> rewritten_;  // integers, arrays, objects and lists in the database's notation
};

// A field of the body that repeats a value of the path, as GET's answer does. The two must be equal.
struct Echo {
  std::size_t body_index = 0;
  std::uint8_t path_index = 0;
};
// Returns the index in `row` of the first value that differs from the path's value that it repeats (see Echo). Returns
// nullopt if all are equal.
[[nodiscard]] std::optional<std::size_t> differing_echo(std::span<const Echo> echoes, const http::Request& request,
                                                        std::span<const Value> row);
inline constexpr std::string_view differing_echo_reason = "is not what the path says";

// The index in Shape::names of the only body value for these columns; SIZE_MAX if it is not exactly one.
[[nodiscard]] std::size_t field_of(std::span<const std::string> columns, std::span<const Source> sources);

// "The parameter \"id\" must be an integer."
[[nodiscard]] http::Response refuse_value(const ValueFault& fault);

}  // namespace sluice::api
