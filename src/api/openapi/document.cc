#include "api/openapi/document.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "api/list/plan.h"
#include "api/openapi/json.h"
#include "api/openapi/list.h"
#include "api/openapi/resident.h"
#include "api/openapi/schema.h"
#include "api/schema/rules.h"
#include "base/ascii.h"
#include "http/request.h"
#include "http/response.h"

namespace sluice::api::openapi {
namespace {

using http::Method;
using Object = Json::Object;
using Array = Json::Array;
using Null = Schema::Null;

constexpr std::pair<sql::Format, std::string_view> row_types[] = {{sql::Format::csv, "text/csv"},
                                                                  {sql::Format::ndjson, "application/x-ndjson"},
                                                                  {sql::Format::csj, "application/csj"}};

bool is_letter_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

// "films by slug" -> "FilmsBySlug", without characters that names may not contain.
std::string capitalized(std::string_view text) {
  std::string result;
  bool begins = true;
  for (const char c : text) {
    if (!is_letter_or_digit(c)) {
      begins = true;
      continue;
    }
    result += begins && c >= 'a' && c <= 'z' ? static_cast<char>(c - 0x20) : c;
    begins = false;
  }
  return result;
}

std::string lower_name(Method method) { return to_lower(http::name_of(method)); }

Json reference(std::string_view kind, std::string_view name) {
  return {{"$ref", "#/components/" + std::string(kind) + "/" + std::string(name)}};
}
Json of_type(std::string_view type) { return {{"type", type}}; }
Json count() { return {{"type", "integer"}, {"minimum", 0}}; }
Json list_of(Json items) { return {{"type", "array"}, {"items", std::move(items)}}; }

Object object_of(Object properties, Array required) {
  Object schema = {{"type", "object"}, {"properties", std::move(properties)}};
  if (!required.empty()) schema.emplace_back("required", std::move(required));
  return schema;
}
Object closed_object(Object properties, Array required) {
  Object schema = object_of(std::move(properties), std::move(required));
  schema.emplace_back("additionalProperties", false);
  return schema;
}

Json::Member content(std::string_view media_type, Json schema) {
  return {std::string(media_type), {{"schema", std::move(schema)}}};
}

// Names of components consist of letters, digits, dots, hyphens and underscores.
std::string component_name(std::string_view text) {
  std::string name(text);
  for (char& c : name) {
    if (!is_letter_or_digit(c) && c != '.' && c != '-') c = '_';
  }
  return name;
}

std::string_view meaning_of(int status) {
  switch (status) {
    case 400:
      return "The request cannot be understood, or one of its values is not what it must be.";
    case 401:
      return "There is no valid token.";
    case 403:
      return "This is not permitted.";
    case 404:
      return "Nothing matches the path.";
    case 406:
      return "The answer is in none of the formats that Accept names.";
    case 408:
      return "The body did not come in time.";
    case 409:
      return "It collides with what is there, or with what somebody else is changing.";
    case 412:
      return "The state of the resource does not meet If-Match or If-None-Match.";
    case 416:
      return "The file has no such bytes.";
    case 413:
      return "The body is longer than the server takes.";
    case 414:
      return "The target is longer than the server takes.";
    case 415:
      return "The body is in none of the formats that are taken.";
    case 422:
      return "The body has values that cannot be taken; nothing has been written.";
    case 426:
      return "This is not the handshake of a WebSocket.";
    case 428:
      return "The request must say with If-Match which state is to be changed.";
    case 431:
      return "The header is longer than the server takes.";
    case 507:
      return "There is no room for the file.";
    case 503:
      return "The server or its database cannot answer now, or only with what is too old.";
    case 504:
      return "The statement took too long.";
    default:
      return status < 500 ? "The request is refused." : "The server has failed.";
  }
}

// The names of a body's fields as a tree: "a.b" is in "a".
struct Fields {
  std::optional<Schema> leaf;
  Null null = Null::possible;
  bool required = false;
  std::map<std::string, Fields> below;
  std::vector<std::string> order;

  void add(std::string_view name, Schema schema, Null can_be_null, bool is_required) {
    const auto dot = name.find('.');
    const std::string first(name.substr(0, dot));
    if (!below.contains(first)) order.push_back(first);
    Fields& field = below[first];
    field.required |= is_required;
    if (dot != name.npos) return field.add(name.substr(dot + 1), std::move(schema), can_be_null, is_required);
    if (!field.leaf || field.leaf->type.empty()) field.leaf = std::move(schema);
    if (can_be_null == Null::never) field.null = Null::never;
  }
  // Adds those of `names` that are missing. A body may contain them, but they are not written.
  void add_unwritten(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      if (!name.empty() && !below.contains(name.substr(0, name.find('.')))) {
        add(name, {.members = {{"readOnly", true}}}, Null::possible, false);
      }
    }
  }
  // `nulls`: whether the format has null; a form omits the field instead.
  [[nodiscard]] Json schema(Null nulls) const {
    if (leaf) return leaf->json(nulls == Null::never ? Null::never : null);
    Object properties;
    Array needed;
    add_to(properties, needed, nulls);
    return closed_object(std::move(properties), std::move(needed));
  }
  void add_to(Object& properties, Array& needed, Null nulls) const {
    for (const std::string& name : order) {
      properties.emplace_back(name, below.at(name).schema(nulls));
      if (below.at(name).required) needed.emplace_back(name);
    }
  }
};

class Maker {
 public:
  explicit Maker(const Options& options) : options_(options) {}

