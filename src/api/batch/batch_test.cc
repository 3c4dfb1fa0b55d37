#include "api/batch/batch.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "api/writing_fixture.h"
#include "core/simulated_reactor.h"

namespace sluice::api::batch {
namespace {

using Step = api::testing::FakeDatabase::Step;

// A batch over POST /films and GET /films.
class BatchTest : public ::testing::Test {
 public:
  BatchTest() {
    EndpointOptions endpoint;
    endpoint.path.value = "/films";
    MethodOptions post;
    post.sql.value = "INSERT INTO films";
    post.retries = 50;  // for a request outside a batch
    sql::Statement insert;
    insert.text = "insert";
    insert.parameters = {{"slug", {}}};
    insert.columns = {{"slug", {}, 0}};
    plan.options.answer_limit = ByteSize{400};
    plan.limits.calls = 3;
    plan.options.retries = 2;
    Plan::Route route{.pattern = &pattern, .get = {}, .writes = {}, .sets = {}};
    route.writes.push_back(std::make_shared<const WritePlan>(http::Method::post, endpoint, post, pattern,
                                                             std::vector<sql::Statement>{insert}));
    plan.routes.push_back(std::move(route));
  }
  http::Response send(std::string_view json, std::string_view type = "application/json") {
    if (!batch) {
      batch = std::make_unique<Batch>(plan, database, std::vector<Batch::Filters>(1), reactor);
    }
    database.log.clear();
    api::testing::Body body(json);
    http::Exchange exchange;
    http::Request& request = exchange.request;
    const std::vector<http::Field> fields{{"Content-Type", type}};
    request.fields = fields;
    request.body = &body;
    return api::testing::answer_of(reactor, batch->handle(exchange));
  }
  static std::string post(const std::string& slug) {
    return R"({"method":"POST","path":"/films","body":{"slug":")" + slug + R"("}})";
  }
  static Step conflict() {
    return {.rows = {}, .changes = 0, .error = sql::Error{sql::Failure::conflict, "40001", "somebody", 0}};
  }

