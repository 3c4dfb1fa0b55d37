#include "api/resident/parallel_rows.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "api/resident/resident.h"
#include "api/resident/rows_for_tests.h"
#include "core/core.h"

namespace sluice::api::resident {
namespace {

using Progress = http::BodySource::Progress;

TestRows generated(std::uint32_t count, unsigned seed) {
  std::mt19937 random(seed);
  TestRows rows({column_of("id", sql::Form::number, 23), column_of("name", sql::Form::text, 25),
                 column_of("score", sql::Form::number, 1700), array_of("roles", sql::Form::text),
                 column_of("joined", sql::Form::timestamp_tz, 1184), column_of("more", sql::Form::json, 3802),
                 column_of("on", sql::Form::boolean, 16), sqlite_column("any", "")});
  const char* const names[] = {"Ann", "Bob \"the\" B,\n", "", "Ünïcode ☃", "\\.", "007"};
  const char* const roles[] = {"{}", "{admin}", "{user,\"a b\"}", "{user,user,NULL}"};
  const char* const mores[] = {"{\"a\": [1,\n 2]}", "null", "\"text\"", "[]"};
  const auto maybe = [&](std::string text) {
    return random() % 8 == 0 ? TestValue(nullptr) : TestValue(std::move(text));
  };
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto two = [&](unsigned below) { return std::to_string(10 + random() % below); };
    rows.row({std::to_string(i * 3),
              maybe(names[random() % 6] + std::string(random() % 3 == 0 ? std::to_string(i) : "")),
              maybe(std::to_string(random() % 50) + (random() % 2 == 0 ? ".50" : "")), maybe(roles[random() % 4]),
              maybe("20" + two(80) + "-1" + std::to_string(random() % 3) + "-" + two(18) + " " + two(14) + ":" +
                    two(50) + ":" + two(50) + (random() % 2 == 0 ? ".25+00" : "+00")),
              maybe(mores[random() % 4]), maybe(random() % 2 == 0 ? "t" : "f"),
              random() % 2 == 0 ? TestValue(std::to_string(random() % 9), sql::Form::number)
                                : TestValue("x" + std::to_string(random() % 9), sql::Form::text)});
  }
  return rows;
}

// Does not print the difference of long texts, which is not helpful and takes long to compute.
void expect_equal(const std::string& made, const std::string& wanted) {
  const auto [differs, _] = std::ranges::mismatch(made, wanted);
  EXPECT_TRUE(made == wanted) << made.size() << " bytes for " << wanted.size() << ", the same up to "
                              << differs - made.begin() << ": "
                              << made.substr(static_cast<std::size_t>(differs - made.begin()), 100);
}

// Several cores on this thread, with a resident table on the first.
class TwoModes : public testing::Test {
 protected:
  std::unique_ptr<Resident> resident(const TestRows& rows, bool on_demand, std::size_t cache = 0) {
    auto plan = std::make_shared<Plan>();
    plan->shape = {.key = "id",
                   .index = {"name", "score", "roles", "joined", "more", "on", "any"},
                   .csv = true,
                   .on_demand = on_demand,
                   .memory_limit = std::uint64_t{1} << 40};
    plan->cache = cache;
    const TableVersion version{
        .table = table_of(plan->shape, rows), .checked = core(0).reactor().now(), .failing = false};
    return std::make_unique<Resident>(plan, version, core(0).reactor(), core(0).mailbox(), threads_, &core(0).mesh());
  }
  static http::Request request(std::string_view query, std::string_view extension, std::string_view key) {
    http::Request asked;
    asked.method = http::Method::get;
    asked.query = query;
    asked.extension = extension;
    asked.path_values[0] = key;
    return asked;
  }

