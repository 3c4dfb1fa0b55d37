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
  std::string row = "{";
  const http::Request* const request = completion.exchange != nullptr ? &completion.exchange->request : nullptr;
  for (const Item item : plan_.items) {
    const auto name = [&] {
      row += (row.size() == 1 ? "\"" : ",\"") + std::string(RequestLogPlan::name_of(item)) + "\":";
    };
    const auto text = [&](std::string_view value) {
      name();
      std::string without_nul;  // a text in PostgreSQL cannot contain NUL
      if (value.contains('\0')) {
        std::ranges::replace_copy(value, std::back_inserter(without_nul), '\0', '?');
        value = without_nul;
      }
      append_log_string(row, value);
    };
    switch (item) {
      case Item::time:
        name();
        row += '"';
        append_log_time(row, reactor_.wall_clock_ns());
        row += '"';
        continue;
      case Item::client:
        text(completion.peer);
        continue;
      case Item::status:
        name();
        row += std::to_string(completion.status);
        continue;
      case Item::bytes:
        name();
        row += std::to_string(completion.body_bytes);
        continue;
      case Item::duration_us:
        name();
        row += std::to_string(std::chrono::duration_cast<std::chrono::microseconds>(completion.duration).count());
        continue;
      case Item::broken:
        name();
        row += completion.broken ? "true" : "false";
        continue;
      default:
        break;
    }
    if (request == nullptr) continue;  // the received bytes were not a valid request
    const auto* const passed_on = completion.exchange->attributes.find<gateway::PassedOn>();
    std::string shown;
    switch (item) {
      case Item::method:
        text(request->method_text);
        break;
      case Item::target:
        redaction_.append_address(shown, request->target);
        text(shown);
        break;
      case Item::path:
        redaction_.append_address(shown, request->path);
        text(shown);
        break;
      case Item::query:
        if (request->query.empty()) break;
        redaction_.append_query(shown, request->query);
        text(shown);
        break;
      case Item::route:
        if (request->route != 0 && request->route < routes_.size()) text(routes_[request->route]);
        break;
      case Item::host:
        text(request->authority);
        break;
      case Item::user_agent:
        if (!request->has_field("user-agent")) break;
        redaction_.append_address(shown, request->field("user-agent"));
        text(shown);
        break;
      case Item::headers: {
        // As a string, because the column may have any type that accepts JSON.
        name();
        redaction_.append_fields(row, request->fields);
        break;
      }
      case Item::subject:
        if (const auto subject = http::subject_of(*completion.exchange); !subject.empty()) text(subject);
        break;
      case Item::upstream:
        if (passed_on != nullptr) text(passed_on->server().upstream);
        break;
      case Item::server:
        if (passed_on != nullptr) text(passed_on->server().address);
        break;
      case Item::tries:
        if (passed_on == nullptr) break;
        name();
        row += std::to_string(passed_on->tries);
        break;
      case Item::server_us:
        if (passed_on == nullptr) break;
        name();
        row += std::to_string(std::chrono::duration_cast<std::chrono::microseconds>(passed_on->to_head).count());
        break;
      case Item::request_id:
        if (const auto id = http::request_id_of(*completion.exchange); !id.empty()) text(id);
        break;
      default:
        break;
    }
  }
  return row += '}';
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
