#include "app/suite/file.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "app/config/document.h"
#include "app/config/load.h"
#include "app/config/reader.h"
#include "app/config/text.h"
#include "app/suite/variables.h"
#include "http/fields.h"
#include "sql/parameters.h"

namespace sluice::app::suite {
namespace {

using config::Diagnostic;
using config::Value;

constexpr std::string_view database_variable = "${database}";

// Checks that involve several keys, step by step. A variable is known after the step that sets it.
class Checker {
 public:
  Checker(Suite& suite, std::vector<Diagnostic>& errors) : suite_(suite), errors_(errors) {}

  void run() {
    Options& options = suite_.options;
    for (auto& [name, value] : options.variables) {
      know(name);
      suite_.variables.emplace_back(name.value, json_of_variable(value));
    }
    check_fields(options.headers);
    for (StepOptions& step : options.steps) check_step(step);
    options.steps.clear();
  }

 private:
  void complain(Position position, std::string message, std::string hint = {}) {
    errors_.push_back({position, std::move(message), std::move(hint)});
  }

  // The value of a variable may be a plain string that is not JSON.
  Json json_of_variable(const Value& value) {
    check_value(value);
    return value.kind == Value::Kind::string ? Json::string(value.text)
                                             : json_of(value, Side::request, suite_.source, errors_);
  }

  void know(const Located<std::string>& name) {
    const auto pieces = split_variables("${" + name.value + "}");
    if (!pieces || name.value.contains('.')) {
      complain(name.position, "not the name of a variable", "it has letters, digits, _ and -");
    }
    known_.insert(name.value);
  }

  void check_text(std::string_view text, Position position) {
    const auto pieces = split_variables(text);
    if (!pieces) {
      const auto character = sql::character_position(text, pieces.error().offset);
      return complain(suite_.source.locate(position, character), pieces.error().message);
    }
    for (const Piece& piece : *pieces) {
      if (!piece.is_variable || piece.text.starts_with("env.")) continue;
      check_known(piece.text, suite_.source.locate(position, sql::character_position(text, piece.offset)));
    }
  }
  void check_known(const std::string& name, Position position) {
    if (known_.contains(name)) return;
    const std::vector<std::string_view> names(known_.begin(), known_.end());
    complain(position, fmt::format("nothing above sets \"{}\"", name), config::did_you_mean(name, names));
  }
  void check_text(const Located<std::string>& text) { check_text(text.value, text.position); }
  void check_value(const Value& value) {
    if (value.kind == Value::Kind::string) check_text(value.text, value.position);
    for (const Value& item : value.items) check_value(item);
    for (const config::Entry& entry : value.entries) check_value(entry.value);
  }
  void check_fields(const Texts& fields) {
    for (const auto& [name, value] : fields) {
      if (!http::is_token(name.value)) complain(name.position, "not the name of a header field");
      check_text(value);
    }
  }

  void check_step(StepOptions& options) {
    Step step;
    if (options.request.has_value() == options.sql.has_value()) {
      complain(options.position, options.request ? "a step has a \"request\" or \"sql\", not both"
                                                 : "a step needs a \"request\" or \"sql\"");
      return;
    }
    if (options.only && !suite_.runs_on(options.only->value)) {
      complain(options.only->position, "\"runs_on\" does not have this database: the step would never run");
    }
    if (options.request) {
      check_request(options, step);
    } else {
      check_statement(options, step);
    }
    check_expectation(options, step);
    for (const auto& [name, path] : options.set) {
      check_path(path, options.request.has_value());
      know(name);
    }
    step.name = !options.name.value.empty() ? options.name.value
                : options.request           ? options.request->value
                                            : first_line(options.sql->value);
    step.options = std::move(options);
    suite_.steps.push_back(std::move(step));
  }