  void add(const Resource& resource) {
    const auto place = place_of(*resource.pattern, resource.options->path.value);
    if (!place) return;
    const auto& [path, words, tag] = *place;

    Object item;
    if (Array parameters = path_parameters(resource); !parameters.empty()) {
      item.emplace_back("parameters", std::move(parameters));
    }
    Object changes_item = item;
    bool answers = false;
    const auto operation = [&](Method method, const Object& about) {
      answers = true;
      add_operation(item, *place, words, method, resource.security_of(method), about,
                    words_for(*resource.options, method));
    };
    if (resource.get != nullptr) {
      names_ = capitalized("get" + words);
      operation(Method::get, reading(resource));
    }
    for (const auto& write : resource.writes) {
      names_ = capitalized(lower_name(write->method) + words);
      operation(write->method, writing(resource, *write));
    }
    for (const auto& set : resource.sets) {
      names_ = capitalized(lower_name(set->method) + words);
      operation(set->method, set_writing(resource, *set));
    }
    if (answers) paths_.emplace_back(path, std::move(item));
    if (resource.changes == nullptr) return;
    add_operation(changes_item, *place, words + " changes", Method::get, resource.security_of(Method::get),
                  changes(resource));
    paths_.emplace_back(path + (path.ends_with('/') ? "changes" : "/changes"), std::move(changes_item));
  }

  void add(const ResidentResource& resource) {
    const auto add_path = [&](const http::Pattern& pattern, const std::string& called, Object item, Shown shown) {
      const auto place = place_of(pattern, called);
      if (!place) return;
      names_ = capitalized("get" + place->words);
      add_operation(item, *place, place->words, Method::get, resource.security, from_memory(resource, shown));
      paths_.emplace_back(place->path, std::move(item));
    };
    const std::string path = "/" + resource.plan->name;
    add_path(resource.pattern, path, {}, Shown::rows);
    if (!resource.key_pattern) return;
    const Json key = {{"name", resource.key_pattern->segments.back().text},
                      {"in", "path"},
                      {"description", "The value of `" + resource.plan->shape.key + "`."},
                      {"required", true},
                      {"schema", resident_key_schema(*resource.plan)}};
    add_path(*resource.key_pattern, path + "/{key}", {{"parameters", Array{key}}}, Shown::object);
  }

  void add(const WebSocketResource& resource) {
    const auto place = place_of(resource.pattern, "the WebSockets of \"" + resource.service + '"');
    if (!place) return;
    Array parameters;
    for (const auto& name : resource.pattern.names()) {
      parameters.push_back({{"name", name}, {"in", "path"}, {"required", true}, {"schema", of_type("string")}});
    }
    Object item;
    if (!parameters.empty()) item.emplace_back("parameters", std::move(parameters));
    Object responses = {{"101", answer("The connection is a WebSocket from here on.")}};
    add_problems(responses, resource.security, {400, 403, 426, 503});
    add_operation(item, *place, place->words, Method::get, resource.security, {{"responses", std::move(responses)}},
                  {.summary = "A WebSocket of the service " + resource.service});
    paths_.emplace_back(place->path, std::move(item));
  }

  void add(const BatchResource& batch) {
    const Json headers = {{"type", "object"}, {"additionalProperties", of_type("string")}};
    const Json id = {{"type", "string"}, {"pattern", "^[A-Za-z0-9_-]*[A-Za-z_-][A-Za-z0-9_-]*$"}, {"maxLength", 64}};
    schemas_.emplace_back("Call", closed_object({{"method", {{"enum", Array{"GET", "POST", "PUT", "PATCH", "DELETE"}}}},
                                                 {"path", {{"type", "string"}, {"pattern", "^/"}}},
                                                 {"id", id},
                                                 {"headers", headers},
                                                 {"body", Object()}},
                                                {"method", "path"}));
    schemas_.emplace_back(
        "CallAnswer",
        object_of({{"status", of_type("integer")}, {"headers", headers}, {"body", Object()}}, {"status", "headers"}));
    schema_names_.insert({"Call", "CallAnswer"});
    Object responses = {
        {"200", answer("The answers of the calls, in their order.",
                       {content("application/json", list_of(reference("schemas", "CallAnswer")))})},
        // A call that is refused gives the batch its own status.
        {"default", answer("A call was refused, and nothing of the batch has been done.", {problem_content()})}};
    add_problems(responses, {}, {400, 413, 415, 422, 503});
    Object post = {{"operationId", operation_id(Method::post, " batch")}};
    add_tag("batch");
    post.emplace_back("tags", Array{"batch"});
    add_security(batch.security, post);
    post.emplace_back("description",
                      "Several calls in one transaction. `${id.a.0}` in a path or in a string of a body stands for a "
                      "value of an earlier call's answer.");
    const Json calls = {{"type", "array"}, {"items", reference("schemas", "Call")}, {"maxItems", batch.calls}};
    post.emplace_back("requestBody", body({content("application/json", calls)}));
    post.emplace_back("responses", std::move(responses));
    paths_.push_back({batch.path, {{"post", std::move(post)}}});
  }