  const http::Pattern pattern = *http::Pattern::parse("/films");
  Plan plan;
  api::testing::FakeDatabase database;
  core::SimulatedReactor reactor{7};
  std::unique_ptr<Batch> batch;
};

TEST_F(BatchTest, CallsAreOneTransaction) {
  database.steps = {{.rows = {{"a"}}, .changes = 1, .error = {}}, {.rows = {{"b"}}, .changes = 1, .error = {}}};
  const http::Response answer = send("[" + post("a") + "," + post("${0.0.slug}-b") + "]");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(database.log, "begin\nrenew\ninsert a\nrenew\ninsert a-b\ncommitted\n");
  EXPECT_TRUE(api::testing::body_of(answer).starts_with(R"([{"status":201,)")) << api::testing::body_of(answer);
}

TEST_F(BatchTest, AConflictIsTriedAgainByTheBatchAlone) {
  database.steps = {{.rows = {}, .changes = 1, .error = {}}, conflict()};
  const Instant began = reactor.now();
  EXPECT_EQ(send("[" + post("a") + "," + post("b") + "]").status, 200);
  EXPECT_EQ(database.log,
            "begin\nrenew\ninsert a\nrenew\ninsert b\ngone\nbegin\nrenew\ninsert a\nrenew\ninsert b\ncommitted\n");
  EXPECT_LE(reactor.now() - began, 3ms) << "one pause, and not those of the call before it";

  database.steps = {conflict(), conflict(), conflict()};
  const http::Response given_up = send("[" + post("a") + "]");
  EXPECT_EQ(given_up.status, 409);
  EXPECT_EQ(given_up.fields.get("Retry-After"), "1");
  EXPECT_EQ(database.log, "begin\nrenew\ninsert a\ngone\nbegin\nrenew\ninsert a\ngone\nbegin\nrenew\ninsert a\ngone\n");

  database.steps.clear();
  database.commit_error = sql::Error{sql::Failure::conflict, "40001", "somebody", 0};
  EXPECT_EQ(send("[" + post("a") + "]").status, 200) << "a commit's conflict is one too";
  EXPECT_EQ(database.log, "begin\nrenew\ninsert a\ngone\nbegin\nrenew\ninsert a\ncommitted\n");
}

TEST_F(BatchTest, HashesNoPasswords) {
  const http::Pattern pattern = *http::Pattern::parse("/users");
  EndpointOptions endpoint;
  endpoint.params.push_back({{"password"}, {}});
  endpoint.params[0].value.hash = PasswordHash::argon2id;
  sql::Statement insert;
  insert.parameters = {{"password", {}}};
  Plan::Route route{.pattern = &pattern, .get = {}, .writes = {}, .sets = {}};
  route.writes.push_back(std::make_shared<const WritePlan>(http::Method::post, endpoint, MethodOptions{}, pattern,
                                                           std::vector<sql::Statement>{insert}));
  plan.routes.push_back(std::move(route));
  batch = std::make_unique<Batch>(plan, database, std::vector<Batch::Filters>(2), reactor);
  const http::Response answer = send(R"([{"method":"POST","path":"/users","body":{"password":"gr8-pass"}}])");
  EXPECT_EQ(answer.status, 422);
  EXPECT_TRUE(api::testing::body_of(answer).contains("Passwords are not hashed in a batch."));
}

TEST_F(BatchTest, TakesTheStrictestIsolationOfItsCalls) {
  const http::Pattern strict = *http::Pattern::parse("/films/{slug}");
  EndpointOptions endpoint;
  MethodOptions put;
  put.isolation = sql::Isolation::serializable;
  sql::Statement update;
  update.text = "update";
  update.parameters = {{"slug", {}}};
  Plan::Route route{.pattern = &strict, .get = {}, .writes = {}, .sets = {}};
  route.writes.push_back(std::make_shared<const WritePlan>(http::Method::patch, endpoint, put, strict,
                                                           std::vector<sql::Statement>{update}));
  plan.routes.push_back(std::move(route));
  batch = std::make_unique<Batch>(plan, database, std::vector<Batch::Filters>(2), reactor);
  const std::string patch = R"({"method":"PATCH","path":"/films/b","body":{}})";
  EXPECT_EQ(send("[" + post("a") + "," + patch + "]").status, 200);
  EXPECT_EQ(database.log, "begin serializable\nrenew\ninsert a\nrenew\nupdate b\ncommitted\n");
  EXPECT_EQ(send("[" + post("a") + "]").status, 200);
  EXPECT_EQ(database.log, "begin\nrenew\ninsert a\ncommitted\n") << "none of its calls asks for more";
  database.steps = {{.rows = {{"c"}}, .changes = 1, .error = {}}};
  EXPECT_EQ(send("[" + post("c") + R"(,{"method":"PATCH","path":"/films/${0.0.slug}","body":{}}])").status, 200);
  EXPECT_EQ(database.log, "begin serializable\nrenew\ninsert c\nrenew\nupdate c\ncommitted\n")
      << "which it is, is not known before";
  batch.reset();
  plan.options.isolation = sql::Isolation::repeatable_read;
  batch = std::make_unique<Batch>(plan, database, std::vector<Batch::Filters>(2), reactor);
  EXPECT_EQ(send("[" + post("a") + "]").status, 200);
  EXPECT_EQ(database.log, "begin repeatable read\nrenew\ninsert a\ncommitted\n");
}

TEST_F(BatchTest, ACallThatIsRefusedEndsIt) {
  database.steps = {{.rows = {}, .changes = 1, .error = {}},
                    {.rows = {}, .changes = 0, .error = sql::Error{sql::Failure::statement, "23505", "twice", 0}}};
  const http::Response answer = send("[" + post("a") + "," + post("a") + "," + post("b") + "]");
  EXPECT_EQ(answer.status, 409);
  EXPECT_TRUE(api::testing::body_of(answer).contains(R"("call":1)")) << api::testing::body_of(answer);
  EXPECT_EQ(database.log, "begin\nrenew\ninsert a\nrenew\ninsert a\ngone\n");
  // The failed batch does not affect the next one.
  EXPECT_EQ(send("[" + post("a") + "]").status, 200);
  EXPECT_EQ(database.log, "begin\nrenew\ninsert a\ncommitted\n");
}

TEST_F(BatchTest, LimitsHold) {
  EXPECT_EQ(send("[" + post("a") + "," + post("a") + "," + post("a") + "," + post("a") + "]").status, 400);
  EXPECT_EQ(database.log, "");
  const std::string longer(500, 'x');
  database.steps = {{.rows = {{longer.c_str()}}, .changes = 1, .error = {}}};
  EXPECT_EQ(send("[" + post("a") + "]").status, 422) << "its answer is longer than answer_limit";
  EXPECT_EQ(database.log, "begin\nrenew\ninsert a\ngone\n");
  EXPECT_EQ(send("[]", "text/plain").status, 415);
  EXPECT_EQ(send("[" + post("a") + "] ").status, 200);
  batch.reset();
  plan.body_limit = 10;
  EXPECT_EQ(send("[" + post("a") + "]").status, 413);
  EXPECT_EQ(database.log, "");
}

TEST_F(BatchTest, ReferencesTakeTurnsAndObeyTheDeadline) {
  std::string many;
  for (int i = 0; i < 1000; ++i) many += "${0.0.slug}";
  const std::string json = "[" + post("a") + "," + post(many) + "]";
  database.steps = {{.rows = {{"a"}}, .changes = 1, .error = {}}};
  const Instant began = reactor.now();
  EXPECT_EQ(send(json).status, 200);
  EXPECT_EQ(database.log, "begin\nrenew\ninsert a\nrenew\ninsert " + std::string(1000, 'a') + "\ncommitted\n");
  EXPECT_GT(reactor.now(), began) << "others have had their turn";
  batch.reset();
  plan.options.timeout = Duration(1);
  database.steps = {{.rows = {{"a"}}, .changes = 1, .error = {}}};
  EXPECT_EQ(send(json).status, 504);
  EXPECT_EQ(database.log, "begin\nrenew\ninsert a\ngone\n");
}

TEST_F(BatchTest, WhatCannotBeCalledIsRefused) {
  EXPECT_EQ(send(R"([{"method":"GET","path":"/none"}])").status, 404);
  EXPECT_EQ(send(R"([{"method":"DELETE","path":"/films"}])").status, 405);
  EXPECT_EQ(send(R"([{"method":"GET","path":"/../films"}])").status, 400);
  EXPECT_EQ(send(R"([{"method":"GET","path":"/${0.a}"}])").status, 400) << "of a call that does not come earlier";
  EXPECT_EQ(database.log, "");
}

}  // namespace
}  // namespace sluice::api::batch