  void check_request(StepOptions& options, Step& step) {
    const std::string& text = options.request->value;
    const std::size_t blank = text.find(' ');
    step.method = text.substr(0, blank);
    step.target = blank == text.npos ? "" : text.substr(std::min(text.find_first_not_of(' ', blank), text.size()));
    const bool has_method =
        http::is_token(step.method) && std::ranges::all_of(step.method, [](char c) { return c < 'a' || c > 'z'; });
    if (!has_method || !(step.target.starts_with('/') || step.target.starts_with("${"))) {
      complain(options.request->position, "a request is a method and a path", "write \"GET /films?q=a\"");
    } else if (std::ranges::any_of(step.target,
                                   [](char c) { return static_cast<unsigned char>(c) <= 0x20 || c == 0x7f; })) {
      complain(options.request->position, "a path has no blanks and no control characters", "write %20");
    }
    check_text(*options.request);
    check_fields(options.headers);
    if (options.token) {
      check_value(*options.token);
      step.token = json_of(*options.token, Side::request, suite_.source, errors_);
      if (step.token->kind != Json::Kind::object) {
        complain(options.token->position, "a token is a table of claims", "write token = { sub = \"1\" }");
      }
    } else if (!options.token_policy.value.empty()) {
      complain(options.token_policy.position, "\"token_policy\" is for a \"token\"");
    }
    if (options.json.has_value() + options.body.has_value() + options.body_file.has_value() + !options.form.empty() >
        1) {
      complain(options.position, "a request has one body: \"json\", \"body\", \"body_file\" or \"form\"");
    }
    for (const auto& [name, part] : options.form) {
      if (part.value.has_value() == part.file.has_value()) {
        complain(name.position, "a part of a form has a \"value\" or a \"file\"");
      } else if (part.filename && part.value) {
        complain(name.position, "\"filename\" is for a \"file\"");
      }
      const std::string_view texts[] = {name.value, part.type, part.filename ? *part.filename : std::string_view{}};
      const auto is_bad = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f || c == '"'; };
      if (std::ranges::any_of(texts, [&](std::string_view text) { return std::ranges::any_of(text, is_bad); })) {
        complain(name.position, "this cannot be written into the header of a part");
      }
      if (part.value) check_text(*part.value, name.position);
    }
    if (options.json) {
      check_value(*options.json);
      step.json = json_of(*options.json, Side::request, suite_.source, errors_);
    }
    if (options.body) check_text(*options.body);
    if (options.sqlstate) complain(options.sqlstate->position, "\"sqlstate\" is for \"sql\"");
    if (!options.database.value.empty()) complain(options.database.position, "\"database\" is for \"sql\"");
  }

  void check_statement(StepOptions& options, Step&) {
    const auto only_requests = [&](bool is_there, Position position, std::string_view key) {
      if (is_there) complain(position, fmt::format("\"{}\" is for a request", key));
    };
    only_requests(options.token.has_value(), options.token ? options.token->position : Position{}, "token");
    only_requests(options.json.has_value(), options.json ? options.json->position : Position{}, "json");
    only_requests(options.body.has_value(), options.body ? options.body->position : Position{}, "body");
    only_requests(options.body_file.has_value(), options.body_file ? options.body_file->position : Position{},
                  "body_file");
    only_requests(!options.form.empty(), options.form.empty() ? Position{} : options.form[0].name.position, "form");
    only_requests(options.expect_file.has_value(), options.expect_file ? options.expect_file->position : Position{},
                  "expect_file");
    only_requests(options.status.has_value(), options.status ? options.status->position : Position{}, "status");
    only_requests(options.text.has_value(), options.text ? options.text->position : Position{}, "text");
    only_requests(!options.headers.empty(), options.position, "headers");
    only_requests(!options.expect_headers.empty(), options.position, "expect_headers");
    if (options.sqlstate && options.sqlstate->value.size() != 5) {
      complain(options.sqlstate->position, "a SQLSTATE has five characters, as \"23505\" has");
    }
    if (options.sqlstate && (options.expect || options.exact || options.table || !options.set.empty())) {
      complain(options.sqlstate->position, "a statement that fails has no rows");
    }
    if (first_line(options.sql->value).empty()) complain(options.sql->position, "a statement must not be empty");
    // The syntax of PostgreSQL and SQLite differs little. If the statement cannot be parsed here, the database reports
    // the error.
    if (const auto parsed = sql::parse_parameters(options.sql->value, sql::PlaceholderStyle::dollar)) {
      for (const auto& placeholder : parsed->placeholders) {
        const std::string name = options.sql->value.substr(placeholder.source_begin + 1,
                                                           placeholder.source_end - placeholder.source_begin - 1);
        const auto character = sql::character_position(options.sql->value, placeholder.source_begin);
        check_known(name, suite_.source.locate(options.sql->position, character));
      }
    }
  }

  void check_expectation(StepOptions& options, Step& step) {
    for (const auto& [name, value] : options.expect_headers) {
      check_text(value);
      step.expect_headers.emplace_back(name.value, text_expectation(value, errors_));
    }
    if (options.text) {
      check_text(*options.text);
      step.text = text_expectation(*options.text, errors_);
    }
    if (options.expect_file && (options.text || options.expect || options.exact || options.table)) {
      complain(options.expect_file->position, "a body that is compared with a file is compared with nothing else");
    }
    if (options.expect.has_value() + options.exact.has_value() + options.table.has_value() > 1) {
      complain(options.position, "a step has one of \"expect\", \"exact\" and \"table\"");
    }
    for (const auto& value : {options.expect, options.exact}) {
      if (!value) continue;
      check_value(*value);
      step.expected = json_of(*value, Side::expectation, suite_.source, errors_);
    }
    if (options.exact) step.match = Match::exact;
    if (options.table) read_table(*options.table, step);
    if (!options.unordered.value) return;
    step.order = Order::any;
    if (!step.expected || step.expected->kind != Json::Kind::array) {
      complain(options.unordered.position, "\"unordered\" is for rows: a \"table\", or a list");
    }
  }