  [[nodiscard]] Document make() {
    Object info = {{"title", options_.title.value}, {"version", options_.version.value}};
    if (!options_.description.value.empty()) info.emplace_back("description", options_.description.value);
    Array servers;
    for (const auto& url : options_.servers) servers.push_back({{"url", url.value}});
    if (servers.empty()) servers.push_back({{"url", "/"}});
    Object responses;
    for (const int status : statuses_) responses.emplace_back(std::to_string(status), problem(status));
    if (!statuses_.empty()) schemas_.emplace_back("Problem", problem_schema());
    Object components = {{"schemas", std::move(schemas_)}, {"responses", std::move(responses)}};
    if (!schemes_.empty()) components.emplace_back("securitySchemes", std::move(schemes_));
    Object document = {{"openapi", "3.1.0"}, {"info", std::move(info)}, {"servers", std::move(servers)}};
    if (!tag_list_.empty()) document.emplace_back("tags", std::move(tag_list_));
    document.emplace_back("paths", std::move(paths_));
    document.emplace_back("components", std::move(components));
    return {.text = Json(std::move(document)).text(), .warnings = std::move(warnings_)};
  }

 private:
  struct Place {
    std::string path;
    std::string words;  // " films by slug"
    std::string tag;
  };

  // Returns nullopt if the document cannot describe the path. `called`: its name in warnings for the operator.
  std::optional<Place> place_of(const http::Pattern& pattern, const std::string& called) {
    Place place;
    std::string shape;
    for (const auto& segment : pattern.segments) {
      const bool literal = segment.kind == http::Pattern::Kind::literal;
      place.path += literal ? "/" + segment.text : "/{" + segment.text + "}";
      shape += literal ? "/" + segment.text : "/{}";
      place.words += (literal ? " " : " by ") + segment.text;
      if (literal && place.tag.empty()) place.tag = segment.text;
    }
    if (place.path.empty()) place.path = shape = "/";
    if (!shapes_.emplace(shape, place.path).second) {
      warnings_.push_back("the OpenAPI document leaves out " + called + ": OpenAPI cannot tell its path from " +
                          shapes_[shape]);
      return std::nullopt;
    }
    if (place.tag.empty()) place.tag = "root";
    add_tag(place.tag);
    return place;
  }

  void add_tag(const std::string& name) {
    if (tags_.insert(name).second) tag_list_.push_back({{"name", name}});
  }

  struct Words {
    std::string_view summary, description;
  };
  static Words words_for(const EndpointOptions& endpoint, Method method) {
    Words meaning{endpoint.summary, endpoint.description};
    for (const auto& [its_method, writing] : endpoint.writing_methods()) {
      if (its_method != method) continue;
      if (!writing->summary.empty()) meaning.summary = writing->summary;
      if (!writing->description.empty()) meaning.description = writing->description;
    }
    return meaning;
  }

  void add_operation(Object& into, const Place& place, const std::string& words, Method method,
                     std::span<const Security> security, const Object& about, const Words& meaning = {}) {
    Object whole;
    if (!meaning.summary.empty()) whole.emplace_back("summary", meaning.summary);
    if (!meaning.description.empty()) whole.emplace_back("description", meaning.description);
    whole.emplace_back("operationId", operation_id(method, words));
    whole.emplace_back("tags", Array{place.tag});
    add_security(security, whole);
    whole.insert(whole.end(), about.begin(), about.end());
    into.emplace_back(lower_name(method), std::move(whole));
  }

  std::string operation_id(Method method, const std::string& words) {
    const std::string base = lower_name(method) + capitalized(words);
    std::string id = base;
    for (int n = 2; !ids_.insert(id).second; ++n) id = base + std::to_string(n);
    return id;
  }

  // An unused name in components.schemas.
  std::string schema_name(std::string_view what) {
    const std::string base = names_ + std::string(what);
    std::string name = base;
    for (int n = 2; !schema_names_.insert(name).second; ++n) name = base + std::to_string(n);
    return name;
  }

  static Object scheme_of(const Security& security) {
    switch (security.scheme) {
      case Security::Scheme::bearer:
        break;
      case Security::Scheme::basic:
        return {{"type", "http"}, {"scheme", "basic"}};
      case Security::Scheme::header:
        return {{"type", "apiKey"}, {"in", "header"}, {"name", security.name}};
      case Security::Scheme::query:
        return {{"type", "apiKey"}, {"in", "query"}, {"name", security.name}};
      case Security::Scheme::cookie:
        return {{"type", "apiKey"}, {"in", "cookie"}, {"name", security.name}};
    }
    return {{"type", "http"}, {"scheme", "bearer"}, {"bearerFormat", "JWT"}};
  }

