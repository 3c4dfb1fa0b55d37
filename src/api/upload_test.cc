#include "api/upload.h"

#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "api/file_endpoint.h"
#include "api/writing_fixture.h"

namespace sluice::api {
namespace {

using testing::Body;
using testing::body_of;

// Keeps files in memory. A file's name is the number of files before it.
class FakeStore final : public http::BlobStore {
 public:
  class Writer final : public http::BlobWriter {
   public:
    Writer(FakeStore& store, std::string_view type) : store_(store), type_(type) { ++store_.open; }
    ~Writer() override { --store_.open; }
    core::Async<Result<void>> write(std::string_view bytes) override {
      bytes_ += bytes;
      if (bytes_.size() > store_.most) return Result<void>(fail(Errc::limit));
      return Result<void>{};
    }
    core::Task<Result<http::Blob>> finish() override {
      if (store_.broken) co_return std::unexpected(*store_.broken);
      store_.files.push_back(type_ + ":" + bytes_);
      co_return http::Blob{.hash = "h" + std::to_string(store_.files.size()), .size = bytes_.size()};
    }

   private:
    FakeStore& store_;
    std::string type_;
    std::string bytes_;
  };
  std::uint64_t limit() const override { return most; }
  bool takes(std::string_view type) const override { return type != "text/html"; }
  std::unique_ptr<http::BlobWriter> begin(std::string_view type) override {
    if (full) return nullptr;
    return std::make_unique<Writer>(*this, type);
  }
  core::Task<http::Response> serve(http::Request&, http::BlobAnswer) override { co_return http::problem(404); }

  std::vector<std::string> files;
  int open = 0;
  std::uint64_t most = 1000;
  bool full = false;
  std::optional<Error> broken;
};

class UploadTest : public ::testing::Test {
 public:
  using Got = std::expected<Received, http::Response>;

  Got receive(const UploadPlan& plan, std::string_view type, std::string_view bytes, std::size_t step = SIZE_MAX,
              std::optional<Errc> broken = {}) {
    Body body(bytes, step, broken);
    http::Request request;
    const std::vector<http::Field> fields{{"Content-Type", type}};
    if (!type.empty()) request.fields = fields;
    request.body = &body;
    return receive(plan, request);
  }
  Got receive(const UploadPlan& plan, const http::Request& request) {
    const std::vector<http::BlobStore*> stores(plan.files.size(), &store);
    std::optional<Got> got;
    core::TaskGroup tasks;
    tasks.spawn([](core::Task<Got> from, std::optional<Got>& into) -> core::Task<void> {
      into.emplace(co_await std::move(from));
    }(receive_uploads(request, plan, stores), got));
    EXPECT_TRUE(got);
    EXPECT_EQ(store.open, 0) << "a file is still on its way";
    return std::move(*got);
  }
  static int status_of(const Got& got) { return got ? 200 : got.error().status; }
  Got receive_form(std::string_view body, std::size_t step = SIZE_MAX) {
    return receive(form, "multipart/form-data; boundary=b", body, step);
  }

  static std::string part(std::string_view disposition, std::string_view value, std::string_view type = {}) {
    std::string text = "--b\r\nContent-Disposition: form-data; " + std::string(disposition) + "\r\n";
    if (!type.empty()) text += "Content-Type: " + std::string(type) + "\r\n";
    return text + "\r\n" + std::string(value) + "\r\n";
  }

