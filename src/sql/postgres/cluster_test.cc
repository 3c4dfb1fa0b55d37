#include "sql/postgres/cluster.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <netinet/in.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace sluice::sql::postgres {
namespace {

namespace fs = std::filesystem;

// The binaries of the newest installed server.
std::string find_binaries() {
  std::vector<std::pair<int, std::string>> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/usr/lib/postgresql", ignored)) {
    const fs::path bin = entry.path() / "bin";
    if (fs::exists(bin / "initdb")) found.emplace_back(std::atoi(entry.path().filename().c_str()), bin);
  }
  if (found.empty()) throw std::runtime_error("PostgreSQL is not installed: no /usr/lib/postgresql/*/bin/initdb");
  return std::max_element(found.begin(), found.end())->second;
}

std::uint16_t free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const bool bound = ::bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                     ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  ::close(fd);
  if (!bound) throw std::runtime_error("no free port");
  return ntohs(address.sin_port);
}

std::string quoted(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

// PostgreSQL refuses to run as root.
std::string as_server_user() { return geteuid() == 0 ? "runuser -u postgres -- " : ""; }

}  // namespace

Cluster& Cluster::shared() {
  static Cluster cluster;
  return cluster;
}

Cluster::Cluster() : binaries_(find_binaries()), port_(free_port()) {
  char name[] = "/tmp/sluice-pg-XXXXXX";
  if (mkdtemp(name) == nullptr) throw std::runtime_error("no temporary directory");
  directory_ = name;
  if (geteuid() == 0) {
    const passwd* user = getpwnam("postgres");
    if (user == nullptr || chown(name, user->pw_uid, user->pw_gid) != 0) throw std::runtime_error("no user postgres");
  }
  chmod(name, 0755);
  (void)run(as_server_user() + binaries_ + "/initdb -D " + directory_ +
            "/data -U postgres -A trust -E UTF8 --locale=C.UTF-8 --no-sync 2>&1");
  std::ofstream(directory_ + "/data/postgresql.conf", std::ios::app)
      << "listen_addresses = '127.0.0.1'\nport = " << port_ << "\nunix_socket_directories = '" << directory_
      << "'\nfsync = off\nmax_connections = 60\nlogging_collector = off\nshared_buffers = 64MB\n";
  std::ofstream(directory_ + "/data/pg_hba.conf") << "local all all trust\n"
                                                     "host all md5_user 127.0.0.1/32 md5\n"
                                                     "host all scram_user 127.0.0.1/32 scram-sha-256\n"
                                                     "host all clear_user 127.0.0.1/32 password\n"
                                                     "host all all 127.0.0.1/32 trust\n";
  start();
  psql(
      "SET password_encryption = 'md5'; CREATE USER md5_user PASSWORD 'secret m';"
      "SET password_encryption = 'scram-sha-256'; CREATE USER scram_user PASSWORD 'secret s';"
      "CREATE USER clear_user PASSWORD 'secret c'");
}

Cluster::~Cluster() {
  if (server_ > 0) kill();
  std::error_code ignored;
  fs::remove_all(directory_, ignored);
}

void Cluster::start() {
  server_ = fork();
  if (server_ < 0) throw std::runtime_error("fork failed");
  if (server_ == 0) {
    if (geteuid() == 0) {
      const passwd* user = getpwnam("postgres");
      if (user == nullptr || initgroups("postgres", user->pw_gid) != 0 || setgid(user->pw_gid) != 0 ||
          setuid(user->pw_uid) != 0) {
        _exit(1);
      }
    }
    prctl(PR_SET_PDEATHSIG, SIGQUIT);  // the server stops if the test crashes
    setsid();
    const int log = ::open((directory_ + "/log").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
    dup2(log, 1);
    dup2(log, 2);
    // The server must not inherit this program's open files.
    for (int fd = 3; fd < 1024; ++fd) ::close(fd);
    const std::string program = binaries_ + "/postgres";
    const std::string data = directory_ + "/data";
    execl(program.c_str(), program.c_str(), "-D", data.c_str(), static_cast<char*>(nullptr));
    _exit(1);
  }
  wait_until_ready();
}

void Cluster::stop() {
  ::kill(server_, SIGINT);
  waitpid(server_, nullptr, 0);
  server_ = -1;
}

void Cluster::kill() {
  ::kill(server_, SIGQUIT);
  waitpid(server_, nullptr, 0);
  server_ = -1;
}

void Cluster::use_tls(const std::string& certificate, const std::string& key) {
  const std::string wanted = certificate.empty() ? "off" : "on";
  if (!certificate.empty()) {
    const passwd* user = geteuid() == 0 ? getpwnam("postgres") : nullptr;
    for (const auto& [from, name] : {std::pair(certificate, "/server.crt"), std::pair(key, "/server.key")}) {
      const std::string to = directory_ + "/data" + name;
      fs::copy_file(from, to, fs::copy_options::overwrite_existing);
      fs::permissions(to, fs::perms::owner_read | fs::perms::owner_write);
      if (user != nullptr && chown(to.c_str(), user->pw_uid, user->pw_gid) != 0) throw std::runtime_error("chown");
    }
  }
  psql("ALTER SYSTEM SET ssl = " + wanted);
  psql("SELECT pg_reload_conf()");
  for (int attempt = 0; attempt < 600; ++attempt) {
    if (psql("SHOW ssl") == wanted + "\n") return;
    usleep(50'000);
  }
  throw std::runtime_error("PostgreSQL does not take ssl = " + wanted + "; see " + directory_ + "/log");
}

void Cluster::wait_until_ready() const {
  const std::string command = binaries_ + "/pg_isready -q -h " + directory_ + " -p " + std::to_string(port_);
  for (int attempt = 0; attempt < 600; ++attempt) {
    if (std::system(command.c_str()) == 0) return;
    usleep(50'000);
  }
  throw std::runtime_error("PostgreSQL does not start; see " + directory_ + "/log");
}

std::string Cluster::url() const {
  return "postgres://postgres@/postgres?host=" + directory_ + "&port=" + std::to_string(port_);
}

std::string Cluster::tcp_url(std::string_view user, std::string_view password) const {
  std::string escaped;
  for (const char c : password) escaped += c == ' ' ? "%20" : std::string(1, c);
  return "postgres://" + std::string(user) + ":" + escaped + "@127.0.0.1:" + std::to_string(port_) + "/postgres";
}

std::string Cluster::psql(const std::string& sql) const {
  // A lock that a session of the waiting test holds would never be released: an error says which statement waited.
  return run("PGOPTIONS='-c lock_timeout=30s -c statement_timeout=120s' " + binaries_ +
             "/psql -XAtq -v ON_ERROR_STOP=1 -h " + directory_ + " -p " + std::to_string(port_) +
             " -U postgres -d postgres -c " + quoted(sql) + " 2>&1");
}

std::string Cluster::run(const std::string& command) const {
  FILE* const pipe = popen(("cd / && " + command).c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("popen failed");
  std::string output;
  char chunk[4096];
  while (const std::size_t got = fread(chunk, 1, sizeof chunk, pipe)) output.append(chunk, got);
  if (pclose(pipe) != 0) throw std::runtime_error(command + "\n" + output);
  return output;
}

}  // namespace sluice::sql::postgres