  void add_security(std::span<const Security> security, Object& into) {
    if (security.empty()) return;
    Object all;
    bool optional = true;
    for (const Security& one : security) {
      const std::string name = component_name(one.policy);
      all.emplace_back(name, Array());
      optional &= one.optional;
      if (scheme_names_.insert(name).second) {
        schemes_.push_back({name, scheme_of(one)});
      }
    }
    Array either;
    if (optional) either.emplace_back(Object());
    either.emplace_back(std::move(all));
    into.emplace_back("security", std::move(either));
  }

  // A value's type comes from the configuration, the table's column, PostgreSQL, or the compared SQLite column.
  static Schema schema_of_value(const Source& source, const sql::Table* table, std::uint32_t oid,
                                std::span<const sql::EnumType> enums) {
    if (source.password) return schema_of(*source.password);
    const auto* column = table != nullptr ? table->find(source.name) : nullptr;
    const bool of_server = column != nullptr && column->kind <= sql::ColumnKind::server_json;
    const auto labelled = std::ranges::find_if(
        enums, [&](const sql::EnumType& one) { return column != nullptr ? column->type == one.name : oid == one.oid; });
    const AllowedValues* const allowed = source.allowed.get();
    Schema schema = source.checked            ? schema_of(source.type, allowed)
                    : labelled != enums.end() ? schema_of(*labelled)
                    : column != nullptr
                        ? schema_of_type_name(column->type, of_server ? sql::Dialect::postgres : sql::Dialect::sqlite)
                    : oid != 0 ? schema_of_oid(oid)
                               : schema_of(source.column);
    if (!source.checked) schema = limited(std::move(schema), allowed);
    // A value that consists of blanks counts as missing.
    if (source.required && source.trim && schema.type == "string" && schema.format.empty()) {
      schema.members.emplace_back("pattern", R"([^ \t\r\n])");
    }
    return schema;
  }

  Array path_parameters(const Resource& resource) {
    Array all;
    for (const auto& segment : resource.pattern->segments) {
      if (segment.kind == http::Pattern::Kind::literal) continue;
      Object parameter = {{"name", segment.text}, {"in", "path"}, {"required", true}};
      const auto declared =
          std::ranges::find(resource.options->params, segment.text, [](const auto& one) { return one.name.value; });
      auto type = sql::ParameterType::text;
      std::shared_ptr<const AllowedValues> allowed;
      if (declared != resource.options->params.end()) {
        if (declared->value.type) type = declared->value.type->value;
        allowed = allowed_values(declared->value);
      }
      if (segment.kind == http::Pattern::Kind::integer) type = sql::ParameterType::integer;
      Schema schema = schema_of(type, allowed.get());
      if (segment.kind == http::Pattern::Kind::rest) {
        parameter.emplace_back("description", "All that follows, slashes included.");
      } else if (schema.type == "string") {
        schema.members.emplace_back("minLength", 1);
      }
      parameter.emplace_back("schema", schema.json(Null::never));
      all.emplace_back(std::move(parameter));
    }
    return all;
  }

  // Query, header and cookie parameters. Sources of other kinds are skipped.
  class Parameters {
   public:
    void add(const Source& source, const Schema& schema) {
      std::string_view in;
      switch (source.from) {
        case From::query:
          in = "query";
          break;
        case From::header:
          in = "header";
          break;
        case From::cookie:
          in = "cookie";
          break;
        default:
          return;
      }
      // OpenAPI 3.1 ignores parameters with these names. Other parts of the document describe them.
      if (in == "header" && (http::same_name(source.key, "accept") || http::same_name(source.key, "content-type") ||
                             http::same_name(source.key, "authorization"))) {
        return;
      }
      if (!seen_.emplace(in, source.key).second) return;
      Object parameter = {{"name", source.key}, {"in", in}};
      if (source.required) parameter.emplace_back("required", true);
      if (sql::is_list(source.type)) {
        parameter.emplace_back("style", "form");
        parameter.emplace_back("explode", true);
      }
      Object value = schema.json(Null::never);
      if (source.default_text) {
        if (auto given = default_json(schema, *source.default_text)) value.emplace_back("default", std::move(*given));
      }
      parameter.emplace_back("schema", value.empty() ? of_type("string") : std::move(value));
      list.emplace_back(std::move(parameter));
    }
    // Adds the remaining known query parameters, such as those of requirements.
    void add_known(const QueryNames& query) {
      for (const std::string_view name : query.all()) {
        if (!seen_.emplace("query", name).second) continue;
        list.push_back({{"name", name}, {"in", "query"}, {"schema", of_type("string")}});
      }
    }
    void add_dry_run() {
      seen_.emplace("query", "dry-run");
      list.push_back({{"name", "dry-run"},
                      {"in", "query"},
                      {"description", "Says what would change, and changes nothing."},
                      {"schema", {{"type", "boolean"}, {"default", false}}}});
    }
    void add_max_deleted() {
      seen_.emplace("query", "max-deleted");
      list.push_back({{"name", "max-deleted"},
                      {"in", "query"},
                      {"description",
                       "How many rows the request may delete, in place of what is configured: 409 where "
                       "it would delete more."},
                      {"schema", count()}});
    }

