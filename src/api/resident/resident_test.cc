#include "api/resident/resident.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "api/resident/rows_for_tests.h"
#include "core/run_to_end.h"
#include "core/simulated_reactor.h"

namespace sluice::api::resident {
namespace {

class ResidentTest : public testing::Test {
 protected:
  ResidentTest() {
    auto made = std::make_shared<Plan>();
    made->name = "users";
    made->shape = {.key = "id", .index = {"name"}, .csv = false, .memory_limit = 1 << 30};
    made->cache_control = "max-age=1";
    made->stale_after = 10s;
    made->cache = 1 << 20;
    plan = std::move(made);
    make(3);
  }
  // Rows 1 to `count`, named a, b, a, b and so on.
  std::shared_ptr<const Table> table(int count, std::string more = "") const {
    TestRows rows({column_of("id", sql::Form::number, 23), column_of("name", sql::Form::text, 25)});
    for (int id = 1; id <= count; ++id) rows.row({std::to_string(id), (id % 2 == 1 ? "a" : "b") + more});
    return table_of(plan->shape, rows);
  }
  void make(int count) {
    version = {.table = table(count), .checked = reactor.now(), .failing = false};
    resident = std::make_unique<Resident>(plan, version, reactor, mailbox, threads);
  }

  http::Response ask(std::string_view query, std::vector<http::Field> fields = {}, std::string_view extension = {}) {
    http::Request request;
    request.query = query;
    return run(request, fields, extension, [&] { return resident->list(request); });
  }
  http::Response find(std::string_view key, std::string_view query = {}, std::vector<http::Field> fields = {},
                      std::string_view extension = {}) {
    http::Request request;
    request.path_values[0] = key;
    request.query = query;
    return run(request, fields, extension, [&] { return resident->find(request); });
  }
  template <class Answering>
  http::Response run(http::Request& request, const std::vector<http::Field>& fields, std::string_view extension,
                     Answering answering) {
    request.fields = fields;
    request.extension = extension;
    auto answer = answering();
    if (answer.ready()) return answer.take();
    return core::run_to_end(reactor, &mailbox, [](core::Async<http::Response> waiting) -> core::Task<http::Response> {
      co_return co_await std::move(waiting);
    }(std::move(answer)));
  }
  static std::string text_of(const http::Response& response) {
    if (const auto* shared = std::get_if<http::SharedBytes>(&response.body)) return std::string(shared->bytes);
    std::string text;
    if (const auto* spans = std::get_if<http::SharedSpans>(&response.body)) {
      text.resize(spans->size());
      http::SpanReader(spans->pieces()).copy(text.data(), text.size());
    }
    return text;
  }
  void pass(Duration time) {
    for (const Instant until = reactor.now() + time; reactor.now() < until;) reactor.turn(until);
  }