  void read_table(const Located<std::string>& table, Step& step) {
    check_text(table);
    auto rows = parse_table(table.value);
    if (!rows) {
      const auto character = sql::character_position(table.value, rows.error().offset.value_or(0));
      return complain(suite_.source.locate(table.position, character), rows.error().message);
    }
    Value as_text;
    as_text.kind = Value::Kind::string;
    as_text.position = table.position;
    as_text.text = print_json(*rows);
    step.expected = json_of(as_text, Side::expectation, suite_.source, errors_);
  }

  void check_path(const Located<std::string>& path, bool is_request) {
    const std::vector<std::string> parts = split_path(path.value);
    const auto is_one_of = [&](std::initializer_list<std::string_view> names) {
      return std::ranges::find(names, parts.front()) != names.end();
    };
    const bool good = is_request ? is_one_of({"body", "header", "status"}) : is_one_of({"rows"});
    const bool right_size =
        parts.front() == "header" ? parts.size() == 2 : parts.front() != "status" || parts.size() == 1;
    if (good && right_size && std::ranges::none_of(parts, &std::string::empty)) return;
    complain(
        path.position, "this is not a part of the answer",
        is_request ? "write \"body.id\", \"body.0.id\", \"header.Location\" or \"status\"" : "write \"rows.0.id\"");
  }

  static std::string first_line(std::string_view text) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
    return std::string(text.substr(0, text.find('\n')));
  }

  Suite& suite_;
  std::vector<Diagnostic>& errors_;
  std::set<std::string, std::less<>> known_;
};

void check_files(const Suite& suite, std::vector<Diagnostic>& errors) {
  const auto check = [&](const std::string& path, Position position) {
    std::error_code error;
    if (std::filesystem::is_regular_file(suite.file(path), error)) return;
    errors.push_back({position, "there is no such file", fmt::format("it would be {}", suite.file(path))});
  };
  for (const auto& [name, database] : suite.options.databases) {
    for (const auto& script : database.schema) {
      std::set<std::string> names;
      for (const auto& kind : suite.options.runs_on) names.insert(schema_file(script.value, kind.value));
      for (const std::string& path : names) check(path, script.position);
    }
  }
  for (const Step& step : suite.steps) {
    for (const auto* file : {&step.options.body_file, &step.options.expect_file}) {
      if (*file) check((*file)->value, (*file)->position);
    }
    for (const auto& [name, part] : step.options.form) {
      if (part.file) check(part.file->value, part.file->position);
    }
  }
}

Suite read(config::Source source, std::vector<Diagnostic>& errors) {
  Suite suite;
  suite.source = std::move(source);
  const auto document = config::parse_document(suite.source, errors);
  if (!document) return suite;
  config::Reader(errors).read(*document, suite.options);
  Checker(suite, errors).run();
  return suite;
}

std::expected<Suite, config::Errors> outcome(Suite suite, std::vector<Diagnostic> errors) {
  if (errors.empty()) return suite;
  std::ranges::sort(errors, {}, [](const Diagnostic& one) { return std::tie(one.position, one.message); });
  return std::unexpected(config::Errors{std::move(suite.source), std::move(errors)});
}

}  // namespace

std::string Suite::file(std::string_view path) const {
  return (std::filesystem::path(folder) / std::filesystem::path(path)).string();
}

bool Suite::runs_on(DatabaseKind kind) const {
  return std::ranges::any_of(options.runs_on, [&](const auto& one) { return one.value == kind; });
}

std::expected<Suite, config::Errors> parse_suite(config::Source source) {
  std::vector<Diagnostic> errors;
  Suite suite = read(std::move(source), errors);
  return outcome(std::move(suite), std::move(errors));
}

std::expected<Suite, config::Errors> load_suite(const std::string& path) {
  auto source = config::read_source(path);
  if (!source) return std::unexpected(std::move(source.error()));
  std::vector<Diagnostic> errors;
  Suite suite = read(std::move(*source), errors);
  suite.folder = std::filesystem::path(path).parent_path().string();
  check_files(suite, errors);
  return outcome(std::move(suite), std::move(errors));
}

std::string schema_file(std::string_view written, DatabaseKind kind) {
  std::string name(written);
  for (std::size_t at = 0; (at = name.find(database_variable, at)) != name.npos;) {
    const std::string_view value = kind == DatabaseKind::sqlite ? "sqlite" : "postgres";
    name.replace(at, database_variable.size(), value);
    at += value.size();
  }
  return name;
}

std::vector<std::string> split_path(std::string_view path) {
  std::vector<std::string> parts;
  for (;;) {
    const std::size_t dot = path.find('.');
    parts.emplace_back(path.substr(0, dot));
    if (dot == path.npos) return parts;
    path.remove_prefix(dot + 1);
  }
}

}  // namespace sluice::app::suite