    Array list;

   private:
    std::set<std::pair<std::string, std::string>> seen_;
  };

  // Adds `own`, and the statuses that every operation can return.
  void add_problems(Object& responses, const Resource& resource, Method method, std::set<int> own, const auto& plan) {
    own.insert({400, 403, 414, 431, 500, 503, 504});
    if (plan.guards) {
      for (const int status : plan.guards->statuses()) own.insert(status);
    }
    if (plan.errors) {
      for (const int status : plan.errors->statuses()) own.insert(status);
    }
    if (!resource.pattern->names().empty()) own.insert(404);
    add_problems(responses, resource.security_of(method), std::move(own));
  }
  void add_problems(Object& responses, std::span<const Security> security, std::set<int> own) {
    if (!security.empty()) own.insert(401);
    for (const int status : own) {
      statuses_.insert(status);
      responses.emplace_back(std::to_string(status), reference("responses", std::to_string(status)));
    }
  }

  // Whether a row has all members or only those that the request selects.
  enum class Members : std::uint8_t { all, chosen };

  // The schema of a column in an answer. `facts`: of the column; null if unknown.
  static Schema schema_of_answer(const sql::Column& column, const sql::ColumnFacts* facts,
                                 std::span<const sql::EnumType> enums) {
    for (const sql::EnumType& one : enums) {
      if (column.type_id == one.oid) return schema_of(one);
      if (column.type_id == one.array) return array_of(schema_of(one));
    }
    return facts != nullptr ? with_length(schema_of(column), facts->type) : schema_of(column);
  }

  // `facts`: by column; empty if unknown.
  Json row_schema(std::span<const sql::Column> columns, std::span<const sql::ColumnFacts> facts,
                  std::span<const sql::EnumType> enums, Members members = Members::all) {
    Object properties;
    Array names;
    std::set<std::string_view> seen;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const sql::Column& column = columns[i];
      if (!seen.insert(column.name).second) continue;
      const sql::ColumnFacts* const its = i < facts.size() ? &facts[i] : nullptr;
      const Null null = its != nullptr && its->never_null ? Null::never : Null::possible;
      properties.emplace_back(column.name, schema_of_answer(column, its, enums).json(null));
      names.emplace_back(column.name);
    }
    Object object = {{"type", "object"}, {"properties", std::move(properties)}};
    if (members == Members::all) {
      object.emplace_back("required", std::move(names));
    } else {
      object.emplace_back("additionalProperties", false);
      object.emplace_back("minProperties", 1);
    }
    const Json schema = std::move(object);
    // Statements of several methods often return the same rows.
    auto& name = rows_[schema.text()];
    if (name.empty()) {
      name = schema_name("Row");
      schemas_.emplace_back(name, schema);
    }
    return reference("schemas", name);
  }

  static std::span<const sql::ColumnFacts> facts_of(const Resource& resource, Method method) {
    for (const auto& [its_method, columns] : resource.facts) {
      if (its_method == method) return columns;
    }
    return {};
  }

  enum class Shown : std::uint8_t { object, rows };

  // The content of an answer with rows, in every available format.
  static Object row_content(const Json& row, Shown shown, sql::FormatSet formats) {
    Object all;
    if (formats.has(sql::Format::json))
      all = {content("application/json", shown == Shown::object ? row : list_of(row))};
    add_texts(all, formats);
    return all;
  }
  static void add_texts(Object& all, sql::FormatSet formats) {
    for (const auto& [format, type] : row_types) {
      if (formats.has(format)) all.push_back(content(type, of_type("string")));
    }
  }

  static Json answer(std::string_view meaning, Object content = {}, Object headers = {}) {
    Object response = {{"description", meaning}};
    if (!headers.empty()) response.emplace_back("headers", std::move(headers));
    if (!content.empty()) response.emplace_back("content", std::move(content));
    return response;
  }

  static Json body(Object content) { return {{"required", true}, {"content", std::move(content)}}; }

  static Json header(std::string_view meaning, Json schema) {
    return {{"description", meaning}, {"schema", std::move(schema)}};
  }
  static Object entity_tag() {
    return {{"ETag", header("Of the state, for If-Match and If-None-Match.", of_type("string"))}};
  }

  static void add_condition(Parameters& parameters, std::string_view name, std::string_view meaning, bool required) {
    Object parameter = {{"name", name}, {"in", "header"}, {"description", meaning}};
    if (required) parameter.emplace_back("required", true);
    parameter.emplace_back("schema", of_type("string"));
    parameters.list.emplace_back(std::move(parameter));
  }

  static void add_reading_conditions(Parameters& parameters) {
    add_condition(parameters, "If-None-Match", "ETags of states that are known: 304 where it is one of them.", false);
    add_condition(parameters, "If-Match", "ETags: 412 if the current one is not among them.", false);
  }

  static Object operation_of(Array parameters, Object responses) {
    Object operation;
    if (!parameters.empty()) operation.emplace_back("parameters", std::move(parameters));
    operation.emplace_back("responses", std::move(responses));
    return operation;
  }