  FakeStore store;
  static UploadPlan plan(std::vector<std::string> parts) {
    UploadPlan made;
    made.whole = parts[0].empty();
    for (std::string& part : parts) {
      UploadPlan::File& file = made.files.emplace_back();
      file.part = std::move(part);
      file.store = "s";
    }
    return made;
  }
  const UploadPlan whole = plan({""});
  const UploadPlan form = plan({"f", "g"});
};

TEST_F(UploadTest, TheWholeBody) {
  for (const std::size_t step : {std::size_t{1}, SIZE_MAX}) {
    const auto got = receive(whole, "Image/PNG; x=y", "bytes", step);
    ASSERT_TRUE(got);
    EXPECT_EQ(store.files.back(), "image/png:bytes");
    EXPECT_TRUE(got->uploads[0].hash);
    EXPECT_EQ(got->uploads[0].size, "5");
    EXPECT_EQ(got->uploads[0].type, "image/png");
    EXPECT_EQ(got->uploads[0].name, std::nullopt);
    EXPECT_FALSE(got->has_fields);
  }
  EXPECT_EQ(receive(whole, "", "x")->uploads[0].type, "application/octet-stream");
}

TEST_F(UploadTest, AFormWithFilesAndFields) {
  const std::string body = part("name=\"a&b\"", "1=2&3%+ x") +
                           part("name=f; filename=\"../x.png\"", "PNG\r\n", "image/png") + part("name=c", "") +
                           part("name=g", "plain") + "--b--\r\n";
  for (const std::size_t step : {std::size_t{1}, std::size_t{3}, SIZE_MAX}) {
    store.files.clear();
    const auto got = receive_form(body, step);
    ASSERT_TRUE(got);
    EXPECT_EQ(store.files, (std::vector<std::string>{"image/png:PNG\r\n", "text/plain:plain"}));
    EXPECT_EQ(got->fields, "a%26b=1%3D2%263%25%2B x&c=");
    EXPECT_TRUE(got->has_fields);
    EXPECT_EQ(got->uploads[0].hash, "h1");
    EXPECT_EQ(got->uploads[0].name, "x.png");
    EXPECT_EQ(got->uploads[1].hash, "h2");
    EXPECT_EQ(got->uploads[1].name, std::nullopt);
  }
}

TEST_F(UploadTest, WhatBrowsersSendForNoFileIsNone) {
  const auto got = receive_form(part("name=f; filename=\"\"", "", "application/octet-stream") + "--b--");
  ASSERT_TRUE(got);
  EXPECT_EQ(got->uploads[0].hash, std::nullopt);
  EXPECT_TRUE(store.files.empty());
  // An empty file with a name counts as a file.
  EXPECT_EQ(receive_form(part("name=f; filename=\"a\"", "") + "--b--")->uploads[0].size, "0");
}

TEST_F(UploadTest, Refused) {
  EXPECT_EQ(status_of(receive(whole, "text/html", "x")), 415);
  EXPECT_EQ(status_of(receive(whole, "png", "x")), 415);
  EXPECT_EQ(status_of(receive(whole, "multipart/form-data; boundary=b", "x")), 415);
  EXPECT_EQ(status_of(receive(whole, "a/b", std::string(1001, 'x'))), 413);
  EXPECT_EQ(status_of(receive(whole, "a/b", "xyz", 1, Errc::limit)), 413);
  EXPECT_EQ(status_of(receive(whole, "a/b", "xyz", 1, Errc::timed_out)), 408);
  EXPECT_EQ(status_of(receive(whole, "a/b", "xyz", 1, Errc::closed)), 400);
  EXPECT_EQ(status_of(receive(form, "application/json", "{}")), 415);
  EXPECT_EQ(status_of(receive(form, "multipart/form-data", "x")), 415);
  EXPECT_EQ(status_of(receive_form("no boundary")), 400);
  EXPECT_EQ(status_of(receive_form(part("name=f; filename=a", "x"))), 400) << "it ends in the middle";
  EXPECT_EQ(status_of(receive_form(part("name=f; filename=a", "x", "text/html") + "--b--")), 415);
  EXPECT_EQ(status_of(receive_form(part("name=f", std::string(1001, 'x')) + "--b--", 100)), 413);
  EXPECT_EQ(status_of(receive_form(part("name=other; filename=a", "x") + "--b--")), 422);
  EXPECT_EQ(status_of(receive_form(part("name=a", std::string(most_field_bytes, 'x')) + "--b--", 10'000)), 413);
  EXPECT_EQ(status_of(receive_form(part("name=f; filename=\"\xff\"", "x") + "--b--")), 400);
  EXPECT_TRUE(store.files.empty());
  EXPECT_EQ(status_of(receive_form(part("name=f", "1") + part("name=f", "2") + "--b--")), 422);
}

TEST_F(UploadTest, FieldsAreMeasuredAsTheyCome) {
  const std::string body = part("name=a", std::string(600'000, '%')) + part("name=bb", "&=+") + "--b--";
  for (const std::size_t step : {std::size_t{10'000}, SIZE_MAX}) {
    const auto got = receive_form(body, step);
    ASSERT_TRUE(got);
    EXPECT_EQ(got->fields.size(), 2 + (3 * 600'000) + 4 + (3 * 3));
    EXPECT_TRUE(got->fields.ends_with("%25&bb=%26%3D%2B"));
  }
  UploadPlan small = form;
  small.field_bytes = 8;
  const auto status = [&](std::string_view fields) {
    return status_of(receive(small, "multipart/form-data; boundary=b", std::string(fields) + "--b--"));
  };
  EXPECT_EQ(status(part("name=a", "%%%%") + part("name=bb", "&")), 200);
  EXPECT_EQ(status(part("name=a", "%%%%") + part("name=bb", "&&")), 413);
  EXPECT_EQ(status(part("name=a", "%%%%") + part("name=bbbb", "")), 413) << "a name counts too";
}

TEST_F(UploadTest, AnEmptyFileIsOneWhereItsLengthSaysSo) {
  ASSERT_TRUE(receive(whole, "a/b", "")) << "in chunks";
  http::Request request;
  const std::vector<http::Field> fields{{"Content-Type", "a/b"}, {"Content-Length", "0"}};
  request.fields = fields;
  const auto got = receive(whole, request);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->uploads[0].size, "0");
  EXPECT_EQ(store.files, (std::vector<std::string>{"a/b:", "a/b:"}));
  EXPECT_EQ(status_of(receive(form, request)), 415) << "no form is without a byte";
  request.fields = std::span(fields).first(1);
  EXPECT_EQ(status_of(receive(whole, request)), 400);
}

TEST_F(UploadTest, WhatTheStoreSays) {
  const auto status_when = [&](Error error) {
    store.broken = error;
    return status_of(receive(whole, "a/b", "x"));
  };
  EXPECT_EQ(status_when({Errc::malformed}), 415);
  EXPECT_EQ(status_when({Errc::closed}), 503);
  EXPECT_EQ(status_when({Errc::system, ENOSPC}), 507);
  EXPECT_EQ(status_when({Errc::system, EIO}), 500);
  store.full = true;
  const auto refused = receive(whole, "a/b", "x");
  EXPECT_EQ(status_of(refused), 503);
  EXPECT_EQ(refused.error().fields.get("Retry-After"), "1");
}

TEST_F(UploadTest, ACodedBodyOrOneOfTwoTypesIsNotTaken) {
  for (const char* name : {"Content-Encoding", "Content-Type"}) {
    Body body("x");
    http::Request request;
    const std::vector<http::Field> fields{{"Content-Type", "a/b"}, {name, "gzip"}};
    request.fields = fields;
    request.body = &body;
    EXPECT_EQ(status_of(receive(whole, request)), 415);
  }
  http::Request request;
  EXPECT_EQ(status_of(receive(whole, request)), 400);
  EXPECT_EQ(status_of(receive(form, request)), 415);
}

Source source(std::string from, std::string store = "s") {
  const SourceName named = *parse_source(from);
  Source made;
  made.from = named.from;
  made.key = named.key;
  made.upload_field = named.field;
  made.store = std::move(store);
  return made;
}

UploadPlan plan_of(std::vector<Source>& sources, bool has_fields = false) {
  std::vector<Source*> pointers;
  for (Source& one : sources) pointers.push_back(&one);
  return plan_uploads(pointers, has_fields);
}

TEST(UploadPlan, PartsAndTheirProperties) {
  std::vector<Source> sources{source("upload.a.type"), source("path.x"), source("upload.b"), source("upload.a"),
                              source("upload.a.name")};
  const UploadPlan plan = plan_of(sources, true);
  EXPECT_EQ(plan.fault, "");
  EXPECT_FALSE(plan.whole);
  ASSERT_EQ(plan.files.size(), 2u);
  EXPECT_EQ(plan.files[0].part, "a");
  EXPECT_EQ(plan.files[0].store, "s");
  EXPECT_EQ(sources[2].upload_index, 1u);
  EXPECT_EQ(sources[3].upload_index, 0u);
  EXPECT_EQ(sources[4].upload_field, UploadField::name);
}

TEST(UploadPlan, TheBodyItself) {
  std::vector<Source> sources{source("upload.type"), source("upload"), source("upload.size")};
  const UploadPlan plan = plan_of(sources);
  EXPECT_EQ(plan.fault, "");
  EXPECT_TRUE(plan.whole);
  ASSERT_EQ(plan.files.size(), 1u);
  EXPECT_EQ(sources[0].upload_field, UploadField::type);
  EXPECT_EQ(sources[0].key, "");
  EXPECT_EQ(sources[2].upload_field, UploadField::size);
}

TEST(UploadPlan, Faults) {
  const auto fault_of = [](std::vector<Source> sources, bool has_fields = false) {
    return plan_of(sources, has_fields).fault;
  };
  EXPECT_TRUE(fault_of({source("upload"), source("upload.a")}).contains("is no part of it"));
  EXPECT_TRUE(fault_of({source("upload"), source("upload.a.type")}).contains("is no part of it"));
  EXPECT_TRUE(fault_of({source("upload")}, true).contains("has no fields"));
  EXPECT_TRUE(fault_of({source("upload.a.type", "")}).contains("nothing takes the hash"));
  EXPECT_TRUE(fault_of({source("upload.a", "s"), source("upload.a", "t")}).contains("two stores"));
  EXPECT_EQ(fault_of({source("path.x")}), "");
}

TEST(FileColumns, WhatTheyAreCalled) {
  const auto check = [](std::vector<std::string> names) {
    std::vector<sql::Column> columns;
    for (std::string& name : names) columns.push_back({.name = std::move(name), .type = nullptr});
    return check_file_columns(columns);
  };
  EXPECT_EQ(check({"anything"}), "");
  EXPECT_EQ(check({"avatar", "name", "type"}), "");
  EXPECT_NE(check({"avatar", "other"}), "");
  EXPECT_NE(check({"avatar", "type", "type"}), "");
}

}  // namespace
}  // namespace sluice::api
