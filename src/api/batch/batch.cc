#include "api/batch/batch.h"

#include <algorithm>
#include <array>
#include <utility>

#include "api/batch/joint_database.h"
#include "api/batch/references.h"
#include "api/body/format.h"
#include "api/list/endpoint.h"
#include "api/query_names.h"
#include "api/refusals.h"
#include "base/ascii.h"
#include "base/json.h"
#include "core/back_off.h"
#include "core/next_turn.h"
#include "http/inner_request.h"
#include "sql/retries.h"

namespace sluice::api::batch {
namespace {

// Fields of the batch's request that do not apply to calls, or that a call sets itself.
constexpr std::array<std::string_view, 19> not_passed_on{"accept",
                                                         "accept-encoding",
                                                         "connection",
                                                         "content-encoding",
                                                         "content-length",
                                                         "content-range",
                                                         "content-type",
                                                         "expect",
                                                         "if-match",
                                                         "if-modified-since",
                                                         "if-none-match",
                                                         "if-range",
                                                         "if-unmodified-since",
                                                         "keep-alive",
                                                         "range",
                                                         "te",
                                                         "trailer",
                                                         "transfer-encoding",
                                                         "upgrade"};

// Whether an endpoint sets an isolation that a batch must apply.
bool has_isolation(const Plan& plan) {
  return std::ranges::any_of(plan.routes, [](const Plan::Route& route) {
    return std::ranges::any_of(route.writes,
                               [](const auto& write) { return write->isolation != sql::Isolation::standard; });
  });
}

std::string_view credential_of(const Plan& plan) {
  for (const Plan::Route& route : plan.routes) {
    if (route.get && !route.get->credential().empty()) return route.get->credential();
    for (const auto& write : route.writes) {
      if (!write->credential().empty()) return write->credential();
    }
  }
  return {};
}

bool has_conditions(const std::vector<Call>& calls) {
  return std::ranges::any_of(calls, [](const Call& call) {
    return std::ranges::any_of(
        call.fields, [](const auto& field) { return field.first == "if-match" || field.first == "if-none-match"; });
  });
}

bool passed_on(std::string_view name) {
  return std::ranges::none_of(not_passed_on, [&](std::string_view each) { return http::same_name(each, name); });
}

constexpr std::size_t turn_bytes = 64 << 10;  // bytes of answers and bodies per turn of the loop

// For methods that cannot be called.
class Unavailable final : public http::Handler {
 public:
  explicit Unavailable(std::string_view why) : why_(why) {}
  core::Async<http::Response> handle(http::Exchange&) override { return http::problem(422, why_); }

 private:
  const std::string_view why_;
};

void append_member(Buffer& out, std::string_view name, std::string_view text) {
  out.push_back('"');
  append_json_escaped(out, name);
  out.append("\":\"");
  append_json_escaped(out, text);
  out.push_back('"');
}

http::Response refuse_answers(const Options& options) {
  return http::problem(422, "The answers of the batch are longer than " + std::to_string(options.answer_limit.bytes) +
                                " bytes; nothing of it has been done.");
}

http::Response refuse_call(const CallFault& fault) {
  Buffer members;
  append_member(members, "pointer", fault.pointer);
  return http::problem(400, "The batch cannot be read: " + fault.reason + ".", members.view());
}

}  // namespace

// The resources of one running batch: its own database and its own endpoints on it.
class Batch::Lane {
 public:
  Lane(const Plan& plan, sql::Database& database, const std::vector<Filters>& filters, core::Reactor& reactor,
       TroubleLog* trouble, TroubleLog* write_trouble)
      : database_(database) {
    const auto own = [&](std::unique_ptr<http::Handler> handler) {
      handlers_.push_back(std::move(handler));
      return handlers_.back().get();
    };
    for (std::size_t i = 0; i < plan.routes.size(); ++i) {
      const Plan::Route& from = plan.routes[i];
      http::Router::Route route{
          .pattern = *from.pattern, .host = from.host, .handlers = {}, .formats = true, .id = from.id};
      route.binding = std::make_shared<http::Binding>(http::Binding::Filters(), filters[i].of_route);
      for (const auto& [method, own] : filters[i].of_methods) route.binding->set_filters(method, {}, own);
      if (from.get && from.get->file) {
        route.handlers[static_cast<std::size_t>(http::Method::get)] = &no_files_;
      } else if (from.get && from.get->list) {
        route.handlers[static_cast<std::size_t>(http::Method::get)] =
            own(std::make_unique<list::Endpoint>(from.get, database_, reactor, trouble));
      } else if (from.get) {
        route.handlers[static_cast<std::size_t>(http::Method::get)] =
            own(std::make_unique<Endpoint>(from.get, database_, reactor, trouble));
      }
      for (const auto& write : from.writes) {
        if (!write->uploads.empty() || write->has_password) {
          route.handlers[static_cast<std::size_t>(write->method)] = write->has_password ? &no_passwords_ : &no_files_;
          continue;
        }
        route.handlers[static_cast<std::size_t>(write->method)] =
            own(std::make_unique<WriteEndpoint>(write, database_, reactor, write_trouble,
                                                std::vector<http::BlobStore*>{}, WriteEndpoint::Retries::callers));
      }
      for (const auto& set : from.sets) route.handlers[static_cast<std::size_t>(set->method)] = &no_sets_;
      (void)router_.add(route);  // cannot fail, because the service has added the same routes before
    }
  }

