#include "app/log/request_log.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "app/log/log_text.h"
#include "core/sleep.h"
#include "gateway/proxy/passed_on.h"
#include "http/identity.h"
#include "http/request_id.h"
#include "sql/set/fault_text.h"

namespace sluice::app {
namespace {

using Item = RequestLogPlan::Item;

constexpr Duration patience = 10s;  // for one statement
constexpr std::array<std::pair<std::string_view, Item>, 20> names{
    {{"time", Item::time},       {"client", Item::client},      {"method", Item::method},
     {"target", Item::target},   {"path", Item::path},          {"query", Item::query},
     {"route", Item::route},     {"host", Item::host},          {"user_agent", Item::user_agent},
     {"headers", Item::headers}, {"subject", Item::subject},    {"request_id", Item::request_id},
     {"status", Item::status},   {"bytes", Item::bytes},        {"duration_us", Item::duration_us},
     {"broken", Item::broken},   {"upstream", Item::upstream},  {"server", Item::server},
     {"tries", Item::tries},     {"server_us", Item::server_us}}};

// The JSON object of a row.
class Row {
 public:
  // Adds the name; the value follows.
  std::string& add(Item item) {
    return text_ += (text_.size() == 1 ? "\"" : ",\"") + std::string(RequestLogPlan::name_of(item)) + "\":";
  }
  void text(Item item, std::string_view value) {
    std::string without_nul;  // a text in PostgreSQL cannot contain NUL
    if (value.contains('\0')) {
      std::ranges::replace_copy(value, std::back_inserter(without_nul), '\0', '?');
      value = without_nul;
    }
    append_log_string(add(item), value);
  }
  void number(Item item, auto value) { add(item) += std::to_string(value); }
  void microseconds(Item item, Duration time) {
    number(item, std::chrono::duration_cast<std::chrono::microseconds>(time).count());
  }
  [[nodiscard]] std::string take() { return std::move(text_ += '}'); }

