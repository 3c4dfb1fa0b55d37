#include "api/changes/handler.h"

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "http/identity.h"

namespace sluice::api::changes {
namespace {

// Counts the queries for permission and has an answer for each.
class FakeDatabase final : public sql::Database {
 public:
  using Answer = sql::Result<std::unique_ptr<sql::Cursor>>;
  core::Task<sql::Result<sql::Statement>> prepare(std::string_view, std::span<const sql::Parameter>) override {
    co_return sql::Statement{};
  }
  core::Async<Answer> query(const sql::Statement&, std::span<const sql::Argument> arguments,
                            const sql::QueryOptions& options) override {
    asked = arguments.size();
    for (const sql::Argument& argument : arguments) EXPECT_FALSE(argument.text);
    role = options.settings.empty() ? "" : options.settings[0].value;
    if (refusal) return Answer(std::unexpected(sql::Error{*refusal, "42501", "refused", 0}));
    return Answer(std::make_unique<NoRows>());
  }
  core::Task<sql::Result<sql::Statement>> prepare_writing(std::string_view, std::span<const sql::Parameter>) override {
    co_return sql::Statement{};
  }
  std::unique_ptr<sql::Transaction> begin(const sql::TransactionOptions&) override { return nullptr; }
  std::unique_ptr<sql::Staging> stage(const sql::SetPlan&, const sql::TransactionOptions&) override { return nullptr; }
  core::Task<sql::Result<void>> ping(Instant) override { co_return sql::Result<void>{}; }

  std::optional<sql::Failure> refusal;
  std::size_t asked = 0;
  std::string role;

 private:
  struct NoRows final : sql::Cursor {
    core::Async<sql::Result<sql::Block>> next() override {
      sql::Block block;
      block.last = true;
      return sql::Result<sql::Block>(block);
    }
  };
};

class ChangesHandlerTest : public testing::Test {
 protected:
  ChangesHandlerTest() {
    plan->path = "/x/changes";
    plan->options.retry = 100ms;
    plan->options.heartbeat = 20ms;
    plan->options.clients = 2;
  }
  http::Response get(std::vector<http::Field> fields = {}, std::shared_ptr<const http::Claims> claims = nullptr,
                     std::optional<double> claims_end_s = {}) {
    Handler handler(plan, feed, database, *reactor);
    http::Exchange exchange;
    http::Request& request = exchange.request;
    request.method = http::Method::get;
    request.path = "/x/changes";
    request.fields = fields;
    http::Identity identity{.claims = std::move(claims)};
    if (claims_end_s) identity.expires_s = *claims_end_s;
    exchange.attributes.set(std::move(identity));
    auto answer = handler.handle(exchange);
    if (answer.ready()) return answer.take();
    std::optional<http::Response> late;
    core::TaskGroup tasks;
    tasks.spawn([](core::Async<http::Response> from, std::optional<http::Response>& into) -> core::Task<void> {
      into.emplace(co_await std::move(from));
    }(std::move(answer), late));
    return std::move(*late);
  }
  void add(std::string_view data) {
    Event event{.number = feed.last() + 1, .gap = false, .frame = {}};
    append_event(event.frame, event_id("b", event.number), {}, data);
    feed.add(std::make_shared<const Event>(std::move(event)));
    feed.wake_all();
  }
  // The result of the next pull; "|done" after the last one.
  std::string pull(http::Response& response) {
    auto& source = *std::get<std::unique_ptr<http::BodySource>>(response.body);
    Buffer out;
    std::optional<Result<http::BodySource::Progress>> progress;
    core::TaskGroup tasks;
    tasks.spawn([](http::BodySource& from, Buffer& into,
                   std::optional<Result<http::BodySource::Progress>>& done) -> core::Task<void> {
      done = co_await from.pull(into);
    }(source, out, progress));
    if (!progress && while_waiting) std::exchange(while_waiting, nullptr)();
    const Instant end = reactor->now() + 60s;
    while (!progress && reactor->now() < end) reactor->turn(reactor->now() + 5ms);
    EXPECT_TRUE(progress && *progress);
    return std::string(out.view()) + (**progress == http::BodySource::Progress::done ? "|done" : "");
  }