  Object reading(const Resource& resource) {
    const EndpointPlan& plan = *resource.get;
    Parameters parameters;
    for (std::size_t i = 0; i < plan.sources.size(); ++i) {
      parameters.add(plan.sources[i],
                     schema_of_value(plan.sources[i], nullptr, oid_of(plan.statement, i), resource.enums));
    }
    parameters.add_known(plan.query);
    if (plan.list) add_list_parameters(*plan.list, parameters.list);
    Object responses;
    if (resource.options->returns == Returns::file) {
      const Json text = {{"schema", of_type("string")}};
      const Object bytes = {{"*/*", Object()}};
      responses = {{"200", answer("The file.", bytes, {{"ETag", text}})},
                   {"206", answer("The part of it that was asked for.", bytes, {{"Content-Range", text}})},
                   {"304", answer("The client has it already.")}};
      add_problems(responses, resource, Method::get, {404, 412, 416}, plan);
      return operation_of(std::move(parameters.list), std::move(responses));
    }
    const Json row = row_schema(plan.statement.columns, facts_of(resource, Method::get), resource.enums,
                                plan.list ? Members::chosen : Members::all);
    const Object rows = row_content(row, plan.version || plan.object ? Shown::object : Shown::rows, plan.formats);
    if (plan.version) {
      add_reading_conditions(parameters);
      responses = {{"200", answer("The one row.", rows, entity_tag())},
                   {"304", answer("It is what the client has.", {}, entity_tag())}};
    } else if (plan.object) {
      responses = {{"200", answer("The one row.", rows)}};
    } else {
      const std::string_view meaning =
          "How many rows there are, where it is known at the beginning; else it is a trailer.";
      Object fields = {{"Row-Count", header(meaning, count())}};
      if (plan.list) add_page_fields(plan, fields);
      responses = {{"200", answer("The rows.", rows, fields)}};
      if (plan.list) responses.emplace_back("206", answer("The rows of `Range: items=0-19`.", rows, std::move(fields)));
    }
    std::set<int> own = {406};
    if (plan.object) own.insert(404);
    if (plan.version) own.insert(412);
    if (plan.list) own.insert(400);
    add_problems(responses, resource, Method::get, std::move(own), plan);
    return operation_of(std::move(parameters.list), std::move(responses));
  }

  static void add_page_fields(const EndpointPlan& plan, Object& fields) {
    const Json text = of_type("string");
    fields.emplace_back("Link", header("The pages `first`, `prev`, `next` and `last`, relative to the request.", text));
    if (!plan.list->vocabulary.counts) return;
    fields.emplace_back("X-Total-Count", header("The rows that meet the conditions, if they were counted.", count()));
    fields.emplace_back("Content-Range", header("`items 0-19/1234`, if the rows were counted.", text));
  }

  static sql::FormatSet formats_of(const ResidentResource& resource) {
    static constexpr sql::Format without_csv[] = {sql::Format::json, sql::Format::ndjson, sql::Format::csj};
    return resource.plan->shape.csv ? sql::FormatSet() : sql::FormatSet(without_csv);
  }

  Object from_memory(const ResidentResource& resource, Shown shown) {
    Parameters parameters;
    if (shown == Shown::rows) {
      add_resident_parameters(*resource.plan, parameters.list);
    } else {
      add_fields_parameter(*resource.plan, parameters.list);
    }
    add_reading_conditions(parameters);
    const Json row = row_schema(resource.plan->statement.columns, resource.facts, resource.enums, Members::chosen);
    Object headers = entity_tag();
    headers.emplace_back(
        "Age",
        header("Seconds since the rows were known to be those of the database, when it cannot be asked.", count()));
    const Json unchanged = answer("It is what the client has.", {}, headers);
    if (shown == Shown::rows) {
      headers.emplace_back("X-Total-Count",
                           header("How many rows the conditions find, whatever `limit` and `offset` say.", count()));
    }
    Object responses = {{"200", answer(shown == Shown::rows ? "The rows." : "The one row.",
                                       row_content(row, shown, formats_of(resource)), std::move(headers))},
                        {"304", unchanged}};
    std::set<int> own = {400, 403, 406, 412, 414, 431, 500, 503};
    if (shown == Shown::object) own.insert(404);
    add_problems(responses, resource.security, std::move(own));
    return operation_of(std::move(parameters.list), std::move(responses));
  }

  Object changes(const Resource& resource) {
    Parameters parameters;
    add_condition(parameters, "Last-Event-ID", "Goes on behind this event.", false);
    parameters.add_known(resource.changes->query);
    Object responses = {{"200", answer("Changes as they happen, without an end (Server-Sent Events). After an event of "
                                       "the name `reset` the resource is to be read anew.",
                                       {content("text/event-stream", of_type("string"))})}};
    add_problems(responses, resource, Method::get, {}, *resource.changes);
    return operation_of(std::move(parameters.list), std::move(responses));
  }

  static std::uint32_t oid_of(const sql::Statement& statement, std::size_t index) {
    // PostgreSQL has not described the parameter, so any value may be sent.
    return index < statement.described_types.size() ? statement.described_types[index] : 0;
  }