 private:
  std::string text_ = "{";
};

// Adds an item that is known without a request. Returns false if it is not one of these.
bool add_of_answer(Row& row, Item item, const http::Completion& completion, std::int64_t now) {
  switch (item) {
    case Item::time: {
      std::string& text = row.add(item) += '"';
      append_log_time(text, now);
      text += '"';
      return true;
    }
    case Item::client:
      row.text(item, completion.peer);
      return true;
    case Item::status:
      row.number(item, completion.status);
      return true;
    case Item::bytes:
      row.number(item, completion.body_bytes);
      return true;
    case Item::duration_us:
      row.microseconds(item, completion.duration);
      return true;
    case Item::broken:
      row.add(item) += completion.broken ? "true" : "false";
      return true;
    default:
      return false;
  }
}

// Adds an item about the server that a request was passed on to; null: to none. Returns false if it is not one of
// these.
bool add_of_server(Row& row, Item item, const gateway::PassedOn* passed_on) {
  switch (item) {
    case Item::upstream:
      if (passed_on != nullptr) row.text(item, passed_on->server().upstream);
      return true;
    case Item::server:
      if (passed_on != nullptr) row.text(item, passed_on->server().address);
      return true;
    case Item::tries:
      if (passed_on != nullptr) row.number(item, passed_on->tries);
      return true;
    case Item::server_us:
      if (passed_on != nullptr) row.microseconds(item, passed_on->to_head);
      return true;
    default:
      return false;
  }
}

void add_of_request(Row& row, Item item, const http::Exchange& exchange, const Redaction& redaction,
                    std::span<const std::string> routes) {
  const http::Request& request = exchange.request;
  std::string shown;
  switch (item) {
    case Item::method:
      return row.text(item, request.method_text);
    case Item::target:
      redaction.append_address(shown, request.target);
      return row.text(item, shown);
    case Item::path:
      redaction.append_address(shown, request.path);
      return row.text(item, shown);
    case Item::query:
      if (request.query.empty()) return;
      redaction.append_query(shown, request.query);
      return row.text(item, shown);
    case Item::route:
      if (request.route != 0 && request.route < routes.size()) row.text(item, routes[request.route]);
      return;
    case Item::host:
      return row.text(item, request.authority);
    case Item::user_agent:
      if (!request.has_field("user-agent")) return;
      redaction.append_address(shown, request.field("user-agent"));
      return row.text(item, shown);
    case Item::headers:
      // As a string, because the column may have any type that accepts JSON.
      return redaction.append_fields(row.add(item), request.fields);
    case Item::subject:
      if (const auto subject = http::subject_of(exchange); !subject.empty()) row.text(item, subject);
      return;
    case Item::request_id:
      if (const auto id = http::request_id_of(exchange); !id.empty()) row.text(item, id);
      return;
    default:
      return;
  }
}

}  // namespace

std::string_view RequestLogPlan::name_of(Item item) {
  return std::ranges::find(names, item, &std::pair<std::string_view, Item>::second)->first;
}

std::vector<Item> RequestLogPlan::items_of(const sql::Table& table) {
  std::vector<Item> items;
  for (const auto& [name, item] : names) {
    const auto* column = table.find(name);
    if (column != nullptr && !column->generated) items.push_back(item);
  }
  return items;
}

std::string RequestLogPlan::insert_of(const sql::Table& table, std::span<const Item> items, sql::Dialect dialect) {
  std::string columns;
  std::string values;
  for (const Item item : items) {
    const std::string name = sql::quoted_identifier(name_of(item));
    columns += (columns.empty() ? "" : ", ") + name;
    values += values.empty() ? "" : ", ";
    values += dialect == sql::Dialect::postgres ? name : "json_extract(value, '$." + std::string(name_of(item)) + "')";
  }
  const std::string from = dialect == sql::Dialect::postgres
                               ? "json_populate_recordset(NULL::" + table.name + ", cast(:rows AS json))"
                               : "json_each(:rows)";
  return "INSERT INTO " + table.name + " (" + columns + ") SELECT " + values + " FROM " + from;
}

RequestLog::RequestLog(const RequestLogPlan& plan, const Redaction& redaction, std::span<const std::string> routes,
                       sql::Database& database, core::Reactor& reactor)
    : plan_(plan),
      routes_(routes),
      database_(database),
      reactor_(reactor),
      redaction_(redaction),
      trouble_("request_log: table " + plan.options.table.value, "answers again", "attempts failed") {}

RequestLog::~RequestLog() {
  if (rows_.empty()) return;
  log_error("request_log: table " + plan_.options.table.value + ": " + std::to_string(rows_.size()) +
            (rows_.size() == 1 ? " row was" : " rows were") + " not written before the end");
}

std::string RequestLog::row_of(const http::Completion& completion) const {
  Row row;
  for (const Item item : plan_.items) {
    if (add_of_answer(row, item, completion, reactor_.wall_clock_ns())) continue;
    if (completion.exchange == nullptr) continue;  // the received bytes were not a valid request
    if (add_of_server(row, item, completion.exchange->attributes.find<gateway::PassedOn>())) continue;
    add_of_request(row, item, *completion.exchange, redaction_, routes_);
  }
  return row.take();
}

void RequestLog::add(const http::Completion& completion) {
  if (rows_.size() >= plan_.options.queue) {
    ++counters_.dropped;
  } else {
    rows_.push_back(row_of(completion));
  }
}

core::Task<void> RequestLog::run() {
  for (;;) {
    co_await core::Sleep(reactor_, reactor_.now() + plan_.options.every);
    while (!busy_ && !rows_.empty()) {
      if (!co_await write(reactor_.now() + patience)) break;
    }
  }
}

core::Task<void> RequestLog::flush(Instant deadline) {
  while (reactor_.now() < deadline && (busy_ || !rows_.empty())) {
    if (busy_) {
      co_await core::Sleep(reactor_, reactor_.now() + 5ms);
    } else if (!co_await write(deadline)) {
      co_return;
    }
  }
}

// Returns false if the remaining rows must wait.
core::Task<bool> RequestLog::write(Instant deadline) {
  writing_ = std::min(rows_.size(), at_once_);
  std::string json = "[";
  for (std::size_t i = 0; i < writing_; ++i) {
    if (i != 0) json += ',';
    json += rows_[i];
  }
  json += ']';
  busy_ = true;
  const sql::Argument argument{.text = json};
  const auto transaction = database_.begin({.deadline = deadline, .settings = {}});
  const auto written = co_await transaction->finish(plan_.insert, {&argument, 1}, SIZE_MAX);
  busy_ = false;
  const std::size_t count = std::exchange(writing_, 0);
  bool gone = true;
  if (written) {
    trouble_.got_through();
    counters_.written += count;
    at_once_ = std::min(rows_at_once, 2 * at_once_);
  } else if (count > 1 && sql::is_of_a_row(written.error().sqlstate)) {
    at_once_ = count / 2;
    co_return true;
  } else {
    const sql::Error& error = written.error();
    trouble_.met(error.sqlstate + (error.sqlstate.empty() ? "" : " ") + error.message);
    // A row that the database has refused would be refused again. After a broken connection it is unknown whether the
    // rows were written; they are written again, because duplicates are better than lost rows.
    gone = error.failure == sql::Failure::statement || error.failure == sql::Failure::bad_argument ||
           error.failure == sql::Failure::not_allowed;
    if (gone) counters_.dropped += count;
  }
  if (gone) rows_.erase(rows_.begin(), rows_.begin() + static_cast<std::ptrdiff_t>(count));
  co_return gone;
}

Readings RequestLog::Counters::readings() const {
  return {
      counter("sluice_request_log_rows_total", "Requests that [request_log] wrote to its table.", written),
      counter("sluice_request_log_dropped_total", "Requests that it could not write.", dropped),
  };
}

}  // namespace sluice::app
