#include "app/suite/step.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/suite/client.h"
#include "app/suite/diff.h"
#include "files/media_type.h"
#include "http/response.h"

namespace sluice::app::suite {
namespace {

constexpr std::size_t most_shown = 4096;  // bytes of a text
constexpr std::size_t most_problems = 20;

// Escapes a variable's value for a path or a query: all characters except RFC 3986's unreserved ones.
std::string escape_segment(std::string_view value) {
  std::string result;
  for (const char c : value) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                       c == '.' || c == '_' || c == '~';
    result += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return result;
}

const Json* find_path(const Json& value, const std::vector<std::string>& path, std::size_t from) {
  const Json* at = &value;
  for (std::size_t i = from; i < path.size() && at != nullptr; ++i) {
    if (at->kind == Json::Kind::object) {
      at = at->find(path[i]);
      continue;
    }
    std::size_t index = 0;
    const char* const end = path[i].data() + path[i].size();
    const auto [stopped, error] = std::from_chars(path[i].data(), end, index);
    const bool is_item = at->kind == Json::Kind::array && error == std::errc() && stopped == end;
    at = is_item && index < at->items.size() ? &at->items[index] : nullptr;
  }
  return at;
}

// Shortens a value to one line's length, without splitting a character.
std::string shown(std::string_view text) {
  constexpr std::size_t most = 200;
  if (text.size() <= most) return std::string(text);
  std::size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return std::string(text.substr(0, end)) + "…";
}

}  // namespace

std::string cut(std::string_view text) {
  if (text.size() <= most_shown) return std::string(text);
  return fmt::format("{}\n(and {} bytes more)", text.substr(0, most_shown), text.size() - most_shown);
}

std::expected<Json, std::string> read_body(const Answer& answer) {
  const std::string* const field = answer.field("Content-Type");
  std::string type = field == nullptr ? "" : field->substr(0, field->find(';'));
  while (type.ends_with(' ')) type.pop_back();
  if (type == "application/json" || type.ends_with("+json")) {
    auto body = parse_json(answer.body);
    if (!body) return std::unexpected("it is not JSON: " + body.error().text());
    return std::move(*body);
  }
  if (type == "application/csj") {
    auto rows = parse_table(answer.body);
    if (!rows) return std::unexpected("it is not CSJ: " + rows.error().text());
    return std::move(*rows);
  }
  if (type == "application/x-ndjson") {
    Json rows = Json::array();
    std::string_view rest = answer.body;
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      auto row = parse_json(rest.substr(0, end));
      if (!row) return std::unexpected("it is not NDJSON: " + row.error().message);
      rows.items.push_back(std::move(*row));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return rows;
  }
  return std::unexpected(type.empty() ? "it has no Content-Type" : fmt::format("it is {}", type));
}

// Reads a file of the suite's folder. If that fails, adds a problem and returns nothing.
std::optional<std::string> StepRun::read_file(const std::string& path) {
  std::ifstream file(suite_.file(path), std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (file) return text.str();
  if (std::error_code error; std::filesystem::file_size(suite_.file(path), error) == 0 && !error) return "";
  problem(fmt::format("{} cannot be read", path));
  return std::nullopt;
}

bool StepRun::prepare_form(RequestText& request, std::string& type) {
  std::string body;
  std::string boundary = "sluice-test";
  std::vector<std::string> contents;
  for (const auto& [name, part] : step_.options.form) {
    if (part.value) {
      auto value = expand(*part.value, variables_);
      if (!value) return problem(value.error()), false;
      contents.push_back(std::move(*value));
    } else {
      auto bytes = read_file(part.file->value);
      if (!bytes) return false;
      contents.push_back(std::move(*bytes));
    }
    while (contents.back().contains(boundary)) boundary += '-';
  }
  for (std::size_t i = 0; i < contents.size(); ++i) {
    const auto& [name, part] = step_.options.form[i];
    body += fmt::format("--{}\r\nContent-Disposition: form-data; name=\"{}\"", boundary, name.value);
    std::string media_type = part.type;
    if (part.file) {
      const std::string& path = part.file->value;
      body += fmt::format("; filename=\"{}\"", part.filename.value_or(path.substr(path.rfind('/') + 1)));
      if (media_type.empty()) media_type = files::media_type_of(path);
    }
    if (!media_type.empty()) body += "\r\nContent-Type: " + media_type;
    body += "\r\n\r\n" + contents[i] + "\r\n";
  }
  request.body = body + "--" + boundary + "--\r\n";
  type = "multipart/form-data; boundary=" + boundary;
  return true;
}

bool StepRun::prepare_body(RequestText& request) {
  const StepOptions& options = step_.options;
  std::string type;
  if (step_.json) {
    const auto body = expand(*step_.json, variables_);
    if (!body) return problem(body.error()), false;
    request.body = print_json(*body);
    type = "application/json";
  } else if (options.body) {
    auto body = expand(options.body->value, variables_);
    if (!body) return problem(body.error()), false;
    request.body = std::move(*body);
  } else if (options.body_file) {
    auto bytes = read_file(options.body_file->value);
    if (!bytes) return false;
    request.body = std::move(*bytes);
    type = files::media_type_of(options.body_file->value);
  } else if (!options.form.empty()) {
    if (!prepare_form(request, type)) return false;
  } else {
    request.has_body = step_.method == "POST" || step_.method == "PUT" || step_.method == "PATCH";
    return true;
  }
  request.has_body = true;
  const bool is_said =
      std::ranges::any_of(request.fields, [](const auto& f) { return http::same_name(f.first, "Content-Type"); });
  if (!type.empty() && !is_said) request.fields.emplace_back("Content-Type", type);
  return true;
}

void StepRun::run_request(const core::Address& server, const Tokens& tokens, Instant deadline, Signals& signals) {
  RequestText request;
  request.method = step_.method;
  auto target = expand(step_.target, variables_, escape_segment);
  if (!target) return problem(target.error());
  for (const char c : *target) {
    request.target += static_cast<unsigned char>(c) < 0x80 ? std::string(1, c) : escape_segment({&c, 1});
  }
  if (step_.token) {
    auto claims = expand(*step_.token, variables_);
    if (!claims) return problem(claims.error());
    request.fields.push_back(tokens.field(step_.options.token_policy.value, std::move(*claims)));
  }
  for (const Texts* fields : {&step_.options.headers, &suite_.options.headers}) {
    for (const auto& [name, value] : *fields) {
      const bool is_said = std::ranges::any_of(request.fields, [&](const auto& field) {
        return fields == &suite_.options.headers && http::same_name(field.first, name.value);
      });
      if (is_said) continue;
      auto expanded = expand(value.value, variables_);
      if (!expanded) return problem(expanded.error());
      request.fields.emplace_back(name.value, std::move(*expanded));
    }
  }
  if (!prepare_body(request)) return;
  const auto text = write_request(request);
  if (!text) return problem(text.error());
  sent_ = *text;
  std::erase(sent_, '\r');
  auto answer = send_request(server, request, deadline, signals);
  if (!answer) return problem(answer.error());
  judge(std::move(*answer));
}

void StepRun::judge(Answer came) {
  answer_ = std::move(came);
  const Answer& answer = *answer_;
  if (step_.options.status && answer.status != step_.options.status->value) {
    problem(fmt::format("status: expected {}, got {}", step_.options.status->value, answer.status));
  } else if (!step_.options.status && (answer.status < 200 || answer.status > 299)) {
    problem(fmt::format("status: expected 200 to 299, got {}", answer.status));
  }
  for (const auto& [name, wanted] : step_.expect_headers) {
    const auto expected = expand(wanted, variables_);
    if (!expected) {
      problem(expected.error());
      continue;
    }
    const std::string* const field = answer.field(name);
    const std::optional<Json> got = field == nullptr ? std::nullopt : std::optional(Json::string(*field));
    if (meets(*expected, got ? &*got : nullptr)) continue;
    problem(
        fmt::format("header.{}: expected {}, got {}", name, print_json(*expected), got ? print_json(*got) : "nothing"));
  }
  if (step_.text) {
    const auto expected = expand(*step_.text, variables_);
    const Json got = Json::string(answer.body);
    if (!expected) {
      problem(expected.error());
    } else if (!meets(*expected, &got)) {
      problem(expected->kind == Json::Kind::marker ? fmt::format("the body is not {}", expected->text)
                                                   : "the body is another text");
      if (expected->kind != Json::Kind::marker) diff_ = diff_lines(expected->text, answer.body);
    }
  }
  if (step_.options.expect_file) {
    const auto expected = read_file(step_.options.expect_file->value);
    if (expected && *expected != answer.body) {
      problem(fmt::format("the body is not {}: {} bytes, and not {}, which differ from byte {} on",
                          step_.options.expect_file->value, answer.body.size(), expected->size(),
                          std::ranges::mismatch(*expected, answer.body).in1 - expected->begin()));
    }
  }
  const auto body = read_body(answer);
  if (step_.expected && !body) {
    problem(fmt::format("the body cannot be compared: {}", body.error()));
  } else if (step_.expected) {
    compare_body(*body, "body");
  }
  set_variables(body ? &*body : nullptr);
}

void StepRun::run_statement(Database& database, Instant deadline) {
  sent_ = step_.options.sql->value;
  auto rows = database.query(step_.options.sql->value, variables_, deadline);
  const auto& sqlstate = step_.options.sqlstate;
  if (!rows) {
    const sql::Error& error = rows.error();
    if (sqlstate && error.sqlstate == sqlstate->value) return;
    std::string what = error.sqlstate.empty() ? error.message : fmt::format("{} ({})", error.message, error.sqlstate);
    if (error.position != 0) {
      const Position at = suite_.source.locate(step_.options.sql->position, error.position);
      what += fmt::format(", at {}:{}:{}", suite_.source.name(), at.line, at.column);
    }
    return problem(sqlstate ? fmt::format("the statement fails otherwise than with {}: {}", sqlstate->value, what)
                            : "the statement fails: " + what);
  }
  rows_ = std::move(*rows);
  if (sqlstate) problem(fmt::format("the statement does not fail with {}", sqlstate->value));
  if (step_.expected) compare_body(*rows_, "rows");
  set_variables(&*rows_);
}

void StepRun::compare_body(const Json& got, std::string_view called) {
  const auto expected = expand(*step_.expected, variables_);
  if (!expected) return problem(expected.error());
  const auto differences = compare(*expected, got, step_.match, step_.order, std::string(called));
  if (differences.empty()) return;
  for (const Difference& one : differences) {
    if (problems_.size() == most_problems) {
      problem("and more");
      break;
    }
    problem(fmt::format("{}: expected {}, got {}", one.path, shown(one.expected), shown(one.got)));
  }
  if (step_.options.table) {
    diff_ = diff_lines(print_table(*expected, *expected), print_table(got, *expected));
  } else if (step_.match == Match::exact) {
    diff_ = diff_lines(print_json_lines(*expected), print_json_lines(got));
  }
}

void StepRun::set_variables(const Json* body) {
  for (const auto& [name, written] : step_.options.set) {
    const std::vector<std::string> path = split_path(written.value);
    std::optional<Json> value;
    if (path[0] == "status") {
      value = Json::number(fmt::to_string(answer_->status));
    } else if (path[0] == "header") {
      if (const std::string* const field = answer_->field(path[1])) value = Json::string(*field);
    } else if (body != nullptr) {
      if (const Json* const found = find_path(*body, path, 1)) value = *found;
    }
    if (value) {
      variables_.values[name.value] = std::move(*value);
    } else {
      variables_.values.erase(name.value);
      problem(fmt::format("{}: nothing was sent to set \"{}\" from", written.value, name.value));
    }
  }
}

Tap::Details StepRun::details() const {
  Tap::Details details;
  details.emplace_back("message", message());
  details.emplace_back("at", fmt::format("{}:{}", suite_.source.name(), step_.options.position.line));
  if (problems_.size() > 1) details.emplace_back("differences", fmt::format("{}\n", fmt::join(problems_, "\n")));
  if (!diff_.empty()) details.emplace_back("diff", cut("--- expected\n+++ got\n" + diff_));
  details.emplace_back(step_.is_request() ? "request" : "sql", cut(sent_));
  if (answer_) {
    std::string text = fmt::format("{}\n", answer_->status);
    for (const auto& [name, value] : answer_->fields) text += fmt::format("{}: {}\n", name, value);
    details.emplace_back("answer", cut(text + "\n" + answer_->body));
  }
  if (rows_) details.emplace_back("rows", cut(print_json_lines(*rows_)));
  return details;
}

std::string StepRun::transcript() const {
  std::string text = fmt::format("{}\n{}\n", step_.name, cut(sent_));
  if (answer_) {
    text += fmt::format("{}\n", answer_->status);
    for (const auto& [name, value] : answer_->fields) text += fmt::format("{}: {}\n", name, value);
    text += "\n" + cut(answer_->body);
  }
  if (rows_) text += cut(print_json_lines(*rows_));
  return text;
}

}  // namespace sluice::app::suite