  static const sql::Table* table_of(const Resource& resource, Method method) {
    const auto found = std::ranges::find(resource.tables, method, &std::pair<Method, sql::Table>::first);
    return found == resource.tables.end() ? nullptr : &found->second;
  }

  enum class Taken : std::uint8_t { one, list, either };

  // The body in every accepted format. `given`: the configured schema of the object, or null.
  Json request_body(const Json& object, const Json& form, Taken taken, const schema::Schema* given,
                    bool merges = false) {
    const std::string name = schema_name("Body");
    const Json one = reference("schemas", name);
    schemas_.emplace_back(
        name, given == nullptr ? object : Json::Raw{schema::relocated(given->text(), "#/components/schemas/" + name)});
    const Json either = {{"anyOf", Array{one, list_of(one)}}};
    const Json json = taken == Taken::one ? one : taken == Taken::list ? list_of(one) : either;
    Object all = {content("application/json", json)};
    if (merges) all.push_back(content("application/merge-patch+json", json));
    add_texts(all, {});
    if (taken == Taken::list) return body(std::move(all));
    std::string form_name = name;
    if (given != nullptr || form.text() != object.text()) {
      form_name = schema_name("Form");
      schemas_.emplace_back(form_name, form);
    }
    all.push_back(content("application/x-www-form-urlencoded", reference("schemas", form_name)));
    return body(std::move(all));
  }

  Object writing(const Resource& resource, const WritePlan& plan) {
    const sql::Table* const table = table_of(resource, plan.method);
    Parameters parameters;
    Fields fields;
    bool whole_body = false;
    const auto take = [&](const WritePlan::Step& step) {
      for (std::size_t i = 0; i < step.sources.size(); ++i) {
        const Source& source = step.sources[i];
        if (source.asks_presence) continue;
        const Schema schema = schema_of_value(source, table, oid_of(step.statement, i), resource.enums);
        parameters.add(source, schema);
        if (source.from != From::body) continue;
        const auto* column = table != nullptr ? table->find(source.name) : nullptr;
        const bool never_null = source.required || (column != nullptr && column->not_null);
        if (source.key.empty()) {
          whole_body = true;
        } else {
          const bool is_needed = column != nullptr && column->not_null && column->default_value.empty() &&
                                 !column->row_id && !source.default_text && plan.method != Method::patch;
          fields.add(source.key, schema, never_null ? Null::never : Null::possible, source.required || is_needed);
        }
      }
    };
    for (const WritePlan::Step& step : plan.before) take(step);
    if (plan.update_first) take(*plan.update_first);
    take(plan.main);
    parameters.add_known(plan.query);
    fields.add_unwritten(plan.shape.names);
    if (plan.current) {
      // A PUT may state instead that the resource does not exist yet.
      const bool either = plan.method == Method::put;
      add_condition(parameters, "If-Match", "The ETag of the state that is to be changed: 412 where it is another one.",
                    plan.current->required && !either);
      if (either) {
        add_condition(parameters, "If-None-Match", "`*`: only what is not there is written, else 412.", false);
      }
    }

    Object operation;
    if (!parameters.list.empty()) operation.emplace_back("parameters", std::move(parameters.list));
    const bool has_body = !plan.shape.names.empty();
    if (!plan.uploads.empty()) {
      operation.emplace_back("requestBody", upload_body(plan.uploads, fields));
    } else if (has_body) {
      const Taken taken = plan.one_row ? Taken::one : Taken::either;
      const auto schema = [&](Null nulls) { return whole_body ? of_type("object") : fields.schema(nulls); };
      operation.emplace_back("requestBody", request_body(schema(Null::possible), schema(Null::never), taken,
                                                         plan.schema.get(), plan.patch.has_value()));
    }

    Object responses;
    const auto answers = [&](int status, std::string_view meaning, const Object& content = {}, Object headers = {}) {
      responses.emplace_back(std::to_string(status), answer(meaning, content, std::move(headers)));
    };
    const bool has_columns = !plan.main.statement.columns.empty();
    const bool misses = plan.object && !plan.inserts;
    const Object done_headers = plan.returned ? entity_tag() : Object();
    Object created_headers = done_headers;
    if (plan.location) {
      created_headers.emplace_back("Location", header("Where it is, of a single row.", of_type("string")));
    }
    if (!has_columns) {
      if (plan.inserts) answers(201, "It has been created.", {}, std::move(created_headers));
      answers(204, "It is done.");
    } else {
      const Json row = row_schema(plan.main.statement.columns, facts_of(resource, plan.method), resource.enums);
      const Object rows = row_content(row, plan.object ? Shown::object : Shown::rows, plan.formats);
      if (plan.inserts) {
        if (plan.update_first || !plan.object) {
          answers(200, plan.update_first ? "It has been replaced." : "There was nothing to create.", rows,
                  done_headers);
        }
        answers(201, "It has been created.", rows, std::move(created_headers));
        if (plan.object) answers(204, "There was nothing to create.");
      } else {
        answers(200, "It is done.", rows, done_headers);
      }
    }
    std::set<int> own = {406, 409, 422};
    if (has_body || !plan.uploads.empty()) own.insert({408, 413, 415});
    if (!plan.uploads.empty()) own.insert(507);
    if (misses) own.insert(404);
    if (plan.current) own.insert(412);
    if (plan.current && plan.current->required) own.insert(428);
    add_problems(responses, resource, plan.method, own, plan);
    operation.emplace_back("responses", std::move(responses));
    return operation;
  }

