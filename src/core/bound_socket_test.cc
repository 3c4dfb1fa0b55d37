#include "core/bound_socket.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

namespace sluice::core {
namespace {

// Returns 0, or the errno of a failed connect().
int connect_error(const Address& address) {
  const int fd = ::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int error = ::connect(fd, address.get(), address.size()) == 0 ? 0 : errno;
  ::close(fd);
  return error;
}

TEST(BoundSocket, AnAddressIsClaimedAloneAndNobodyListensThere) {
  const auto free = claim(*Address::parse("127.0.0.1:0"));
  ASSERT_TRUE(free);
  EXPECT_NE(free->port(), 0);
  EXPECT_EQ(connect_error(*free), ECONNREFUSED);

  const auto fd = bind_socket(*free, true, false);
  ASSERT_TRUE(fd);
  EXPECT_EQ(connect_error(*free), ECONNREFUSED);  // the same as while claim() holds the address
  ASSERT_EQ(::listen(*fd, 1), 0);
  EXPECT_EQ(connect_error(*free), 0);
  const auto taken = claim(*free);
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().detail, EADDRINUSE);
  ::close(*fd);
  EXPECT_TRUE(claim(*free));
}

TEST(BoundSocket, AUnixSocketMakesRoomWhenNobodyListens) {
  const std::string path = testing::TempDir() + "/claimed-" + std::to_string(::getpid());
  const Address address = *Address::from_path(path);
  ASSERT_TRUE(claim(address));
  EXPECT_EQ(connect_error(address), ECONNREFUSED);  // the socket's file still exists
  const auto fd = bind_socket(address, false, false);
  ASSERT_TRUE(fd);
  ASSERT_EQ(::listen(*fd, 1), 0);
  const auto taken = claim(address);
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().detail, EADDRINUSE);
  EXPECT_EQ(connect_error(address), 0);
  ::close(*fd);
  EXPECT_TRUE(claim(address));
  std::filesystem::remove(path);
}

TEST(BoundSocket, AFileThatIsNoSocketStays) {
  const std::string path = testing::TempDir() + "/no-socket-" + std::to_string(::getpid());
  std::ofstream(path) << "precious";
  const std::string link = path + "-link";
  std::filesystem::create_symlink(path, link);
  for (const std::string& taken : {path, link}) {
    const auto refused = claim(*Address::from_path(taken));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().detail, EEXIST);
  }
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(std::filesystem::file_size(path), 8u);
  std::filesystem::remove(link);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace sluice::core