  core::Core& core(std::size_t index) { return *cores_[index]; }
  void step() {
    for (const auto& one : cores_) {
      if (one) one->step(one->reactor().now());
    }
  }
  template <class Done>
  void step_until(Done done) {
    for (int i = 0; i < 100'000 && !done(); ++i) step();
    ASSERT_TRUE(done());
  }
  template <class T>
  T run(core::Async<T> async) {
    if (async.ready()) return async.take();
    std::optional<T> result;
    tasks_.spawn(keep(std::move(async), result));
    step_until([&] { return result.has_value(); });
    return std::move(*result);
  }
  template <class T>
  static core::Task<void> keep(core::Async<T> async, std::optional<T>& result) {
    result.emplace(co_await std::move(async));
  }

  // The body as the client receives it. `between` is called after each piece.
  std::string drain(http::Body& body, const std::function<void()>& between = {}) {
    if (auto* bytes = std::get_if<http::SharedBytes>(&body)) return std::string(bytes->bytes);
    if (auto* bytes = std::get_if<Buffer>(&body)) return std::string(bytes->view());
    std::string text;
    if (auto* spans = std::get_if<http::SharedSpans>(&body)) {
      for (const std::string_view piece : spans->pieces()) text += piece;
      return text;
    }
    auto& source = std::get<std::unique_ptr<http::BodySource>>(body);
    for (;;) {
      Buffer out;
      const auto progress = run(source->pull(out));
      EXPECT_TRUE(progress);
      EXPECT_TRUE(!out.empty() || *progress == Progress::done);
      text += out.view();
      if (!progress || *progress == Progress::done) return text;
      for (int i = 0; i < 3; ++i) step();  // while the piece is sent
      if (between) between();
    }
  }

  // One answer as text.
  std::string show(http::Response response) {
    std::string text = std::to_string(response.status);
    for (const http::Field& field : response.fields.items()) {
      text += "\n" + std::string(field.name) + ": " + std::string(field.value);
    }
    return text + "\n\n" + drain(response.body);
  }

  core::Mesh mesh_{3};
  std::vector<std::unique_ptr<core::Core>> cores_ = [&] {
    std::vector<std::unique_ptr<core::Core>> cores;
    for (unsigned i = 0; i < mesh_.size(); ++i) {
      cores.push_back(std::make_unique<core::Core>(mesh_, i, core::make_epoll_reactor()));
    }
    return cores;
  }();
  core::BlockingPool threads_{1, 16};
  core::TaskGroup tasks_;
};

// Answers are the same, whether rows are encoded when they are loaded or on request.
TEST_F(TwoModes, AnswerTheSame) {
  std::mt19937 random(1);
  const std::string conditions[] = {"name=Ann",
                                    "name=in.(Ann,%22%22)",
                                    "score=gte.20",
                                    "score=lt.30.5",
                                    "roles=user",
                                    "roles=a+b",
                                    "joined=gt.2050-01-01",
                                    "more=text",
                                    "on=true",
                                    "any=3",
                                    "any=is.null",
                                    "name=is.not_null",
                                    "id=gt.1500",
                                    "id=in.(0,3,5)",
                                    "bad=1",
                                    "score=unknown",
                                    "sort=bad"};
  const std::string orders[] = {"sort=-score,name", "sort=id", "sort=-joined", "sort=on,-id"};
  const std::string fields[] = {"fields=id,name", "fields=more", "fields=name",
                                "fields=any,on,joined,roles,id,name,score,more", "fields=joined,score"};
  for (const std::uint32_t count : {0U, 1U, 40U, 6000U}) {
    const TestRows rows = generated(count, count);
    const auto encoded = resident(rows, false, 1 << 16);
    const auto packed = resident(rows, true, 1 << 16);
    const auto expect_same = [&](const std::string& query, const char* extension) {
      const http::Request asked = request(query, extension, "");
      http::Request mine = asked;
      http::Request its = asked;
      SCOPED_TRACE(query + extension);
      expect_equal(show(run(packed->list(mine))), show(run(encoded->list(its))));
    };
    const char* const extensions[] = {".json", ".ndjson", ".csj", ".csv"};
    for (const char* const extension : extensions) {
      for (const std::string& one : fields) expect_same(one, extension);
      expect_same("", extension);
      expect_same("sort=-score&fields=name", extension);
    }
    for (int round = 0; round < 150; ++round) {
      std::string query;
      for (int i = random() % 3; i > 0; --i) query += conditions[random() % std::size(conditions)] + "&";
      if (random() % 2 == 0) query += orders[random() % std::size(orders)] + "&";
      if (random() % 2 == 0) query += fields[random() % std::size(fields)] + "&";
      if (random() % 2 == 0)
        query += "limit=" + std::to_string(random() % 100) + "&offset=" + std::to_string(random() % 50);
      const char* const extension = extensions[random() % 4];
      // Also from the cache.
      for (int again = random() % 3 == 0 ? 3 : 1; again > 0; --again) expect_same(query, extension);
      if (HasFailure()) return;
    }
    for (const char* const key : {"0", "3", "4", "60", "x"}) {
      for (const char* const extension : extensions) {
        for (const char* const query : {"", "fields=name,id"}) {
          http::Request mine = request(query, extension, key);
          http::Request its = request(query, extension, key);
          EXPECT_EQ(show(run(packed->find(mine))), show(run(encoded->find(its)))) << key << extension;
        }
      }
    }
  }
}

class ParallelRowsTest : public TwoModes {
 protected:
  static constexpr std::uint32_t count = 30'000;
  std::unique_ptr<http::BodySource> ask(Resident& of, std::string_view query = {}) {
    http::Request asked = request(query, ".ndjson", "");
    http::Response response = run(of.list(asked));
    EXPECT_EQ(response.status, 200);
    return std::move(std::get<std::unique_ptr<http::BodySource>>(response.body));
  }
  // The expected text of all rows.
  std::string wanted() const { return encoded(sql::Format::ndjson, rows_); }