  [[nodiscard]] http::Router& router() { return router_; }
  [[nodiscard]] JointDatabase& database() { return database_; }

 private:
  JointDatabase database_;
  Unavailable no_sets_{"A set cannot be written in a batch."};
  Unavailable no_passwords_{"Passwords are not hashed in a batch."};
  Unavailable no_files_{"Files are neither sent nor fetched in a batch."};
  http::Router router_;
  std::vector<std::unique_ptr<http::Handler>> handlers_;
};

// The answer of a whole batch: the answers of all calls, or the refusal that ended it.
struct Batch::Answer {
  Buffer calls;  // the calls' answers, separated by commas
  std::optional<http::Response> refusal;
};

namespace {

// One call, as a request of its own.
class Calling final : public http::InnerRequest {
 public:
  Calling(const http::Request& outer, const Call& call, std::string target, std::string body)
      : InnerRequest(call.method, std::move(target), std::move(body), outer.body) {
    std::vector<http::Field> fields;
    for (const http::Field& field : outer.fields) {
      if (!passed_on(field.name)) continue;
      const bool own =
          std::ranges::any_of(call.fields, [&](const auto& its) { return http::same_name(its.first, field.name); });
      if (!own) fields.push_back(field);
    }
    for (const auto& [name, value] : call.fields) fields.push_back({name, value});
    set_fields(std::move(fields));
    request.version = outer.version;
    request.authority = outer.authority;
    request.peer = outer.peer;
    request.secure = outer.secure;
    request.certificate = outer.certificate;
  }
};

// The whole body. Returns nullopt if it is longer than `most` or breaks off.
core::Task<std::optional<std::string>> read_body(http::Response& response, std::size_t most) {
  std::string bytes;
  if (const auto* buffer = std::get_if<Buffer>(&response.body)) {
    bytes = buffer->view();
  } else if (const auto* shared = std::get_if<http::SharedBytes>(&response.body)) {
    bytes = shared->bytes;
  } else if (const auto* spans = std::get_if<http::SharedSpans>(&response.body)) {
    if (spans->size() > most) co_return std::nullopt;
    for (const std::string_view piece : spans->pieces()) bytes += piece;
  } else if (auto* source = std::get_if<std::unique_ptr<http::BodySource>>(&response.body)) {
    Buffer out;
    for (;;) {
      const auto pulled = co_await (*source)->pull(out);
      if (!pulled) co_return std::nullopt;
      if (*pulled == http::BodySource::Progress::done || out.size() > most) break;
    }
    bytes = out.view();
  }
  if (bytes.size() > most) co_return std::nullopt;
  co_return bytes;
}

// Does all of the work, and yields in between. Returns false if the deadline comes first.
template <class Work>
core::Task<bool> finish(Work& work, core::TurnShare& share, core::Reactor& reactor, Instant deadline) {
  for (std::size_t done = work.advance(); done != 0; done = work.advance()) {
    if (!share.spend(done)) continue;
    co_await share.next_turn();
    if (reactor.now() >= deadline) co_return false;
  }
  co_return true;
}

// {"status":201,"headers":{"location":"/films/7"},"body":{"id":7}}
void append_answer(Buffer& out, const http::Response& response, std::string_view body, bool is_json) {
  out.append(R"({"status":)" + std::to_string(response.status) + R"(,"headers":{)");
  bool first = true;
  for (const http::Field& field : response.fields.items()) {
    if (http::same_name(field.name, "Vary") || (is_json && http::same_name(field.name, "Content-Type"))) continue;
    if (!std::exchange(first, false)) out.push_back(',');
    append_member(out, to_lower(field.name), field.value);
  }
  out.push_back('}');
  if (is_json && !body.empty()) {
    out.append(R"(,"body":)");
    out.append(body);
  } else if (!body.empty()) {
    out.push_back(',');
    append_member(out, "body", body);
  }
  out.push_back('}');
}

bool is_json_type(std::string_view type) {
  type = type.substr(0, type.find(';'));
  return type == "application/json" || type.ends_with("+json");
}

}  // namespace

// The isolation that the calls need, which must be known before their common transaction begins. Used by one core.
class Batch::Isolations {
 public:
  explicit Isolations(const Plan& plan) {
    for (const Plan::Route& from : plan.routes) {
      http::Router::Route route{.pattern = *from.pattern, .host = from.host, .handlers = {}, .formats = true};
      for (const auto& write : from.writes) {
        const auto method = static_cast<std::size_t>(write->method);
        strictest_[method] = std::max(strictest_[method], write->isolation);
        handlers_.push_back(std::make_unique<Teller>(write->isolation, found_));
        route.handlers[method] = handlers_.back().get();
      }
      (void)router_.add(route);
    }
  }

