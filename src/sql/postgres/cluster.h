#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <sys/types.h>

// A PostgreSQL server for tests, in a temporary directory that is removed when the process ends (cluster_test.cc).
namespace sluice::sql::postgres {

class Cluster {
 public:
  // One server for all tests of a program, started by the first call. Throws if PostgreSQL is not installed.
  static Cluster& shared();

  Cluster();
  Cluster(const Cluster&) = delete;
  ~Cluster();

  void start();
  void stop();  // like an administrator: sessions are terminated (57P01)
  void kill();  // like a crash
  // Accepts TLS with these PEM files from now on, in addition to unencrypted connections. Empty arguments turn TLS off.
  void use_tls(const std::string& certificate, const std::string& key);

  // The database "postgres". Users: "postgres" (the superuser; trusted), and, over TCP, "md5_user", "scram_user" and
  // "clear_user", whose names say how they authenticate. A password is "secret " and the first letter of the name.
  [[nodiscard]] std::string url() const;  // over the unix socket
  [[nodiscard]] std::string tcp_url(std::string_view user, std::string_view password) const;
  [[nodiscard]] const std::string& directory() const { return directory_; }  // contains the socket
  [[nodiscard]] std::uint16_t port() const { return port_; }

  // Runs statements in psql as the superuser and returns the output, unaligned and without headers. Throws on failure.
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
