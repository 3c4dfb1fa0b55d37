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
#include "http/request.h"
#include "http/response.h"
#include "http/router.h"
#include "sql/column_kind.h"
#include "sql/database.h"
#include "sql/set/table.h"

namespace sluice::api {

// What of a file that was sent with the request.
enum class UploadField : std::uint8_t { hash, size, type, name };

// A file that has come with a request and is in its store; texts without a value are NULL.
struct Upload {
  std::optional<std::string> hash;  // nothing: it has not come
  std::optional<std::string> size;
  std::optional<std::string> type;  // its media type, as the client calls it, without parameters
  std::optional<std::string> name;  // as the client calls it, without its folders
};

// Where the value of a statement's parameter comes from, and what it must be. Made at start, immutable.
struct Source {
  std::string name;  // of the statement's parameter
  From from = From::query;
  std::string key;  // of the query parameter, header, cookie or claim; of the body: its path, "" is all of it
  std::uint8_t path_index = 0;  // From::path
  std::size_t body_index = 0;   // From::body: which of the body's values
  std::size_t upload_index =
      0;  // From::upload: which of the files; `key` is the part that it comes in, "" is all of it
  UploadField upload_field = UploadField::hash;  // likewise
  std::string store;                             // likewise, of the hash
  bool asks_presence = false;  // From::body, From::upload: the value is whether it has come: "true" or "false"
  bool required = false;
  bool trim = false;
  std::optional<std::string> default_text;             // From::environment: the variable's value
  sql::ParameterType type = sql::ParameterType::text;  // a list: all values of the query parameter
  bool checked = false;   // the configuration says the type, so a value is checked before the database sees it
  bool integral = false;  // the database's own type is one of integers
  sql::ColumnKind column = sql::ColumnKind::any;  // of the column that stores the value, as far as it is known
  bool takes_json_null = false;                   // its column holds JSON, and no NULL
  std::shared_ptr<const sql::Type> nested{};      // of the database's type, where JSON becomes its literals
  bool is_array = false;                          // a list is written as PostgreSQL's literal, else as JSON
};

// The name of the first source whose value is a credential, by the name of the parameter or of where it comes from;
// empty: none is.
[[nodiscard]] std::string_view credential_of(std::span<const Source> sources);

// "path.slug" and the like; an error is what is wrong with it, for the configuration's reader.
struct SourceName {
  From from{};
  std::string key;
  UploadField field = UploadField::hash;  // From::upload
};
[[nodiscard]] std::expected<SourceName, std::string> parse_source(std::string_view text);

// The source of a parameter `name`, as [endpoint.params] and the path say. `in_body`: where nothing else is said, it is
// a field of the body, not of the query string.
[[nodiscard]] Source source_of(const sql::Parameter& parameter, std::span<const Named<ParamOptions>> params,
                               const http::Pattern& pattern, bool in_body);

// The source of a column's value: the body's field of its name, if nothing else is said.
[[nodiscard]] Source column_source(const Named<ColumnOptions>& column, const http::Pattern& pattern);

// All that the configuration says of values for one method, null: GET. What the request is asked for by another way,
// such as what is required of it, is to be read as they are.
[[nodiscard]] std::vector<Source> declared_sources(const EndpointOptions& endpoint, const MethodOptions* method,
                                                   const http::Pattern& pattern, bool in_body);

// What PostgreSQL takes the statement's parameter of this index for.
void take_type(Source& source, const sql::Statement& statement, std::size_t parameter);
// What is known of the column that stores the source's value.
void take_column(const sql::TableColumn& column, Source& source);

// What the configuration says of parameters, for Database::prepare(): `{name:int}` in the path, [endpoint.params].
[[nodiscard]] std::vector<sql::Parameter> declared_parameters(const EndpointOptions& options,
                                                              const http::Pattern& pattern);

// A JSON number that is an integer, however it is written (1.0, 1e3), as one that everybody reads as such. Nothing: it
// is none of 64 bits, or is written as one already.
[[nodiscard]] std::optional<std::string> integer_of(std::string_view number);

// The one way in which a value of the type is written, of all that it takes: 7 for 007, 1.5 for 15e-1, true for t.
// Nothing: the text is no value of the type.
[[nodiscard]] std::optional<std::string> canonical(sql::ParameterType type, std::string_view text);

// What is wrong with a value.
struct ValueFault {
  const Source* source = nullptr;
  std::string reason;  // "must be an integer"
};

// Without the blanks that `trim` takes off.
[[nodiscard]] std::string_view trimmed(std::string_view text);

// The arguments of one statement, from one request and, where sources name the body, one of its rows. Views are into
// the request, the row and the scratch.
class Binder {
 public:
  // Appends to `into`, in the order of the sources.
  [[nodiscard]] std::expected<void, ValueFault> bind(std::span<const Source> sources, const http::Request& request,
                                                     std::span<const Value> row, std::vector<sql::Argument>& into);
  // The request's files, where sources name them; they outlive the arguments.
  void take(std::span<const Upload> uploads) { uploads_ = uploads; }

 private:
  std::span<const Upload> uploads_;
  std::string scratch_;                       // decoded query parameters
  std::forward_list<std::string> rewritten_;  // integers, arrays, objects and lists, as the database reads them
};

// A field of the body that says again what the path says, as GET's answer does: it must be the same.
struct Echo {
  std::size_t body_index = 0;
  std::uint8_t path_index = 0;
};
// The first of them that differs: its place among the body's values.
[[nodiscard]] std::optional<std::size_t> differing_echo(std::span<const Echo> echoes, const http::Request& request,
                                                        std::span<const Value> row);
inline constexpr std::string_view differing_echo_reason = "is not what the path says";

// Which of the body's values columns are about: its place in Shape::names, or SIZE_MAX where it is not one alone.
[[nodiscard]] std::size_t field_of(std::span<const std::string> columns, std::span<const Source> sources);

// "The parameter \"id\" must be an integer."
[[nodiscard]] http::Response refuse_value(const ValueFault& fault);

}  // namespace sluice::api
