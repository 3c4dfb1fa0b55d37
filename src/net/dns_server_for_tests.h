#pragma once

#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/address.h"

namespace sluice::net::testing {

// A DNS server on a free UDP port of the loopback address, with records that a test sets.
class DnsServer {
 public:
  struct Record {
    std::vector<std::string> addresses = {};  // if none has the requested family, the answer is empty
    std::uint32_t ttl = 60;
    int code = 0;         // RCODE: 2 SERVFAIL, 3 NXDOMAIN
    bool silent = false;  // the query is counted but not answered
  };

  DnsServer() : socket_(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    const auto any = *core::Address::from_ip("127.0.0.1", 0);
    sockaddr_in bound{};
    socklen_t size = sizeof bound;
    EXPECT_EQ(::bind(socket_, any.get(), any.size()), 0);
    EXPECT_EQ(::getsockname(socket_, reinterpret_cast<sockaddr*>(&bound), &size), 0);
    address_ = core::Address(reinterpret_cast<sockaddr*>(&bound), size);
    thread_ = std::thread([this] { serve(); });
  }
  ~DnsServer() {
    (void)::sendto(socket_, "", 0, 0, address_.get(), address_.size());  // an empty packet ends the thread
    thread_.join();
    ::close(socket_);
  }
  DnsServer(const DnsServer&) = delete;

  [[nodiscard]] std::string text() const { return address_.text(); }  // for Resolver::Options::servers
  void set(const std::string& name, Record record) {
    const std::lock_guard lock(mutex_);
    records_[name] = std::move(record);
  }
  // The number of received queries of type A.
  [[nodiscard]] int queries(const std::string& name) {
    const std::lock_guard lock(mutex_);
    return queries_[name];
  }
  // While the returned lock is held, the server does not answer.
  [[nodiscard]] std::unique_lock<std::mutex> pause() { return std::unique_lock(mutex_); }

 private:
  static constexpr int type_a = 1;
  static constexpr int type_aaaa = 28;

  static void append(std::string& packet, std::uint32_t value, int bytes) {
    for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) packet += static_cast<char>(value >> shift & 255);
  }

  void serve() {
    char query[512];
    for (;;) {
      sockaddr_storage from{};
      socklen_t size = sizeof from;
      const auto got = ::recvfrom(socket_, query, sizeof query, 0, reinterpret_cast<sockaddr*>(&from), &size);
      if (got <= 0) return;
      const std::string reply = answer({query, static_cast<std::size_t>(got)});
      if (!reply.empty())
        (void)::sendto(socket_, reply.data(), reply.size(), 0, reinterpret_cast<sockaddr*>(&from), size);
    }
  }

  // RFC 1035, 4.1: a header of 12 bytes, the question, the answers.
  std::string answer(const std::string& query) {
    std::string name;
    std::size_t at = 12;
    while (at < query.size() && query[at] != 0) {
      if (!name.empty()) name += '.';
      name.append(query, at + 1, static_cast<unsigned char>(query[at]));
      at += static_cast<unsigned char>(query[at]) + 1u;
    }
    if (at + 5 > query.size()) return {};
    const int type = query[at + 2];
    const std::lock_guard lock(mutex_);
    if (type == type_a) ++queries_[name];
    const auto found = records_.find(name);
    const Record record = found != records_.end() ? found->second : Record{.code = 3};
    if (record.silent) return {};
    std::string answers;
    std::uint32_t count = 0;
    for (const std::string& ip : record.addresses) {
      unsigned char bytes[16];
      const bool is_six = ip.find(':') != std::string::npos;
      if (is_six != (type == type_aaaa)) continue;
      EXPECT_EQ(inet_pton(is_six ? AF_INET6 : AF_INET, ip.c_str(), bytes), 1);
      append(answers, 0xC00C, 2);  // the name of the question
      append(answers, static_cast<std::uint32_t>(type), 2);
      append(answers, 1, 2);  // IN
      append(answers, record.ttl, 4);
      append(answers, is_six ? 16 : 4, 2);
      answers.append(reinterpret_cast<const char*>(bytes), is_six ? 16 : 4);
      ++count;
    }
    std::string reply = query.substr(0, 2);
    append(reply, 0x8180u | static_cast<std::uint32_t>(record.code), 2);
    append(reply, 1, 2);
    append(reply, count, 2);
    append(reply, 0, 4);
    return reply + query.substr(12, at + 5 - 12) + answers;
  }

  const int socket_;
  core::Address address_;
  std::mutex mutex_;
  std::map<std::string, Record> records_;
  std::map<std::string, int> queries_;
  std::thread thread_;
};

}  // namespace sluice::net::testing
