#include "api/set_endpoint.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "api/writing_fixture.h"

namespace sluice::api {
namespace {

using testing::Body;
using testing::body_of;

// PUT /films/{slug}/tags: `film` from the path, the key `tag`, `weight` with a default, and `note`.
class SetEndpointTest : public ::testing::Test {
 public:
  explicit SetEndpointTest(http::Method method = http::Method::put) {
    EndpointOptions endpoint;
    endpoint.path.value = "/films/{slug}/tags";
    ColumnOptions film;
    film.key = true;
    film.from = Located<std::string>("path.slug");
    ColumnOptions tag;
    tag.key = true;
    tag.trim = true;
    ColumnOptions weight;
    if (method == http::Method::put) weight.default_value = Located<Scalar>(Scalar{"1"});
    weight.type = Located<sql::ParameterType>(sql::ParameterType::real);
    MethodOptions options;
    options.table.value = "tags";
    options.retries = 5;
    options.columns = {{{"film"}, film}, {{"tag"}, tag}, {{"weight"}, weight}, {{"note"}, {}}};
    const auto pattern = http::Pattern::parse(endpoint.path.value);
    set = set_options(method, options, *pattern);
    sql::SetPlan plan;
    for (const sql::SetColumn& column : set.columns) {
      if (column.shared) continue;
      plan.staged.push_back(column.name);
      plan.optional.push_back(column.optional);
      plan.not_null.push_back(column.key);
    }
    plan.parameters = {{sql::shared_parameter("film"), {}}, {"slug", {}}};
    handler = std::make_unique<SetEndpoint>(
        std::make_shared<const SetWritePlan>(method, endpoint, options, *pattern, std::move(plan)), database, *reactor);
  }
  http::Response send(std::string_view bytes, std::string_view type = "application/json", std::string_view query = {},
                      std::size_t step = SIZE_MAX, std::optional<Errc> broken = {}) {
    Body body(bytes, step, broken);
    return send_body(&body, type, query);
  }
  http::Response send_body(http::BodyReader* body, std::string_view type, std::string_view query = {}) {
    database.log.clear();
    database.added = 0;
    if (database.outcomes.empty()) {
      database.outcomes.push_back(
          sql::SetOutcome{.inserted = 1, .updated = 2, .deleted = 3, .unchanged = 4, .faults = {}});
    }
    http::Exchange exchange;
    http::Request& request = exchange.request;
    const std::vector<http::Field> fields{{"Content-Type", type}};
    request.fields = fields;
    request.body = body;
    request.query = query;
    request.path_values[0] = "heat";
    return testing::answer_of(*reactor, handler->handle(exchange));
  }

