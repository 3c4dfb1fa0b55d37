#include "api/openapi/document.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "api/openapi/json_object.h"
#include "api/openapi/resident.h"
#include "api/openapi/schema.h"
#include "api/schema/rules.h"
#include "http/request.h"
#include "http/response.h"

namespace sluice::api::openapi {
namespace {

using http::Method;
using Null = Schema::Null;

constexpr std::pair<sql::Format, std::string_view> row_types[] = {{sql::Format::csv, "text/csv"},
                                                                  {sql::Format::ndjson, "application/x-ndjson"},
                                                                  {sql::Format::csj, "application/csj"}};

bool is_letter_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

// "films by slug" -> "FilmsBySlug", of what names may hold.
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

std::string lower_name(Method method) {
  std::string name(http::name_of(method));
  for (char& c : name) c = static_cast<char>(c | 0x20);
  return name;
}

std::string reference(std::string_view kind, std::string_view name) {
  return JsonObject().add_text("$ref", "#/components/" + std::string(kind) + "/" + std::string(name)).text();
}

// The names of components are letters, digits, dots, hyphens and underscores.
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
      return "What there is, is not what If-Match or If-None-Match says.";
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

// A tree of the names that a body may hold: "a.b" lies in "a".
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
  // Of `names`, those that are not there yet: a body may have them, and they are not written.
  void add_unwritten(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      if (!name.empty() && !below.contains(name.substr(0, name.find('.')))) {
        add(name, {.type = {}, .members = ",\"readOnly\":true", .or_else = {}}, Null::possible, false);
      }
    }
  }
  // `nulls`: whether the format has them; a form leaves a field out instead.
  [[nodiscard]] std::string schema(Null nulls) const {
    if (leaf) return leaf->json(nulls == Null::never ? Null::never : null);
    JsonObject properties;
    JsonArray needed;
    for (const std::string& name : order) {
      properties.add(name, below.at(name).schema(nulls));
      if (below.at(name).required) needed.add_text(name);
    }
    JsonObject object;
    object.add_text("type", "object").add("properties", properties.text());
    if (!needed.empty()) object.add("required", needed.text());
    object.add("additionalProperties", "false");
    return object.text();
  }
};

class Maker {
 public:
  explicit Maker(const Options& options) : options_(options) {}