  [[nodiscard]] sql::Isolation of(const http::Request& outer, const Call& call) {
    // A path with a reference to an earlier answer is not known yet.
    if (call.target.contains("${")) return strictest_[static_cast<std::size_t>(call.method)];
    Calling calling(outer, call, call.target, {});
    found_ = sql::Isolation::standard;
    if (calling.is_valid()) (void)router_.handle(calling);
    return found_;
  }

 private:
  class Teller final : public http::Handler {
   public:
    Teller(sql::Isolation isolation, sql::Isolation& into) : isolation_(isolation), into_(into) {}
    core::Async<http::Response> handle(http::Exchange&) override {
      into_ = isolation_;
      return http::Response{};
    }

   private:
    const sql::Isolation isolation_;
    sql::Isolation& into_;
  };

  http::Router router_;
  std::vector<std::unique_ptr<http::Handler>> handlers_;
  std::array<sql::Isolation, 8> strictest_{};
  sql::Isolation found_{};
};

Batch::Batch(const Plan& plan, sql::Database& database, std::vector<Filters> filters, core::Reactor& reactor,
             TroubleLog* trouble, TroubleLog* write_trouble)
    : plan_(plan),
      database_(database),
      filters_(std::move(filters)),
      reactor_(reactor),
      trouble_(trouble),
      write_trouble_(write_trouble),
      read_failures_(plan.options.path.value, trouble, plan.errors.get(), credential_of(plan)),
      write_failures_(plan.options.path.value, write_trouble, plan.errors.get(), credential_of(plan)),
      isolations_(has_isolation(plan) ? std::make_unique<Isolations>(plan) : nullptr) {}

Batch::~Batch() = default;

std::unique_ptr<Batch::Lane> Batch::take_lane() {
  if (spare_.empty()) return std::make_unique<Lane>(plan_, database_, filters_, reactor_, trouble_, write_trouble_);
  auto lane = std::move(spare_.back());
  spare_.pop_back();
  return lane;
}

core::Task<http::Response> Batch::run(http::Exchange& exchange) {
  http::Request& request = exchange.request;
  if (auto refusal = QueryNames().refuse(request)) co_return std::move(*refusal);
  if (request.body == nullptr) co_return http::problem(400, "The request has no body.");
  if (body_format(request) != BodyFormat::json) {
    co_return http::problem(415, "A batch is application/json, in UTF-8 and not compressed.");
  }
  if (announces_more(request, plan_.body_limit)) co_return refuse_length();
  std::string json;
  // The calls are copies of parts of the body.
  if (auto refused = co_await read_whole(request, plan_.body_limit, 2, json)) co_return std::move(*refused);
  const auto calls = parse_calls(json, plan_.limits, plan_.own_fields);
  if (!calls) co_return refuse_call(calls.error());
  json = {};

  if (running_ == plan_.options.concurrency) {
    http::Response busy = http::problem(503, "There are too many batches at once.");
    busy.fields.add("Retry-After", "1");
    co_return busy;
  }
  // Also runs if the client disconnects, which destroys this task.
  struct Use {
    Batch& batch;
    std::unique_ptr<Lane> lane;
    ~Use() {
      --batch.running_;
      lane->database().close();
      batch.spare_.push_back(std::move(lane));
    }
  };
  ++running_;
  const Use use{*this, take_lane()};
  JointDatabase& database = use.lane->database();
  // A row that was compared with a condition must not change before the end, and not every call can lock its row.
  sql::Isolation isolation = has_conditions(*calls) ? sql::Isolation::serializable : plan_.options.isolation;
  if (isolations_) {
    for (const Call& call : *calls) isolation = std::max(isolation, isolations_->of(request, call));
  }
  const bool reads_only =
      std::ranges::all_of(*calls, [](const Call& call) { return call.method == http::Method::get; });
  const Failures& failures = reads_only ? read_failures_ : write_failures_;
  core::BackOff back_off(reactor_, 2ms, 200ms);
  sql::Retries retries(plan_.options.retries);
  for (;;) {
    const auto& options = plan_.options;
    const Instant deadline = options.timeout ? reactor_.now() + *options.timeout : never;
    database.open({.deadline = deadline,
                   .isolation = isolation,
                   .settings = {},
                   .reads_only = reads_only,
                   .result_bytes = options.answer_limit});
    Answer answer = co_await attempt(*use.lane, request, *calls, deadline);
    const auto& failure = database.failure();
    if (!failure && !answer.refusal) {
      (void)co_await database.commit();
      if (!failure) {
        http::Response response;
        response.fields.add_trusted("Content-Type", "application/json");
        Buffer body;
        body.push_back('[');
        body.append(answer.calls.view());
        body.push_back(']');
        response.body = std::move(body);
        failures.got_through();
        co_return response;
      }
    }
    if (failure && retries.again(*failure)) {
      database.close();
      co_await back_off.wait();
      continue;
    }
    if (failure && failure->failure == sql::Failure::too_large) co_return refuse_answers(options);
    if (answer.refusal) co_return std::move(*answer.refusal);
    co_return failures.answer(*failure, Failed::writing);
  }
}

core::Task<Batch::Answer> Batch::attempt(Lane& lane, const http::Request& request, const std::vector<Call>& calls,
                                         Instant deadline) {
  Answer answer;
  Results results(calls);
  core::TurnShare share(reactor_, turn_bytes);
  for (const Call& call : calls) {
    const std::string at = "/" + std::to_string(results.size());
    const bool is_text = !call.text.empty();
    Resolution of_target(results, call.target,
                         call.method == http::Method::get ? Resolution::Form::read_target : Resolution::Form::target,
                         plan_.limits.target);
    Resolution of_body(results, is_text ? call.text : call.body,
                       is_text ? Resolution::Form::text : Resolution::Form::json, plan_.body_limit);
    if (!co_await finish(results, share, reactor_, deadline) ||
        !co_await finish(of_target, share, reactor_, deadline) ||
        !co_await finish(of_body, share, reactor_, deadline)) {
      const sql::Error late{sql::Failure::timed_out, {}, "the batch's timeout has passed while it was resolved", 0};
      answer.refusal = write_failures_.answer(late, Failed::writing);
      break;
    }
    auto target = of_target.take();
    if (!target) {
      answer.refusal = refuse_call({at + "/path", std::move(target.error())});
      break;
    }
    auto body = of_body.take();
    if (!body) {
      answer.refusal = refuse_call({at + "/body", std::move(body.error())});
      break;
    }
    Calling calling(request, call, std::move(*target), std::move(*body));
    if (!calling.is_valid()) {
      answer.refusal = refuse_call({at + "/path", "it is no path"});
      break;
    }
    http::Response response = co_await lane.router().handle(calling);
    auto bytes = co_await read_body(response, plan_.options.answer_limit);
    if (!bytes || answer.calls.size() + bytes->size() > plan_.options.answer_limit) {
      answer.refusal = refuse_answers(plan_.options);
      break;
    }
    calling.end({.status = response.status, .broken = false});
    const bool is_json = is_json_type(response.fields.get("Content-Type"));
    if (response.status >= 400) {
      Buffer members;
      members.append(R"("call":)" + std::to_string(results.size()) + R"(,"answer":)");
      append_answer(members, response, *bytes, is_json);
      answer.refusal = http::problem(
          response.status,
          "Call " + std::to_string(results.size()) + ", " + std::string(calling.request.method_text) + " " +
              std::string(calling.request.path) + ", is refused; nothing of the batch has been done.",
          members.view());
      for (const std::string_view name : {"WWW-Authenticate", "Retry-After", "Allow"}) {
        if (const auto value = response.fields.get(name); !value.empty())
          answer.refusal->fields.add_owned(name, std::string(value));
      }
      break;
    }
    if (!answer.calls.empty()) answer.calls.push_back(',');
    append_answer(answer.calls, response, *bytes, is_json);
    results.add(is_json ? std::move(*bytes) : std::string{});
  }
  co_return answer;
}

}  // namespace sluice::api::batch
