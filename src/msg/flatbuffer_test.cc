#include "msg/flatbuffer.h"

#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "msg/frame.h"
#include "msg/test_messages.fbs.h"

namespace sluice::msg {
namespace {

using test::Group;
using test::LoginRequest;

// Exactly these bytes, aligned, so that ASan sees a read beyond them.
class Body {
 public:
  explicit Body(std::string_view bytes) : bytes_(std::make_unique<char[]>(bytes.size())), size_(bytes.size()) {
    bytes.copy(bytes_.get(), size_);
  }
  [[nodiscard]] std::span<const std::byte> span() const { return std::as_bytes(std::span(bytes_.get(), size_)); }

 private:
  std::unique_ptr<char[]> bytes_;
  std::size_t size_;
};

std::string finished(flatbuffers::FlatBufferBuilder& builder) {
  return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
}

// Written from its end to its beginning. The user comes last and has no padding, so every byte counts.
std::string login() {
  flatbuffers::FlatBufferBuilder builder;
  const auto user = builder.CreateString("ada.lovelac");
  const auto token = builder.CreateString("secret");
  const auto roles = builder.CreateVectorOfStrings({"reader", "", "a writer of many things"});
  builder.Finish(test::CreateLoginRequest(builder, user, token, roles));
  return finished(builder);
}

std::string described(const LoginRequest& request) {
  std::string text = request.user()->str() + '/' + request.token()->str();
  if (request.roles() != nullptr)
    for (const auto* role : *request.roles()) text += '/' + role->str();
  return text;
}

std::string described(const Group& group) {
  std::string text = std::to_string(group.number());
  if (group.name() != nullptr) text += group.name()->str();
  if (group.groups() != nullptr)
    for (const auto* inner : *group.groups()) text += '(' + described(*inner) + ')';
  return text;
}

// `depth` tables, each in the one before.
std::string nested(unsigned depth) {
  flatbuffers::FlatBufferBuilder builder;
  auto group = test::CreateGroupDirect(builder, "inmost", 1);
  while (--depth > 0) {
    const std::vector<flatbuffers::Offset<Group>> groups{group};
    group = test::CreateGroupDirect(builder, "outer", depth, &groups);
  }
  builder.Finish(group);
  return finished(builder);
}

TEST(Verified, AValidMessage) {
  const Body body(login());
  const LoginRequest* const request = verified<LoginRequest>(body.span());
  ASSERT_NE(request, nullptr);
  EXPECT_EQ(described(*request), "ada.lovelac/secret/reader//a writer of many things");
}

TEST(Verified, AMessageInAFrame) {
  const std::string message = login();
  Buffer input;
  for (int i = 0; i < 3; ++i)
    append_frame(
        input,
        {.id = 1, .flags = i == 1 ? correlated_flag : std::uint8_t{0}, .body = std::as_bytes(std::span(message))});
  FrameDecoder decoder(1000);
  for (int i = 0; i < 3; ++i) {
    const auto frame = decoder.next(input);
    ASSERT_TRUE(frame && *frame);
    const auto* const request = verified<LoginRequest>((*frame)->body);
    ASSERT_NE(request, nullptr);
    EXPECT_EQ(request->user()->str(), "ada.lovelac");
  }
}

TEST(Verified, AMissingFieldThatIsRequired) {
  flatbuffers::FlatBufferBuilder builder;
  const auto user = builder.CreateString("ada");
  const auto start = builder.StartTable();
  builder.AddOffset(LoginRequest::VT_USER, user);
  builder.Finish(flatbuffers::Offset<LoginRequest>(builder.EndTable(start)));
  EXPECT_EQ(verified<LoginRequest>(Body(finished(builder)).span()), nullptr);
}

TEST(Verified, AMessageThatIsCutAtEveryByte) {
  const std::string whole = login();
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_EQ(verified<LoginRequest>(Body(whole.substr(0, size)).span()), nullptr) << size;
}

// Either refused, or all of it can be read: ASan and UBSan would report a bad access.
TEST(Verified, AMessageWithEveryByteReplaced) {
  const std::string logged_in = login();
  const std::string group = nested(3);
  std::size_t refused = 0;
  std::size_t read = 0;
  for (const std::string& message : {logged_in, group})
    for (std::size_t at = 0; at < message.size(); ++at)
      for (int value = 0; value < 256; ++value) {
        std::string changed = message;
        changed[at] = static_cast<char>(value);
        const Body body(changed);
        const auto* const request = verified<LoginRequest>(body.span());
        const auto* const tree = verified<Group>(body.span());
        if (request != nullptr) read += described(*request).size();
        if (tree != nullptr) read += described(*tree).size();
        refused += request == nullptr && tree == nullptr;
      }
  EXPECT_GT(refused, 1000u);
  EXPECT_GT(read, 1000u);
}

TEST(Verified, TablesThatAreNestedTooDeeply) {
  const Body deepest(nested(deepest_table));
  const auto* const group = verified<Group>(deepest.span());
  ASSERT_NE(group, nullptr);
  EXPECT_EQ(described(*group).substr(0, 14), "1outer(2outer(");
  EXPECT_EQ(verified<Group>(Body(nested(deepest_table + 1)).span()), nullptr);
  EXPECT_EQ(verified<Group>(Body(nested(10'000)).span()), nullptr);
}

TEST(Verified, TooManyTables) {
  const auto with_members = [](std::size_t count) {
    flatbuffers::FlatBufferBuilder builder;
    const std::vector<flatbuffers::Offset<Group>> groups(count, test::CreateGroupDirect(builder, "shared"));
    builder.Finish(test::CreateGroupDirect(builder, "outer", 0, &groups));
    return Body(finished(builder));
  };
  EXPECT_NE(verified<Group>(with_members(999).span()), nullptr);
  EXPECT_EQ(verified<Group>(with_members(1'000).span()), nullptr);
  EXPECT_NE(verified<Group>(with_members(1'000).span(), 1'001), nullptr);
  EXPECT_EQ(verified<Group>(with_members(3).span(), 3), nullptr);
}

}  // namespace
}  // namespace sluice::msg