  core::SimulatedReactor reactor{1};
  core::Mailbox mailbox{reactor};
  core::BlockingPool threads{1, 16};
  std::shared_ptr<const Plan> plan;
  TableVersion version;
  std::unique_ptr<Resident> resident;
};

TEST_F(ResidentTest, AnswersWithWhatItFinds) {
  const http::Response all = ask("");
  EXPECT_EQ(all.status, 200);
  EXPECT_EQ(text_of(all), "[{\"id\":1,\"name\":\"a\"}\n,{\"id\":2,\"name\":\"b\"}\n,{\"id\":3,\"name\":\"a\"}\n]\n");
  EXPECT_EQ(all.fields.get("content-type"), "application/json");
  EXPECT_EQ(all.fields.get("cache-control"), "max-age=1");
  EXPECT_EQ(all.fields.get("vary"), "Accept");
  EXPECT_EQ(all.fields.get("x-total-count"), "3");
  EXPECT_EQ(all.fields.get("age"), "");
  EXPECT_EQ(text_of(ask("name=a&sort=-id&limit=1")), "[{\"id\":3,\"name\":\"a\"}\n]\n");
  EXPECT_EQ(text_of(find("2")), "{\"id\":2,\"name\":\"b\"}\n");
  EXPECT_EQ(text_of(find("2", "fields=name")), "{\"name\":\"b\"}\n");
  EXPECT_EQ(find("4").status, 404);
  EXPECT_EQ(find("x").status, 404);
  const http::Response refused = find("2", "fields=id&limit=1");
  EXPECT_EQ(refused.status, 400);
  EXPECT_TRUE(std::get<Buffer>(refused.body).view().contains(R"("parameter":"limit")"));
  EXPECT_EQ(ask("nothing=1").status, 400);
  EXPECT_EQ(ask("", {{"Accept", "image/png"}}).status, 406);
  EXPECT_EQ(ask("", {}, ".csv").status, 406) << "rows are not kept as CSV";
}

// Only cached answers are worth compressing for reuse.
TEST_F(ResidentTest, WhatIsNotKeptIsSentOnce) {
  const auto once = [&](const http::Response& response) { return std::get<http::SharedBytes>(response.body).once; };
  EXPECT_TRUE(once(ask("fields=id")));
  EXPECT_FALSE(once(ask("fields=id"))) << "the second time it is kept";
  EXPECT_FALSE(once(ask("fields=id")));
  EXPECT_TRUE(once(ask("", {}, ".csj")));
  EXPECT_FALSE(once(ask("", {}, ".csj")));
  EXPECT_TRUE(std::holds_alternative<http::SharedSpans>(ask("name=a").body));
  EXPECT_FALSE(once(ask("name=a")));
  // A whole row is a view into the table. A part of a row is new text.
  EXPECT_FALSE(once(find("1")));
  EXPECT_TRUE(once(find("1", "fields=id")));
  EXPECT_TRUE(once(find("1", "fields=id")));
  EXPECT_TRUE(once(find("1", "", {}, ".csj")));
  EXPECT_EQ(resident->counters().answers.hits, 1u) << "fields=id, the third time";
}

TEST_F(ResidentTest, AnotherVersionHasAnswersOfItsOwn) {
  (void)ask("name=a");
  (void)ask("name=a");
  const http::Response before = ask("name=a");
  EXPECT_EQ(resident->counters().answers.hits, 1u);
  version.table = table(1);
  resident->publish(version);
  const http::Response after = ask("name=a");
  EXPECT_EQ(resident->counters().answers.hits, 1u);
  EXPECT_EQ(text_of(after), "[{\"id\":1,\"name\":\"a\"}\n]\n");
  EXPECT_EQ(text_of(before), "[{\"id\":1,\"name\":\"a\"}\n,{\"id\":3,\"name\":\"a\"}\n]\n") << "it goes on as it began";
  EXPECT_NE(before.fields.get("etag"), after.fields.get("etag"));
}

TEST_F(ResidentTest, AnswersThatAreKnown) {
  const std::string tag(ask("").fields.get("etag"));
  const http::Response known = ask("", {{"If-None-Match", tag}});
  EXPECT_EQ(known.status, 304);
  EXPECT_EQ(known.fields.get("etag"), tag);
  EXPECT_EQ(known.fields.get("cache-control"), "max-age=1");
  EXPECT_EQ(known.fields.get("vary"), "Accept");
  EXPECT_EQ(known.fields.get("age"), "");
  EXPECT_EQ(find("1", "", {{"If-None-Match", tag}}).status, 304);
  EXPECT_EQ(find("9", "", {{"If-None-Match", tag}}).status, 404);
  EXPECT_EQ(ask("", {{"If-Match", "\"x\""}}).status, 412);
  // RFC 9110, 13.2.1: conditions are ignored if the request would be refused without them.
  for (const char* const field : {"If-None-Match", "If-Match"}) {
    EXPECT_EQ(ask("nothing=1", {{field, "*"}}).status, 400);
    EXPECT_EQ(ask("limit=-1", {{field, tag}}).status, 400);
  }
  EXPECT_EQ(ask("limit=1", {{"If-None-Match", tag}}).status, 304);
}

// A row is found even if its key ends like the extension of a format.
TEST_F(ResidentTest, KeysThatEndAsFormatsDo) {
  auto by_name = std::make_shared<Plan>(*plan);
  by_name->shape = {.key = "name", .index = {}, .csv = true, .memory_limit = 1 << 30};
  plan = by_name;
  TestRows rows({column_of("id", sql::Form::number, 23), column_of("name", sql::Form::text, 25)});
  rows.row({"1", "report"}).row({"2", "report.csv"}).row({"3", "x.json"});
  version.table = table_of(plan->shape, rows);
  resident = std::make_unique<Resident>(plan, version, reactor, mailbox, threads);
  EXPECT_EQ(text_of(find("report", "", {}, ".csv")), "{\"id\":2,\"name\":\"report.csv\"}\n");
  EXPECT_EQ(text_of(find("report", "", {}, ".ndjson")), "{\"id\":1,\"name\":\"report\"}\n");
  EXPECT_EQ(find("report", "", {}, ".csj").fields.get("content-type"), "application/csj");
  EXPECT_EQ(text_of(find("x", "", {}, ".json")), "{\"id\":3,\"name\":\"x.json\"}\n");
  EXPECT_EQ(text_of(find("report.csv", "", {}, ".json")), "{\"id\":2,\"name\":\"report.csv\"}\n");
  EXPECT_EQ(find("y", "", {}, ".json").status, 404);
}

// All answers have an Age while the database cannot be queried.
TEST_F(ResidentTest, WhatMayBeOldSaysItsAge) {
  const std::string tag(ask("").fields.get("etag"));
  version.failing = true;
  resident->publish(version);
  pass(3500ms);
  EXPECT_EQ(ask("").fields.get("age"), "3");
  EXPECT_EQ(ask("name=a&fields=id").fields.get("age"), "3");
  EXPECT_EQ(find("1").fields.get("age"), "3");
  const http::Response known = ask("", {{"If-None-Match", tag}});
  EXPECT_EQ(known.status, 304);
  EXPECT_EQ(known.fields.get("age"), "3");
  version.failing = false;
  version.checked = reactor.now();
  resident->publish(version);
  EXPECT_EQ(ask("").fields.get("age"), "");
}

TEST_F(ResidentTest, WhatIsTooOldIsNotAnswered) {
  const std::string tag(ask("").fields.get("etag"));
  const auto expect_refused = [](const http::Response& response) {
    EXPECT_EQ(response.status, 503);
    EXPECT_EQ(response.fields.get("retry-after"), "1");
  };
  pass(9999ms);
  EXPECT_EQ(ask("").status, 200) << "not yet";
  pass(2ms);
  expect_refused(ask(""));
  expect_refused(ask("", {{"If-None-Match", tag}}));
  expect_refused(find("1"));
  expect_refused(find("9"));
  version.checked = reactor.now();
  resident->publish(version);
  EXPECT_EQ(ask("").status, 200);
}

// A thread does long work. Its result is of the version with which it began.
TEST_F(ResidentTest, MuchIsSortedElsewhere) {
  make(20'000);
  http::Request request;
  request.query = "sort=name,-id&limit=1";
  auto answering = resident->list(request);
  ASSERT_FALSE(answering.ready());
  core::TaskGroup tasks;
  std::optional<http::Response> response;
  tasks.spawn([](core::Async<http::Response> waiting, std::optional<http::Response>& into) -> core::Task<void> {
    into = co_await std::move(waiting);
  }(std::move(answering), response));
  version.table = table(1, "x");
  resident->publish(version);
  ASSERT_FALSE(response);
  for (int turns = 0; !response && turns < 10'000; ++turns) {
    mailbox.deliver();
    reactor.turn(reactor.now());
    std::this_thread::sleep_for(1ms);
  }
  ASSERT_TRUE(response);
  EXPECT_EQ(text_of(*response), "[{\"id\":19999,\"name\":\"a\"}\n]\n");
  EXPECT_EQ(response->fields.get("x-total-count"), "20000");
  version.checked = reactor.now();
  resident->publish(version);
  const http::Response now = ask("");
  EXPECT_EQ(now.status, 200);
  EXPECT_NE(response->fields.get("etag"), now.fields.get("etag"));
}

// Work that has not begun holds no version. When it begins, it takes the current version.
TEST_F(ResidentTest, WhatHasNotBegunHoldsNoVersion) {
  make(20'000);
  const std::weak_ptr<const Table> first = version.table;
  http::Request request;
  request.query = "sort=name,-id&limit=1";
  auto answering = resident->list(request);
  ASSERT_FALSE(answering.ready());
  version.table = table(1, "x");
  resident->publish(version);
  EXPECT_TRUE(first.expired());
  const http::Response response =
      core::run_to_end(reactor, &mailbox, [](core::Async<http::Response> waiting) -> core::Task<http::Response> {
        co_return co_await std::move(waiting);
      }(std::move(answering)));
  EXPECT_EQ(text_of(response), "[{\"id\":1,\"name\":\"ax\"}\n]\n");
  version.checked = reactor.now();  // virtual time has passed
  resident->publish(version);
  EXPECT_EQ(response.fields.get("etag"), ask("").fields.get("etag"));
}

TEST_F(ResidentTest, WithoutAThreadItIsBusy) {
  core::BlockingPool none(1, 0);
  version.table = table(20'000);
  resident = std::make_unique<Resident>(plan, version, reactor, mailbox, none);
  EXPECT_EQ(ask("sort=name,-id&limit=1").status, 503);
  EXPECT_EQ(ask("sort=name,-id&limit=1").fields.get("retry-after"), "1");
  EXPECT_EQ(ask("limit=1").status, 200);
}

// A few rows may also be a long answer.
TEST_F(ResidentTest, WideRowsComePieceByPiece) {
  for (const bool on_demand : {false, true}) {
    auto wide = std::make_shared<Plan>(*plan);
    wide->shape = {.key = "id", .index = {}, .csv = true, .on_demand = on_demand, .memory_limit = 1 << 30};
    plan = wide;
    version.table = table(100, std::string(50'000, 'x'));
    resident = std::make_unique<Resident>(plan, version, reactor, mailbox, threads);
    for (int time = 0; time < 3; ++time) {
      EXPECT_TRUE(std::holds_alternative<std::unique_ptr<http::BodySource>>(ask("fields=name,id").body));
      EXPECT_TRUE(std::holds_alternative<std::unique_ptr<http::BodySource>>(ask("", {}, ".csv").body));
      EXPECT_FALSE(std::holds_alternative<std::unique_ptr<http::BodySource>>(ask("fields=name&limit=2").body));
    }
  }
  // Most rows are short, but the requested ones are long.
  TestRows rows({column_of("id", sql::Form::number, 23), column_of("name", sql::Form::text, 25)});
  for (int id = 0; id < 20'000; ++id) rows.row({std::to_string(id), std::string(id < 100 ? 50'000 : 1, 'x')});
  version.table = table_of(plan->shape, rows);
  resident = std::make_unique<Resident>(plan, version, reactor, mailbox, threads);
  for (int time = 0; time < 3; ++time) {
    EXPECT_TRUE(std::holds_alternative<std::unique_ptr<http::BodySource>>(ask("limit=100").body));
  }
}

TEST_F(ResidentTest, LongAnswersComePieceByPiece) {
  make(10'000);
  http::Response response = ask("fields=id");
  ASSERT_TRUE(std::holds_alternative<std::unique_ptr<http::BodySource>>(response.body));
  auto& source = *std::get<std::unique_ptr<http::BodySource>>(response.body);
  resident->publish({.table = table(1), .checked = reactor.now(), .failing = false});
  std::string text;
  int pulls = 0;
  for (bool more = true; more; ++pulls) {
    Buffer piece;
    auto pulled = source.pull(piece);
    ASSERT_TRUE(pulled.ready());
    const auto progress = pulled.take();
    ASSERT_TRUE(progress);
    more = *progress == http::BodySource::Progress::more;
    text += piece.view();
  }
  EXPECT_GT(pulls, 1);
  EXPECT_TRUE(text.starts_with("[{\"id\":1}\n,{\"id\":2}\n"));
  EXPECT_TRUE(text.ends_with(",{\"id\":10000}\n]\n"));
}

}  // namespace
}  // namespace sluice::api::resident