  void add(const Resource& resource) {
    const auto place = place_of(*resource.pattern, resource.options->path.value);
    if (!place) return;
    const auto& [path, words, tag] = *place;

    JsonObject item;
    if (JsonArray parameters = path_parameters(resource); !parameters.empty()) {
      item.add("parameters", parameters.text());
    }
    JsonObject changes_item = item;
    bool answers = false;
    const auto operation = [&](Method method, const JsonObject& about) {
      answers = true;
      add_operation(item, *place, words, method, resource.security, about, words_for(*resource.options, method));
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
    if (answers) paths_.add(path, item.text());
    if (resource.changes == nullptr) return;
    add_operation(changes_item, *place, words + " changes", Method::get, resource.security, changes(resource));
    paths_.add(path + (path.ends_with('/') ? "changes" : "/changes"), changes_item.text());
  }

  void add(const ResidentResource& resource) {
    const auto parts = [&](const Place& place, const std::string& parameters, const JsonObject& about) {
      JsonObject item;
      if (!parameters.empty()) item.add("parameters", parameters);
      add_operation(item, place, place.words, Method::get, resource.security, about);
      paths_.add(place.path, item.text());
    };
    std::string row;
    if (const auto place = place_of(resource.pattern, "/" + resource.plan->name)) {
      names_ = capitalized("get" + place->words);
      row = row_schema(resource.plan->statement.columns, resource.never_null, Members::chosen);
      parts(*place, "", listing(resource, row));
    }
    if (!resource.key_pattern) return;
    const auto place = place_of(*resource.key_pattern, "/" + resource.plan->name + "/{key}");
    if (!place) return;
    names_ = capitalized("get" + place->words);
    if (row.empty()) row = row_schema(resource.plan->statement.columns, resource.never_null, Members::chosen);
    JsonObject key;
    key.add_text("name", resource.key_pattern->segments.back().text).add_text("in", "path").add("required", "true");
    key.add("schema", resident_key_schema(*resource.plan));
    parts(*place, JsonArray().add(key.text()).text(), finding(resource, row));
  }

  void add(const BatchResource& batch) {
    schemas_.add("Call",
                 R"({"type":"object","properties":{)"
                 R"("method":{"enum":["GET","POST","PUT","PATCH","DELETE"]},)"
                 R"("path":{"type":"string","pattern":"^/"},)"
                 R"("id":{"type":"string","pattern":"^[A-Za-z0-9_-]*[A-Za-z_-][A-Za-z0-9_-]*$","maxLength":64},)"
                 R"("headers":{"type":"object","additionalProperties":{"type":"string"}},"body":{}},)"
                 R"("required":["method","path"],"additionalProperties":false})");
    schemas_.add("CallAnswer", R"({"type":"object","properties":{"status":{"type":"integer"},)"
                               R"("headers":{"type":"object","additionalProperties":{"type":"string"}},"body":{}},)"
                               R"("required":["status","headers"]})");
    schema_names_.insert({"Call", "CallAnswer"});
    const std::string calls = JsonObject()
                                  .add_text("type", "array")
                                  .add("items", reference("schemas", "Call"))
                                  .add("maxItems", std::to_string(batch.calls))
                                  .text();
    const auto content = [](const std::string& schema) {
      return JsonObject().add("application/json", JsonObject().add("schema", schema).text()).text();
    };
    JsonObject responses;
    responses.add("200",
                  JsonObject()
                      .add_text("description", "The answers of the calls, in their order.")
                      .add("content", content(R"({"type":"array","items":)" + reference("schemas", "CallAnswer") + "}"))
                      .text());
    // A call that is refused gives the batch its own status.
    responses.add("default", JsonObject()
                                 .add_text("description", "A call was refused, and nothing of the batch has been done.")
                                 .add("content", R"({"application/problem+json":{"schema":)" +
                                                     reference("schemas", "Problem") + "}}")
                                 .text());
    for (const int status : {400, 413, 415, 422, 503}) {
      statuses_.insert(status);
      responses.add(std::to_string(status), reference("responses", std::to_string(status)));
    }
    JsonObject post;
    post.add_text("operationId", operation_id(Method::post, " batch"));
    if (tags_.insert("batch").second) tag_list_.add(JsonObject().add_text("name", "batch").text());
    post.add("tags", JsonArray().add_text("batch").text());
    add_security(batch.security, post);
    post.add_text("description",
                  "Several calls in one transaction. `${id.a.0}` in a path or in a string of a body stands for a value "
                  "of an earlier call's answer.");
    post.add("requestBody", JsonObject().add("required", "true").add("content", content(calls)).text());
    post.add("responses", responses.text());
    paths_.add(batch.path, JsonObject().add("post", post.text()).text());
  }

  [[nodiscard]] Document make() {
    JsonObject info;
    info.add_text("title", options_.title.value).add_text("version", options_.version.value);
    if (!options_.description.value.empty()) info.add_text("description", options_.description.value);
    JsonArray servers;
    for (const auto& url : options_.servers) servers.add(JsonObject().add_text("url", url.value).text());
    if (servers.empty()) servers.add(R"({"url":"/"})");
    JsonObject responses;
    for (const int status : statuses_) responses.add(std::to_string(status), problem(status));
    if (!statuses_.empty()) schemas_.add("Problem", problem_schema());
    JsonObject components;
    components.add("schemas", schemas_.text()).add("responses", responses.text());
    if (!schemes_.empty()) components.add("securitySchemes", schemes_.text());
    JsonObject document;
    document.add_text("openapi", "3.1.0").add("info", info.text()).add("servers", servers.text());
    if (!tag_list_.empty()) document.add("tags", tag_list_.text());
    document.add("paths", paths_.text()).add("components", components.text());
    return {.text = document.text(), .warnings = std::move(warnings_)};
  }

 private:
  struct Place {
    std::string path;
    std::string words;  // " films by slug"
    std::string tag;
  };

  // Nothing: the document cannot have it. `called`: what the operator knows it as.
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
    if (tags_.insert(place.tag).second) tag_list_.add(JsonObject().add_text("name", place.tag).text());
    return place;
  }

  // What the file says of a method.
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

