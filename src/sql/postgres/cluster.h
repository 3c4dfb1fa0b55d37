#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <sys/types.h>

// A PostgreSQL server for tests: of its own, in a temporary directory, gone with the process. Compiled into tests only
// (cluster_test.cc).
namespace sluice::sql::postgres {

class Cluster {
 public:
  // One server for all tests of a program; started by the first that asks. Throws when PostgreSQL is not installed.
  static Cluster& shared();

  Cluster();
  Cluster(const Cluster&) = delete;
  ~Cluster();

  void start();
  void stop();  // as an administrator would: sessions are ended (57P01)
  void kill();  // as a crash would
  // TLS with these PEM files from now on, beside connections in the clear; empty ones: no TLS any more.
  void use_tls(const std::string& certificate, const std::string& key);

  // The database "postgres". Users: "postgres" (the superuser; trusted), and, over TCP, "md5_user", "scram_user" and
  // "clear_user", whose passwords are "secret " and their name's first letter, and whose authentication is their
  // name's.
  [[nodiscard]] std::string url() const;  // the unix socket
  [[nodiscard]] std::string tcp_url(std::string_view user, std::string_view password) const;
  [[nodiscard]] const std::string& directory() const { return directory_; }  // with the socket
  [[nodiscard]] std::uint16_t port() const { return port_; }

  // Runs statements in psql as the superuser; its output, unaligned and without headers. Throws where it fails.
  std::string psql(const std::string& sql) const;

 private:
  [[nodiscard]] std::string run(const std::string& command) const;
  void wait_until_ready() const;

  std::string binaries_;
  std::string directory_;
  std::uint16_t port_ = 0;
  pid_t server_ = -1;
};

}  // namespace sluice::sql::postgres
