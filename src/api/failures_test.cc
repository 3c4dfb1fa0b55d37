#include "api/failures.h"

#include <string>

#include <gtest/gtest.h>

#include "api/writing_fixture.h"

namespace sluice::api {
namespace {

http::Response answer(sql::Failure failure, std::string sqlstate, Failed failed) {
  return Failures("/films", nullptr, nullptr)
      .answer({failure, std::move(sqlstate), "the database's own words", 0}, failed);
}

struct Case {
  sql::Failure failure;
  const char* sqlstate;
  int reading;
  int reading_alone;
  int writing;
};

TEST(Failures, StatusByWhatFailedAndWhoseFaultItIs) {
  using sql::Failure;
  for (const Case& one :
       {Case{Failure::unavailable, "", 503, 503, 503},      Case{Failure::lost, "", 503, 503, 503},
        Case{Failure::timed_out, "57014", 504, 504, 504},   Case{Failure::conflict, "40001", 503, 503, 409},
        Case{Failure::not_allowed, "42501", 403, 403, 403}, Case{Failure::bad_argument, "22P02", 400, 500, 422},
        Case{Failure::statement, "23505", 500, 500, 409},   Case{Failure::statement, "23503", 500, 500, 409},
        Case{Failure::statement, "23P01", 500, 500, 409},   Case{Failure::statement, "23502", 500, 500, 422},
        Case{Failure::statement, "23514", 500, 500, 422},   Case{Failure::statement, "23000", 500, 500, 409},
        Case{Failure::statement, "44000", 500, 500, 422},   Case{Failure::statement, "22012", 500, 500, 422},
        Case{Failure::statement, "P0001", 400, 400, 422},   Case{Failure::statement, "55P03", 500, 500, 409},
        Case{Failure::statement, "42501", 403, 403, 403},   Case{Failure::statement, "42601", 500, 500, 500},
        Case{Failure::statement, "54000", 500, 500, 422},   Case{Failure::statement, "54001", 500, 500, 422},
        Case{Failure::statement, "54011", 500, 500, 500},   Case{Failure::statement, "53400", 500, 500, 500},
        Case{Failure::too_large, "", 422, 422, 422},        Case{Failure::statement, "", 500, 500, 500}}) {
    const std::string text = std::to_string(static_cast<int>(one.failure)) + " " + one.sqlstate;
    EXPECT_EQ(answer(one.failure, one.sqlstate, Failed::reading).status, one.reading) << text;
    EXPECT_EQ(answer(one.failure, one.sqlstate, Failed::reading_alone).status, one.reading_alone) << text;
    const http::Response written = answer(one.failure, one.sqlstate, Failed::writing);
    EXPECT_EQ(written.status, one.writing) << text;
    const int without_body = one.failure == Failure::bad_argument ? 400 : one.writing;
    EXPECT_EQ(answer(one.failure, one.sqlstate, Failed::writing_parameters).status, without_body) << text;
    EXPECT_FALSE(testing::body_of(written).contains("own words")) << text;
    EXPECT_EQ(written.fields.get("Content-Type"), "application/problem+json");
  }
}

TEST(Failures, TheLogHasNoMessageOfWhatTakesACredential) {
  using sql::Failure;
  const auto text = [](Failure failure, std::string_view credential) {
    return log_text({failure, "22P02", "invalid: \"hush\"", 0}, credential);
  };
  EXPECT_EQ(text(Failure::statement, ""), "22P02 invalid: \"hush\"");
  for (const Failure failure : {Failure::statement, Failure::bad_argument, Failure::not_allowed}) {
    EXPECT_EQ(text(failure, "authorization"),
              "22P02 (the message is left out: the statement takes the credential \"authorization\")");
  }
  EXPECT_EQ(log_text({Failure::timed_out, "57014", "canceled", 0}, "authorization"), "57014 canceled");
}

TEST(Failures, WhoMayTryAgainIsTold) {
  using sql::Failure;
  EXPECT_EQ(answer(Failure::unavailable, "", Failed::reading).fields.get("Retry-After"), "1");
  EXPECT_EQ(answer(Failure::conflict, "40001", Failed::writing).fields.get("Retry-After"), "1");
  EXPECT_EQ(answer(Failure::statement, "23505", Failed::writing).fields.get("Retry-After"), "");
}

}  // namespace
}  // namespace sluice::api