  void add_operation(JsonObject& into, const Place& place, const std::string& words, Method method,
                     std::span<const Security> security, const JsonObject& about, const Words& meaning = {}) {
    JsonObject whole;
    if (!meaning.summary.empty()) whole.add_text("summary", meaning.summary);
    if (!meaning.description.empty()) whole.add_text("description", meaning.description);
    whole.add_text("operationId", operation_id(method, words)).add("tags", JsonArray().add_text(place.tag).text());
    add_security(security, whole);
    into.add(lower_name(method),
             whole.text().substr(0, whole.text().size() - 1) + (about.empty() ? "}" : "," + about.text().substr(1)));
  }

  std::string operation_id(Method method, const std::string& words) {
    const std::string base = lower_name(method) + capitalized(words);
    std::string id = base;
    for (int n = 2; !ids_.insert(id).second; ++n) id = base + std::to_string(n);
    return id;
  }

  // A name of components.schemas that nobody else has.
  std::string schema_name(std::string_view what) {
    const std::string base = names_ + std::string(what);
    std::string name = base;
    for (int n = 2; !schema_names_.insert(name).second; ++n) name = base + std::to_string(n);
    return name;
  }

  void add_security(std::span<const Security> security, JsonObject& into) {
    if (security.empty()) return;
    JsonObject all;
    bool optional = true;
    for (const Security& one : security) {
      const std::string name = component_name(one.policy);
      all.add(name, "[]");
      optional &= one.optional;
      if (scheme_names_.insert(name).second) {
        schemes_.add(name, R"({"type":"http","scheme":"bearer","bearerFormat":"JWT"})");
      }
    }
    JsonArray either;
    if (optional) either.add("{}");
    into.add("security", either.add(all.text()).text());
  }

  // Where a value's type comes from: the configuration, the table's column, PostgreSQL, or SQLite's column that it is
  // compared with.
  static Schema schema_of_value(const Source& source, const sql::Table* table, std::uint32_t oid) {
    const auto* column = table != nullptr ? table->find(source.name) : nullptr;
    const bool of_server = column != nullptr && column->kind <= sql::ColumnKind::server_json;
    Schema schema = source.checked ? schema_of(source.type)
                    : column != nullptr
                        ? schema_of_type_name(column->type, of_server ? sql::Dialect::postgres : sql::Dialect::sqlite)
                    : oid != 0 ? schema_of_oid(oid)
                               : schema_of(source.column);
    // Blanks alone are missing.
    if (source.required && source.trim && schema.type == "string" && schema.members.empty()) {
      schema.members = R"(,"pattern":"[^ \\t\\r\\n]")";
    }
    return schema;
  }

  JsonArray path_parameters(const Resource& resource) {
    JsonArray all;
    for (const auto& segment : resource.pattern->segments) {
      if (segment.kind == http::Pattern::Kind::literal) continue;
      JsonObject parameter;
      parameter.add_text("name", segment.text).add_text("in", "path").add("required", "true");
      const auto declared =
          std::ranges::find(resource.options->params, segment.text, [](const auto& one) { return one.name.value; });
      Schema schema = schema_of(sql::ParameterType::text);
      if (segment.kind == http::Pattern::Kind::integer) {
        schema = schema_of(sql::ParameterType::integer);
      } else if (declared != resource.options->params.end() && declared->value.type) {
        schema = schema_of(declared->value.type->value);
      }
      if (segment.kind == http::Pattern::Kind::rest) {
        parameter.add_text("description", "All that follows, slashes included.");
      } else if (schema.type == "string") {
        schema.members += ",\"minLength\":1";
      }
      all.add(parameter.add("schema", schema.json(Null::never)).text());
    }
    return all;
  }