  // A single file, or a form with files among its fields.
  static Json upload_body(const UploadPlan& uploads, const Fields& fields) {
    // OpenAPI 3.1: content that is not JSON has a media type, but no schema of its own.
    if (uploads.whole) {
      Object all;
      const std::vector<std::string>& types = uploads.files[0].types;
      for (const std::string& type : types) all.emplace_back(type, Object());
      if (types.empty()) all.emplace_back("application/octet-stream", Object());
      return body(std::move(all));
    }
    Object properties;
    Object encoding;
    Array needed;
    fields.add_to(properties, needed, Null::never);
    for (const UploadPlan::File& file : uploads.files) {
      properties.push_back({file.part, {{"type", "string"}, {"contentMediaType", "application/octet-stream"}}});
      if (file.required) needed.emplace_back(file.part);
      std::string types;
      for (const std::string& type : file.types) types += (types.empty() ? "" : ", ") + type;
      if (!types.empty()) encoding.push_back({file.part, {{"contentType", types}}});
    }
    Object form = {{"schema", closed_object(std::move(properties), std::move(needed))}};
    if (!encoding.empty()) form.emplace_back("encoding", std::move(encoding));
    return body({{"multipart/form-data", std::move(form)}});
  }

  Object set_writing(const Resource& resource, const SetWritePlan& plan) {
    const sql::Table* const table = table_of(resource, plan.method);
    Parameters parameters;
    for (const Source& source : plan.shared) parameters.add(source, schema_of_value(source, table, 0, resource.enums));
    parameters.add_dry_run();
    if (plan.method == Method::put) parameters.add_max_deleted();
    parameters.add_known(plan.query);
    Fields fields;
    for (std::size_t i = 0; i < plan.staged.size(); ++i) {
      const Source& source = plan.staged[i];
      const bool never_null = source.required || plan.set.not_null[i];
      const bool needed = never_null && !plan.set.optional[i] && !source.default_text;
      fields.add(source.key, schema_of_value(source, table, 0, resource.enums),
                 never_null ? Null::never : Null::possible, needed);
    }
    fields.add_unwritten(plan.shape.names);
    Object responses = {{"200", answer("How many rows have changed.", {content("application/json", set_answer())})}};
    add_problems(responses, resource, plan.method, {408, 409, 413, 415, 422}, plan);
    return {{"parameters", std::move(parameters.list)},
            {"requestBody", request_body(fields.schema(Null::possible), fields.schema(Null::never),
                                         plan.takes_object ? Taken::either : Taken::list, plan.schema.get())},
            {"responses", std::move(responses)}};
  }

  static Json set_answer() {
    return object_of({{"inserted", count()}, {"updated", count()}, {"deleted", count()}, {"unchanged", count()}},
                     {"inserted", "updated", "deleted", "unchanged"});
  }

  static Json problem(int status) {
    Object headers;
    if (status == 401) headers = {{"WWW-Authenticate", {{"schema", of_type("string")}}}};
    if (status == 503) headers = {{"Retry-After", {{"schema", of_type("integer")}}}};
    return answer(meaning_of(status), {problem_content()}, std::move(headers));
  }
  static Json::Member problem_content() { return content("application/problem+json", reference("schemas", "Problem")); }

  static Json problem_schema() {
    const Json string = of_type("string");
    const Json integer = of_type("integer");
    const Json error = object_of(
        {{"line", integer}, {"row", integer}, {"pointer", string}, {"constraint", string}, {"detail", string}},
        {"line", "row", "pointer", "detail"});
    return object_of(
        {{"type", string}, {"title", string}, {"status", integer}, {"detail", string}, {"errors", list_of(error)}},
        {"type", "title", "status"});
  }

  const Options& options_;
  Object paths_;
  Object schemas_;
  Object schemes_;
  Array tag_list_;
  std::set<std::string> tags_;
  std::set<std::string> ids_;
  std::set<std::string> schema_names_ = {"Problem"};
  std::set<std::string> scheme_names_;
  std::set<int> statuses_;
  std::map<std::string, std::string> shapes_;  // shapes of paths, to the paths that have them
  std::map<std::string, std::string> rows_;    // schemas of rows, to their names
  std::vector<std::string> warnings_;
  std::string names_;  // of the operation being described
};

}  // namespace

Document make_document(const Options& options, std::span<const Resource> resources,
                       std::span<const ResidentResource> residents, std::span<const WebSocketResource> websockets,
                       const BatchResource* batch) {
  Maker maker(options);
  for (const Resource& resource : resources) maker.add(resource);
  for (const ResidentResource& resident : residents) maker.add(resident);
  for (const WebSocketResource& websocket : websockets) maker.add(websocket);
  if (batch != nullptr) maker.add(*batch);
  return maker.make();
}

}  // namespace sluice::api::openapi