  std::unique_ptr<core::Reactor> reactor = core::make_epoll_reactor();
  std::shared_ptr<Plan> plan = std::make_shared<Plan>();
  FakeDatabase database;
  Feed feed{*reactor, "b", {.events = 4, .bytes = 10'000}};
  std::function<void()> while_waiting;
};

TEST_F(ChangesHandlerTest, BeginsNowAndGoesOnWithWhatComes) {
  add("before");
  http::Response response = get();
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.fields.get("Content-Type"), "text/event-stream");
  EXPECT_EQ(response.fields.get("Cache-Control"), "no-store, no-transform");
  const std::string greeting = pull(response);
  EXPECT_TRUE(greeting.starts_with("retry: 1") && greeting.ends_with("\nid: b-1\n\n")) << greeting;
  while_waiting = [&] { add("one"); };
  EXPECT_EQ(pull(response), "id: b-2\ndata: one\n\n");
  EXPECT_EQ(pull(response), ":\n\n") << "a heartbeat";
  EXPECT_EQ(feed.counters.clients, 1u);
  while_waiting = [&] { feed.drain(); };
  EXPECT_EQ(pull(response), "|done");
  response = {};
  EXPECT_EQ(feed.counters.clients, 0u);
  // A browser reconnects after a 200.
  http::Response late = get();
  EXPECT_EQ(late.status, 200);
  EXPECT_EQ(pull(late), "|done");
}

TEST_F(ChangesHandlerTest, GoesOnBehindTheLastEventOrResets) {
  for (int i = 1; i <= 6; ++i) add("x");
  http::Response known = get({{"Last-Event-ID", "b-5"}});
  const std::string rest = pull(known);
  EXPECT_TRUE(rest.ends_with("\n\nid: b-6\ndata: x\n\n") && !rest.contains("b-5")) << rest;
  http::Response unknown = get({{"last-event-id", "b-1"}});
  EXPECT_TRUE(pull(unknown).ends_with("id: b-6\nevent: reset\ndata: {\"reason\":\"unknown\"}\n\n"));
  while_waiting = [&] { add("y"); };
  EXPECT_EQ(pull(unknown), "id: b-7\ndata: y\n\n");
}

TEST_F(ChangesHandlerTest, ManyClients) {
  const http::Response one = get();
  {
    const http::Response two = get();
    const http::Response three = get();
    EXPECT_EQ(three.status, 503);
    EXPECT_FALSE(three.fields.get("Retry-After").empty());
  }
  EXPECT_EQ(get().status, 200);
  EXPECT_EQ(feed.counters.refused, 1u);
}

TEST_F(ChangesHandlerTest, RequirementsHold) {
  auto guards = std::make_shared<Guards>();
  RequireOptions require;
  require.that.value = "eq(header.x-key, 'secret')";
  guards->add(require, *http::Pattern::parse("/x"));
  plan->guards = guards;
  EXPECT_EQ(get().status, 403);
  EXPECT_EQ(get({{"X-Key", "secret"}}).status, 200);
}

TEST_F(ChangesHandlerTest, TheRoleMustBeAllowedToRead) {
  auto role = std::make_shared<RolePlan>();
  role->source.emplace().from = From::claim;
  role->source->key = "role";
  plan->role = role;
  plan->permission.emplace().parameters.resize(2);
  const auto claims = http::Claims::parse(R"({"role":"reader"})");
  EXPECT_EQ(get().status, 403);
  EXPECT_EQ(get({}, claims).status, 200);
  EXPECT_EQ(database.asked, 2u);
  EXPECT_EQ(database.role, "reader");
  database.refusal = sql::Failure::statement;
  EXPECT_EQ(get({}, claims).status, 403);
}

TEST_F(ChangesHandlerTest, EndsWithTheToken) {
  plan->options.clients = 9;
  plan->options.heartbeat = 24h;
  const auto in_s = [&](double left) { return static_cast<double>(reactor->wall_clock_ns()) / 1e9 + left; };
  http::Response response = get({}, nullptr, in_s(86'400));
  (void)pull(response);
  while_waiting = [&] { add("x"); };
  EXPECT_EQ(pull(response), "id: b-1\ndata: x\n\n");
  http::Response late = get({}, nullptr, in_s(-1));
  EXPECT_EQ(pull(late), "|done") << "it ended while somebody was asked";
  http::Response endless = get({}, nullptr, 1e300);
  EXPECT_TRUE(pull(endless).contains("id: b-1"));
  http::Response brief = get({}, nullptr, in_s(0.2));
  (void)pull(brief);
  EXPECT_EQ(pull(brief), "|done") << "also where there is little left";
}

TEST(PermissionStatement, TakesTheStatementAsItIs) {
  EXPECT_EQ(permission_statement(""), "SELECT 1 AS allowed");
  EXPECT_EQ(permission_statement("SELECT a FROM t; \n"),
            "SELECT 1 AS allowed FROM (SELECT a FROM t\n) AS endpoint LIMIT 0");
}

}  // namespace
}  // namespace sluice::api::changes