  // Query, header and cookie parameters. Those that come from elsewhere are passed over.
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
      // RFC 3.1: a parameter of these names is ignored; what they say is described elsewhere.
      if (in == "header" && (http::same_name(source.key, "accept") || http::same_name(source.key, "content-type") ||
                             http::same_name(source.key, "authorization"))) {
        return;
      }
      if (!seen_.emplace(in, source.key).second) return;
      JsonObject parameter;
      parameter.add_text("name", source.key).add_text("in", in);
      if (source.required) parameter.add("required", "true");
      if (sql::is_list(source.type)) parameter.add_text("style", "form").add("explode", "true");
      std::string json = schema.json(Null::never);
      if (source.default_text) {
        const std::string value = default_json(schema, *source.default_text);
        if (!value.empty()) {
          json.pop_back();
          json += (json.size() > 1 ? ",\"default\":" : "\"default\":") + value + "}";
        }
      }
      list_.add(parameter.add("schema", json == "{}" ? R"({"type":"string"})" : json).text());
    }
    // What else of the query string is known, such as what is required of it.
    void add_known(const QueryNames& query) {
      for (const std::string_view name : query.all()) {
        if (!seen_.emplace("query", name).second) continue;
        JsonObject parameter;
        parameter.add_text("name", name).add_text("in", "query");
        list_.add(parameter.add("schema", R"({"type":"string"})").text());
      }
    }
    void add_raw(std::string_view json) { list_.add(json); }
    void add_dry_run() {
      seen_.emplace("query", "dry-run");
      list_.add(R"({"name":"dry-run","in":"query","description":"Says what would change, and changes nothing.",)"
                R"("schema":{"type":"boolean","default":false}})");
    }
    void add_max_deleted() {
      seen_.emplace("query", "max-deleted");
      list_.add(R"({"name":"max-deleted","in":"query","description":"How many rows the request may delete, in place )"
                R"(of what is configured: 409 where it would delete more.","schema":{"type":"integer","minimum":0}})");
    }
    [[nodiscard]] const JsonArray& list() const { return list_; }
    [[nodiscard]] JsonArray& list() { return list_; }

   private:
    std::set<std::pair<std::string, std::string>> seen_;
    JsonArray list_;
  };

  // Adds `own`, and what every operation may answer.
  void add_problems(JsonObject& responses, const Resource& resource, std::set<int> own, const auto& plan) {
    own.insert({400, 403, 414, 431, 500, 503, 504});
    if (plan.guards) {
      for (const int status : plan.guards->statuses()) own.insert(status);
    }
    if (plan.errors) {
      for (const int status : plan.errors->statuses()) own.insert(status);
    }
    if (!resource.pattern->names().empty()) own.insert(404);
    add_problems(responses, resource.security, std::move(own));
  }
  void add_problems(JsonObject& responses, std::span<const Security> security, std::set<int> own) {
    if (!security.empty()) own.insert(401);
    for (const int status : own) {
      statuses_.insert(status);
      responses.add(std::to_string(status), reference("responses", std::to_string(status)));
    }
  }

  // Whether a row has all of its members, or those that the request has chosen.
  enum class Members : std::uint8_t { all, chosen };

  // `never_null`: of each column; empty: of none is it known.
  std::string row_schema(std::span<const sql::Column> columns, const std::vector<bool>& never_null,
                         Members members = Members::all) {
    JsonObject properties;
    JsonArray names;
    std::set<std::string_view> seen;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const sql::Column& column = columns[i];
      if (!seen.insert(column.name).second) continue;
      const bool never = i < never_null.size() && never_null[i];
      properties.add(column.name, schema_of(column).json(never ? Null::never : Null::possible));
      names.add_text(column.name);
    }
    JsonObject schema;
    schema.add_text("type", "object").add("properties", properties.text());
    if (members == Members::all) schema.add("required", names.text());
    if (members == Members::chosen) schema.add("additionalProperties", "false").add("minProperties", "1");
    // Statements of several methods mostly return the same.
    auto& name = rows_[schema.text()];
    if (name.empty()) {
      name = schema_name("Row");
      schemas_.add(name, schema.text());
    }
    return reference("schemas", name);
  }

  static std::vector<bool> never_null_of(const Resource& resource, Method method) {
    for (const auto& [its_method, columns] : resource.never_null) {
      if (its_method == method) return columns;
    }
    return {};
  }

  enum class Shown : std::uint8_t { object, rows };

  // The content of an answer with rows, in every format that is offered.
  static std::string row_content(const std::string& row, Shown shown, sql::FormatSet formats) {
    const std::string rows = R"({"type":"array","items":)" + row + "}";
    JsonObject content;
    const std::string& json = shown == Shown::object ? row : rows;
    if (formats.has(sql::Format::json)) content.add("application/json", JsonObject().add("schema", json).text());
    for (const auto& [format, type] : row_types) {
      if (formats.has(format)) content.add(type, R"({"schema":{"type":"string"}})");
    }
    return content.text();
  }

  static std::string answer(std::string_view meaning, const std::string& content, const std::string& headers = {}) {
    JsonObject response;
    response.add_text("description", meaning);
    if (!headers.empty()) response.add("headers", headers);
    if (!content.empty()) response.add("content", content);
    return response.text();
  }

  static constexpr std::string_view row_count =
      R"({"description":"How many rows there are, where it is known at the beginning; else it is a trailer.",)"
      R"("schema":{"type":"integer","minimum":0}})";

  static constexpr std::string_view entity_tag =
      R"({"description":"Of the state, for If-Match and If-None-Match.","schema":{"type":"string"}})";

  static void add_condition(Parameters& parameters, std::string_view name, std::string_view meaning, bool required) {
    JsonObject parameter;
    parameter.add_text("name", name).add_text("in", "header").add_text("description", meaning);
    if (required) parameter.add("required", "true");
    parameters.add_raw(parameter.add("schema", R"({"type":"string"})").text());
  }

  static void add_reading_conditions(Parameters& parameters) {
    add_condition(parameters, "If-None-Match", "ETags of states that are known: 304 where it is one of them.", false);
    add_condition(parameters, "If-Match", "ETags of states: 412 where it is none of them.", false);
  }

  JsonObject reading(const Resource& resource) {
    const EndpointPlan& plan = *resource.get;
    Parameters parameters;
    for (std::size_t i = 0; i < plan.sources.size(); ++i) {
      parameters.add(plan.sources[i], schema_of_value(plan.sources[i], nullptr, oid_of(plan.statement, i)));
    }
    parameters.add_known(plan.query);
    JsonObject responses;
    if (resource.options->returns == Returns::file) {
      const std::string content = R"({"*/*":{}})";
      responses.add("200", answer("The file.", content, R"({"ETag":{"schema":{"type":"string"}}})"));
      responses.add("206", answer("The part of it that was asked for.", content,
                                  R"({"Content-Range":{"schema":{"type":"string"}}})"));
      responses.add("304", answer("The client has it already.", ""));
      add_problems(responses, resource, {404, 412, 416}, plan);
      JsonObject operation;
      if (!parameters.list().empty()) operation.add("parameters", parameters.list().text());
      return operation.add("responses", responses.text());
    }
    const std::string row = row_schema(plan.statement.columns, never_null_of(resource, Method::get));
    if (plan.version) {
      add_reading_conditions(parameters);
      const std::string headers = JsonObject().add("ETag", entity_tag).text();
      responses.add("200", answer("The one row.", row_content(row, Shown::object, plan.formats), headers));
      responses.add("304", answer("It is what the client has.", "", headers));
    } else if (plan.object) {
      responses.add("200", answer("The one row.", row_content(row, Shown::object, plan.formats)));
    } else {
      responses.add("200", answer("The rows.", row_content(row, Shown::rows, plan.formats),
                                  JsonObject().add("Row-Count", row_count).text()));
    }
    std::set<int> own = {406};
    if (plan.object) own.insert(404);
    if (plan.version) own.insert(412);
    add_problems(responses, resource, std::move(own), plan);
    JsonObject operation;
    if (!parameters.list().empty()) operation.add("parameters", parameters.list().text());
    return operation.add("responses", responses.text());
  }

  static sql::FormatSet formats_of(const ResidentResource& resource) {
    static constexpr sql::Format without_csv[] = {sql::Format::json, sql::Format::ndjson, sql::Format::csj};
    return resource.plan->shape.csv ? sql::FormatSet() : sql::FormatSet(without_csv);
  }

  JsonObject listing(const ResidentResource& resource, const std::string& row) {
    Parameters parameters;
    add_resident_parameters(*resource.plan, parameters.list());
    return from_memory(resource, std::move(parameters), "The rows.",
                       row_content(row, Shown::rows, formats_of(resource)),
                       R"({"description":"How many rows the conditions find, whatever `limit` and `offset` say.",)"
                       R"("schema":{"type":"integer","minimum":0}})");
  }
  JsonObject finding(const ResidentResource& resource, const std::string& row) {
    Parameters parameters;
    add_fields_parameter(*resource.plan, parameters.list());
    return from_memory(resource, std::move(parameters), "The one row.",
                       row_content(row, Shown::object, formats_of(resource)), {});
  }
  // `total`: the header that says how many rows there are; empty: there is one.
  JsonObject from_memory(const ResidentResource& resource, Parameters parameters, std::string_view meaning,
                         const std::string& content, std::string_view total) {
    add_reading_conditions(parameters);
    JsonObject headers;
    headers.add("ETag", entity_tag);
    headers.add("Age",
                R"({"description":"Seconds since the rows were known to be those of the database, when it cannot )"
                R"(be asked.","schema":{"type":"integer","minimum":0}})");
    const std::string known_headers = headers.text();
    if (!total.empty()) headers.add("X-Total-Count", total);
    JsonObject responses;
    responses.add("200", answer(meaning, content, headers.text()));
    responses.add("304", answer("It is what the client has.", "", known_headers));
    std::set<int> own = {400, 403, 406, 412, 414, 431, 500, 503};
    if (total.empty()) own.insert(404);
    add_problems(responses, resource.security, std::move(own));
    return JsonObject().add("parameters", parameters.list().text()).add("responses", responses.text());
  }

  JsonObject changes(const Resource& resource) {
    Parameters parameters;
    parameters.add_raw(R"({"name":"Last-Event-ID","in":"header","description":"Goes on behind this event.",)"
                       R"("schema":{"type":"string"}})");
    parameters.add_known(resource.changes->query);
    JsonObject responses;
    responses.add("200", answer("Changes as they happen, without an end (Server-Sent Events). After an event of the "
                                "name `reset` the resource is to be read anew.",
                                R"({"text/event-stream":{"schema":{"type":"string"}}})"));
    add_problems(responses, resource, {}, *resource.changes);
    return JsonObject().add("parameters", parameters.list().text()).add("responses", responses.text());
  }

  static std::uint32_t oid_of(const sql::Statement& statement, std::size_t index) {
    // Without a word of PostgreSQL's anything may be sent.
    return index < statement.described_types.size() ? statement.described_types[index] : 0;
  }

  static const sql::Table* table_of(const Resource& resource, Method method) {
    const auto found = std::ranges::find(resource.tables, method, &std::pair<Method, sql::Table>::first);
    return found == resource.tables.end() ? nullptr : &found->second;
  }

  // How many rows a body has.
  enum class Taken : std::uint8_t { one, list, either };

  // In every format that is taken. `given`: what the configuration says of the object, or null.
  std::string request_body(const std::string& object, const std::string& form, Taken taken,
                           const schema::Schema* given) {
    const auto named = [&](std::string_view what, const std::string& schema) {
      const std::string name = schema_name(what);
      schemas_.add(name, schema);
      return reference("schemas", name);
    };
    std::string one;
    if (given != nullptr) {
      const std::string name = schema_name("Body");
      schemas_.add(name, schema::relocated(given->text(), "#/components/schemas/" + name));
      one = reference("schemas", name);
    } else {
      one = named("Body", object);
    }
    const std::string list = R"({"type":"array","items":)" + one + "}";
    const std::string schema = taken == Taken::one    ? one
                               : taken == Taken::list ? list
                                                      : R"({"anyOf":[)" + one + "," + list + "]}";
    JsonObject content;
    content.add("application/json", JsonObject().add("schema", schema).text());
    for (const auto& [format, type] : row_types) content.add(type, R"({"schema":{"type":"string"}})");
    if (taken == Taken::list) return JsonObject().add("required", "true").add("content", content.text()).text();
    content.add("application/x-www-form-urlencoded",
                JsonObject().add("schema", form == object && given == nullptr ? one : named("Form", form)).text());
    return JsonObject().add("required", "true").add("content", content.text()).text();
  }

  JsonObject writing(const Resource& resource, const WritePlan& plan) {
    const sql::Table* const table = table_of(resource, plan.method);
    Parameters parameters;
    Fields fields;
    bool whole_body = false;
    const auto take = [&](const WritePlan::Step& step) {
      for (std::size_t i = 0; i < step.sources.size(); ++i) {
        const Source& source = step.sources[i];
        if (source.asks_presence) continue;
        const Schema schema = schema_of_value(source, table, oid_of(step.statement, i));
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
      // A PUT may say that nothing is there yet instead.
      const bool either = plan.method == Method::put;
      add_condition(parameters, "If-Match", "The ETag of the state that is to be changed: 412 where it is another one.",
                    plan.current->required && !either);
      if (either) {
        add_condition(parameters, "If-None-Match", "`*`: only what is not there is written, else 412.", false);
      }
    }

    JsonObject operation;
    if (!parameters.list().empty()) operation.add("parameters", parameters.list().text());
    const bool has_body = !plan.shape.names.empty();
    if (!plan.uploads.empty()) {
      operation.add("requestBody", upload_body(plan.uploads, fields));
    } else if (has_body) {
      const std::string object = R"({"type":"object"})";
      const Taken taken = plan.one_row ? Taken::one : Taken::either;
      operation.add("requestBody", whole_body ? request_body(object, object, taken, plan.schema.get())
                                              : request_body(fields.schema(Null::possible), fields.schema(Null::never),
                                                             taken, plan.schema.get()));
    }

    JsonObject responses;
    const bool has_columns = !plan.main.statement.columns.empty();
    const bool misses = plan.object && !plan.inserts;
    JsonObject headers;
    if (plan.returned) headers.add("ETag", entity_tag);
    const std::string done_headers = headers.empty() ? "" : headers.text();
    if (plan.location) {
      headers.add("Location", R"({"description":"Where it is, of a single row.","schema":{"type":"string"}})");
    }
    const std::string created_headers = headers.empty() ? "" : headers.text();
    if (!has_columns) {
      if (plan.inserts) responses.add("201", answer("It has been created.", "", created_headers));
      responses.add("204", answer("It is done.", ""));
    } else {
      const std::string row = row_schema(plan.main.statement.columns, never_null_of(resource, plan.method));
      const std::string content = row_content(row, plan.object ? Shown::object : Shown::rows, plan.formats);
      if (plan.inserts) {
        if (plan.update_first || !plan.object) {
          responses.add("200", answer(plan.update_first ? "It has been replaced." : "There was nothing to create.",
                                      content, done_headers));
        }
        responses.add("201", answer("It has been created.", content, created_headers));
        if (plan.object) responses.add("204", answer("There was nothing to create.", ""));
      } else {
        responses.add("200", answer("It is done.", content, done_headers));
      }
    }
    std::set<int> own = {406, 409, 422};
    if (has_body || !plan.uploads.empty()) own.insert({408, 413, 415});
    if (!plan.uploads.empty()) own.insert(507);
    if (misses) own.insert(404);
    if (plan.current) own.insert(412);
    if (plan.current && plan.current->required) own.insert(428);
    add_problems(responses, resource, own, plan);
    return operation.add("responses", responses.text());
  }

  // A file itself, or a form with files among its fields.
  static std::string upload_body(const UploadPlan& uploads, const Fields& fields) {
    // RFC 3.1: what is no JSON has a media type, and no schema of its own.
    if (uploads.whole) {
      JsonObject content;
      const std::vector<std::string>& types = uploads.files[0].types;
      for (const std::string& type : types) content.add(type, "{}");
      if (types.empty()) content.add("application/octet-stream", "{}");
      return JsonObject().add("required", "true").add("content", content.text()).text();
    }
    JsonObject properties;
    JsonObject encoding;
    JsonArray needed;
    for (const std::string& name : fields.order) {
      const Fields& field = fields.below.at(name);
      properties.add(name, field.schema(Null::never));
      if (field.required) needed.add_text(name);
    }
    for (const UploadPlan::File& file : uploads.files) {
      properties.add(file.part, R"({"type":"string","contentMediaType":"application/octet-stream"})");
      if (file.required) needed.add_text(file.part);
      std::string types;
      for (const std::string& type : file.types) types += (types.empty() ? "" : ", ") + type;
      if (!types.empty()) encoding.add(file.part, JsonObject().add_text("contentType", types).text());
    }
    JsonObject schema;
    schema.add_text("type", "object").add("properties", properties.text());
    if (!needed.empty()) schema.add("required", needed.text());
    schema.add("additionalProperties", "false");
    JsonObject form;
    form.add("schema", schema.text());
    if (!encoding.empty()) form.add("encoding", encoding.text());
    return JsonObject()
        .add("required", "true")
        .add("content", JsonObject().add("multipart/form-data", form.text()).text())
        .text();
  }

  JsonObject set_writing(const Resource& resource, const SetWritePlan& plan) {
    const sql::Table* const table = table_of(resource, plan.method);
    Parameters parameters;
    for (const Source& source : plan.shared) parameters.add(source, schema_of_value(source, table, 0));
    parameters.add_dry_run();
    if (plan.method == Method::put) parameters.add_max_deleted();
    parameters.add_known(plan.query);
    Fields fields;
    for (std::size_t i = 0; i < plan.staged.size(); ++i) {
      const Source& source = plan.staged[i];
      const bool never_null = source.required || plan.set.not_null[i];
      const bool needed = never_null && !plan.set.optional[i] && !source.default_text;
      fields.add(source.key, schema_of_value(source, table, 0), never_null ? Null::never : Null::possible, needed);
    }
    fields.add_unwritten(plan.shape.names);
    JsonObject responses;
    responses.add("200",
                  answer("How many rows have changed.", JsonObject().add("application/json", set_answer()).text()));
    add_problems(responses, resource, {408, 409, 413, 415, 422}, plan);
    JsonObject operation;
    return operation.add("parameters", parameters.list().text())
        .add("requestBody", request_body(fields.schema(Null::possible), fields.schema(Null::never),
                                         plan.takes_object ? Taken::either : Taken::list, plan.schema.get()))
        .add("responses", responses.text());
  }

  static std::string set_answer() {
    JsonObject properties;
    JsonArray names;
    for (const std::string_view name : {"inserted", "updated", "deleted", "unchanged"}) {
      properties.add(name, R"({"type":"integer","minimum":0})");
      names.add_text(name);
    }
    JsonObject schema;
    schema.add_text("type", "object").add("properties", properties.text()).add("required", names.text());
    return JsonObject().add("schema", schema.text()).text();
  }

  static std::string problem(int status) {
    JsonObject response;
    response.add_text("description", meaning_of(status));
    if (status == 401) {
      response.add("headers", R"({"WWW-Authenticate":{"schema":{"type":"string"}}})");
    } else if (status == 503) {
      response.add("headers", R"({"Retry-After":{"schema":{"type":"integer"}}})");
    }
    return response.add("content", R"({"application/problem+json":{"schema":{"$ref":"#/components/schemas/Problem"}}})")
        .text();
  }

  // RFC 9457.
  static std::string problem_schema() {
    return R"({"type":"object","properties":{"type":{"type":"string"},"title":{"type":"string"},)"
           R"("status":{"type":"integer"},"detail":{"type":"string"},"errors":{"type":"array","items":{"type":"object",)"
           R"("properties":{"line":{"type":"integer"},"row":{"type":"integer"},"pointer":{"type":"string"},)"
           R"("constraint":{"type":"string"},)"
           R"("detail":{"type":"string"}},"required":["line","row","pointer","detail"]}}},)"
           R"("required":["type","title","status"]})";
  }

  const Options& options_;
  JsonObject paths_;
  JsonObject schemas_;
  JsonObject schemes_;
  JsonArray tag_list_;
  std::set<std::string> tags_;
  std::set<std::string> ids_;
  std::set<std::string> schema_names_ = {"Problem"};
  std::set<std::string> scheme_names_;
  std::set<int> statuses_;
  std::map<std::string, std::string> shapes_;  // of paths, to those that have them
  std::map<std::string, std::string> rows_;    // schemas of rows, to their names
  std::vector<std::string> warnings_;
  std::string names_;  // of the operation that is being described
};

}  // namespace

Document make_document(const Options& options, std::span<const Resource> resources,
                       std::span<const ResidentResource> residents, const BatchResource* batch) {
  Maker maker(options);
  for (const Resource& resource : resources) maker.add(resource);
  for (const ResidentResource& resident : residents) maker.add(resident);
  if (batch != nullptr) maker.add(*batch);
  return maker.make();
}

}  // namespace sluice::api::openapi