  const TestRows rows_ = generated(count, 5);
};

TEST_F(ParallelRowsTest, OtherCoresEncode) {
  const auto packed = resident(rows_, true);
  http::Body body = ask(*packed);
  expect_equal(drain(body), wanted());
  EXPECT_GT(packed->counters().chunks_elsewhere, 10u);
  // In another order.
  body = ask(*packed, "sort=-id");
  std::string text = drain(body);
  EXPECT_EQ(text.size(), wanted().size());
  EXPECT_TRUE(text.ends_with("}\n" + wanted().substr(0, wanted().find('\n') + 1)));
}

TEST_F(ParallelRowsTest, WhoTakesNothingLetsNobodyEncode) {
  const auto packed = resident(rows_, true);
  std::vector<std::unique_ptr<http::BodySource>> bodies;
  for (int i = 0; i < 60; ++i) {
    bodies.push_back(ask(*packed));
    Buffer out;
    ASSERT_EQ(run(bodies.back()->pull(out)), Progress::more);
    for (int k = 0; k < 100; ++k) step();
    EXPECT_LE(packed->chunks_ahead(), std::min<std::size_t>(most_ahead_of_answer * bodies.size(), most_ahead_of_core));
  }
  EXPECT_EQ(packed->chunks_ahead(), most_ahead_of_core);
  EXPECT_LE(packed->counters().chunks_elsewhere, most_ahead_of_core);
  // Answers without reserved chunks are complete too.
  http::Body last = std::move(bodies.back());
  bodies.pop_back();
  const std::string rest = drain(last);
  EXPECT_TRUE(wanted().ends_with(rest));
  EXPECT_GT(rest.size(), wanted().size() / 2);
  last = std::monostate();
  bodies.clear();
  EXPECT_EQ(packed->chunks_ahead(), 0u);
}

TEST_F(ParallelRowsTest, WhoLeavesLeavesNothing) {
  auto packed = resident(rows_, true);
  const std::weak_ptr<const Table> table = packed->table();
  for (int steps = 0; steps < 30; ++steps) {
    auto body = ask(*packed);
    Buffer out;
    for (int pulls = 0; pulls <= steps % 4; ++pulls) {
      // Also while it waits for another core.
      std::optional<Result<Progress>> progress;
      core::TaskGroup waiting;
      waiting.spawn(keep(body->pull(out), progress));
      for (int k = 0; k < steps; ++k) step();
      if (!progress) break;
    }
  }
  EXPECT_EQ(packed->chunks_ahead(), 0u);
  step_until([&] { return table.use_count() == 1; });
}

TEST_F(ParallelRowsTest, KeepsItsVersion) {
  const auto packed = resident(rows_, true);
  const std::weak_ptr<const Table> table = packed->table();
  http::Body body = ask(*packed);
  bool swapped = false;
  const TestRows others = generated(10, 3);
  const std::string text = drain(body, [&] {
    if (std::exchange(swapped, true)) return;
    packed->publish(
        {.table = table_of(packed->plan().shape, others), .checked = core(0).reactor().now(), .failing = false});
  });
  expect_equal(text, wanted());
  EXPECT_FALSE(table.expired());
  body = std::monostate();
  step_until([&] { return table.expired(); });
}

TEST_F(ParallelRowsTest, CoresThatEndAreDoneWithout) {
  const auto packed = resident(rows_, true);
  http::Body body = ask(*packed);
  int pieces = 0;
  const std::string text = drain(body, [&] {
    ++pieces;
    if (pieces != 3 && pieces != 8) return;
    // While that core still has chunks to encode.
    auto& ending = cores_[pieces == 3 ? 1 : 2];
    ending->mesh().refuse_new();
    for (int i = 0; i < 50 && !ending->mesh().quiet(); ++i) step();
    ending->mesh().cancel_served();
    for (int i = 0; i < 50 && !ending->mesh().flushed(); ++i) step();
    ending->mesh().end();
  });
  expect_equal(text, wanted());
}

TEST_F(ParallelRowsTest, RowsThatAreMuchLongerThanOthers) {
  TestRows rows({column_of("id", sql::Form::number, 23), column_of("name", sql::Form::text, 25)});
  for (int i = 0; i < 9000; ++i) rows.row({std::to_string(i), std::string(i / 100 % 10 == 3 ? 3000 : 1, 'x')});
  auto plan = std::make_shared<Plan>();
  plan->shape = {.on_demand = true, .memory_limit = std::uint64_t{1} << 40};
  const TableVersion version{
      .table = table_of(plan->shape, rows), .checked = core(0).reactor().now(), .failing = false};
  Resident of(plan, version, core(0).reactor(), core(0).mailbox(), threads_, &core(0).mesh());
  auto body = ask(of);
  std::string text;
  for (bool done = false; !done;) {
    Buffer out;
    const auto progress = run(body->pull(out));
    ASSERT_TRUE(progress);
    done = *progress == Progress::done;
    EXPECT_LE(out.size(), piece_bytes + 4096);
    text += out.view();
    step();
    step();
  }
  expect_equal(text, encoded(sql::Format::ndjson, rows));
  EXPECT_GT(of.counters().chunks_elsewhere, 5u);
}

}  // namespace
}  // namespace sluice::api::resident