  sql::SetOptions set;
  std::unique_ptr<core::Reactor> reactor = core::make_epoll_reactor();
  testing::FakeDatabase database;
  std::unique_ptr<SetEndpoint> handler;
};

class SetPatchTest : public SetEndpointTest {
 public:
  SetPatchTest() : SetEndpointTest(http::Method::patch) {}
};

TEST_F(SetEndpointTest, RowsAreStagedAndAppliedOnce) {
  for (const std::size_t step : {1, 5, 1000}) {
    const http::Response answer =
        send("[{\"tag\":\" a \",\"weight\":1.50},\n{\"note\":\"\",\"tag\":\"b\"},{\"tag\":\"c\",\"weight\":null}]",
             "application/json", "", step);
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(body_of(answer), R"({"inserted":1,"updated":2,"deleted":3,"unchanged":4})");
    EXPECT_EQ(database.log,
              "stage\nline 1: 'a' '1.50' NULL\nline 2: 'b' '1' ''\nline 2: 'c' NULL NULL\napply heat heat\n");
    EXPECT_TRUE(database.applied.commit);
    EXPECT_EQ(database.applied.retries, 5u);
    EXPECT_EQ(database.applied.deadline, never);
  }
  EXPECT_EQ(send("[]").status, 200);
  EXPECT_EQ(database.log, "stage\napply heat heat\n");
}

TEST_F(SetEndpointTest, ColumnsAreSharedOrStaged) {
  EXPECT_TRUE(set.columns[0].shared && set.columns[0].key);
  EXPECT_TRUE(!set.columns[1].shared && set.columns[1].key);
  for (const sql::SetColumn& column : set.columns) EXPECT_FALSE(column.optional) << column.name << ": a PUT says all";
}

TEST_F(SetEndpointTest, ADryRunIsAskedForInTheQuery) {
  for (const char* query : {"dry-run", "dry-run=true", "dry-run=1"}) {
    EXPECT_EQ(send("[]", "application/json", query).status, 200);
    EXPECT_FALSE(database.applied.commit) << query;
  }
  for (const char* query : {"dry-run=false", "dry-run=0", ""}) {
    EXPECT_EQ(send("[]", "application/json", query).status, 200);
    EXPECT_TRUE(database.applied.commit) << query;
  }
  EXPECT_EQ(send("[]", "application/json", "dry-run=perhaps").status, 400);
  EXPECT_EQ(send("[]", "application/json", "dry-run=0&dry-run=1").status, 400);
  EXPECT_EQ(send("[]", "application/json", "dryrun").status, 400);
  EXPECT_EQ(database.log, "");
}

TEST_F(SetEndpointTest, ASetIsAList) {
  EXPECT_EQ(send(R"({"tag":"a"})").status, 400);
  EXPECT_EQ(send("tag=a", "application/x-www-form-urlencoded").status, 400);
  EXPECT_FALSE(database.log.contains("apply")) << database.log;
}

TEST_F(SetPatchTest, OneObjectMayBeAdded) {
  EXPECT_EQ(send(R"({"tag":"a"})").status, 200);
  EXPECT_EQ(database.log, "stage\nline 1: 'a' - -\napply heat heat\n");
}

TEST_F(SetEndpointTest, ARequestSaysHowManyRowsItMayDelete) {
  EXPECT_EQ(send("[]").status, 200);
  EXPECT_EQ(database.applied.deletions.amount, UINT64_MAX) << "an empty list is meant";
  for (const auto& [bytes, type] : {std::pair{"tag\n", "text/csv"},
                                    {"\"tag\"\n", "application/csj"},
                                    {"\n", "application/x-ndjson"},
                                    {"", "application/x-ndjson"}}) {
    EXPECT_EQ(send(bytes, type).status, 200);
    EXPECT_EQ(database.applied.deletions.amount, 0u) << type;
    EXPECT_EQ(send(bytes, type, "max-deleted=7").status, 200);
    EXPECT_EQ(database.applied.deletions.amount, 7u) << type;
  }
  for (const char* query : {"max-deleted", "max-deleted=x", "max-deleted=-1", "max-deleted=1x", "max-deleted=5%25",
                            "max-deleted=1&max-deleted=1", "max-deleted=18446744073709551616"}) {
    EXPECT_EQ(send("[]", "application/json", query).status, 400) << query;
  }
  database.outcomes.clear();
  database.outcomes.push_back(sql::SetOutcome{
      .inserted = 1, .updated = 2, .deleted = 3, .unchanged = 4, .faults = {}, .too_many_deleted = true});
  const http::Response refused = send("[]");
  EXPECT_EQ(refused.status, 409);
  EXPECT_TRUE(body_of(refused).contains(R"("inserted":1,"updated":2,"deleted":3,"unchanged":4)")) << body_of(refused);
}

TEST(DeletionLimit, IsANumberOrAShare) {
  EXPECT_EQ(parse_deletion_limit("1000")->amount, 1000u);
  EXPECT_TRUE(parse_deletion_limit("10%")->percent);
  for (const char* text : {"", "%", "101%", "-1", "1.5", "10 %", "all"})
    EXPECT_FALSE(parse_deletion_limit(text)) << text;
  const sql::DeletionLimit tenth{.amount = 10, .percent = true};
  EXPECT_TRUE(tenth.allows(10, 100));
  EXPECT_FALSE(tenth.allows(1, 9));
  EXPECT_TRUE(tenth.allows(0, 0));
}

TEST_F(SetEndpointTest, ABodyThatBreaksOffIsNeverApplied) {
  const std::string rows = R"([{"tag":"a"},{"tag":"b"},)";
  for (const auto& [broken, status] : {std::pair{Errc::closed, 400}, {Errc::limit, 413}, {Errc::timed_out, 408}}) {
    EXPECT_EQ(send(rows, "application/json", "", 10, broken).status, status);
    EXPECT_EQ(database.log, "stage\ngone\n");
  }
  EXPECT_EQ(send(rows).status, 400) << "an array without its end";
  EXPECT_EQ(database.log, "stage\ngone\n");
  EXPECT_EQ(send_body(nullptr, "application/json").status, 400);
  EXPECT_EQ(send("x", "text/plain").status, 415);
  EXPECT_EQ(database.log, "");
}

TEST_F(SetEndpointTest, WrongRowsAreListedAndNothingIsApplied) {
  const http::Response refused = send("tag,weight\na,1\n,2\nb,high\n\"\",\n", "text/csv");
  EXPECT_EQ(refused.status, 422);
  const std::string said = body_of(refused);
  EXPECT_TRUE(said.contains(R"({"line":3,"row":1,"pointer":"tag","detail":"must not be null"})")) << said;
  EXPECT_TRUE(said.contains(R"({"line":4,"row":2,"pointer":"weight","detail":"must be a number"})")) << said;
  EXPECT_FALSE(database.log.contains("apply")) << database.log;
  const http::Response missing = send(R"([{"weight":1}])");
  EXPECT_TRUE(body_of(missing).contains(R"("pointer":"/0/tag","detail":"is missing")")) << body_of(missing);
}

TEST_F(SetEndpointTest, RowsGoInBatchesAndAreNotHeld) {
  std::string rows = "tag\n";
  for (int i = 0; i < 10'000; ++i) rows += "tag " + std::to_string(i) + "\n";
  EXPECT_EQ(send(rows, "text/csv", "", 4096).status, 200);
  EXPECT_EQ(database.added, 10'000u);
  EXPECT_LE(database.largest_batch, 1024u);
}

TEST_F(SetEndpointTest, PostgresIsNotAskedBeforeMuchOfTheBodyIsThere) {
  std::string rows = "tag\n";
  while (rows.size() + 20 < 1 << 20) rows += "tag " + std::to_string(rows.size()) + "\n";
  EXPECT_EQ(send(rows, "text/csv", "", 4096, Errc::timed_out).status, 408);
  EXPECT_EQ(database.added, 0u);
  rows += "one more\nand another\nand a last one\n";
  EXPECT_EQ(send(rows, "text/csv", "", 4096, Errc::timed_out).status, 408);
  EXPECT_GT(database.added, 0u);
}

TEST_F(SetEndpointTest, ARefusedSetIsNotReadToItsEnd) {
  database.refused_at = 2000;
  database.outcomes.push_back(
      sql::SetOutcome{.faults = {{.line = 8, .row = 6, .column = "tag", .reason = "is not of the column's type"}}});
  std::string rows = "tag\n";
  for (int i = 0; i < 120'000; ++i) rows += "tag " + std::to_string(i) + "\n";
  const http::Response refused = send(rows, "text/csv", "", 4096, Errc::timed_out);
  EXPECT_EQ(refused.status, 422) << "and not 408: the rest is not waited for";
  EXPECT_TRUE(body_of(refused).contains(R"({"line":8,"row":6,"pointer":"tag","detail":"is not of the column's type"})"))
      << body_of(refused);
  EXPECT_LT(database.added, 2000u + 1024u);
}

TEST_F(SetEndpointTest, FaultsThatTheDatabaseFindsAreToldAsRows) {
  database.outcomes.push_back(
      sql::SetOutcome{.faults = {{.line = 7, .row = 5, .column = "", .reason = "has the same key as row 2"}}});
  const http::Response refused = send(R"([{"tag":"a"}])");
  EXPECT_EQ(refused.status, 422);
  EXPECT_TRUE(body_of(refused).contains(R"({"line":7,"row":5,"pointer":"/5","detail":"has the same key as row 2"})"));

  sql::SetOutcome outside{.faults = {{.line = 7, .row = 5, .column = "tag", .reason = "is there"}}, .outside = true};
  database.outcomes.push_back(std::move(outside));
  const http::Response conflict = send(R"([{"tag":"a"}])");
  EXPECT_EQ(conflict.status, 409);
  EXPECT_TRUE(body_of(conflict).contains(R"("pointer":"/5/tag")")) << body_of(conflict);
}

TEST_F(SetEndpointTest, ErrorsAreTold) {
  for (const auto& [failure, status] : {std::pair{sql::Failure::conflict, 409},
                                        {sql::Failure::timed_out, 504},
                                        {sql::Failure::unavailable, 503},
                                        {sql::Failure::lost, 503},
                                        {sql::Failure::statement, 500}}) {
    database.outcomes.push_back(std::unexpected(sql::Error{failure, {}, "secret", 0}));
    http::Response answer = send(R"([{"tag":"a"}])");
    EXPECT_EQ(answer.status, status);
    EXPECT_FALSE(body_of(answer).contains("secret"));
  }
  database.add_error = sql::Error{sql::Failure::unavailable, {}, "secret", 0};
  EXPECT_EQ(send(R"([{"tag":"a"}])").status, 503);
  EXPECT_EQ(database.log, "stage\ngone\n");
}

TEST_F(SetPatchTest, WhatARowDoesNotSayIsLeftAsItIs) {
  EXPECT_FALSE(set.columns[1].optional) << "a key";
  EXPECT_TRUE(set.columns[2].optional && set.columns[3].optional);
  EXPECT_EQ(send(R"([{"tag":"a","weight":2},{"tag":"b","note":null},{"tag":"c"}])").status, 200);
  EXPECT_EQ(database.log, "stage\nline 1: 'a' '2' -\nline 1: 'b' - NULL\nline 1: 'c' - -\napply heat heat\n");
}

}  // namespace
}  // namespace sluice::api
