#include "app/commands/version.h"

#include <ares.h>
#include <brotli/encode.h>
#include <fmt/format.h>
#include <gnu/libc-version.h>
#include <libdeflate.h>
#include <nghttp2/nghttp2.h>
#include <openssl/crypto.h>
#include <simdjson.h>
#include <sqlite3.h>
#include <zlib.h>
#include <zstd.h>

#include "base/version.h"

namespace sluice::app {

std::string version_text() {
  const auto brotli = BrotliEncoderVersion();  // 0xMMMmmmppp
  return fmt::format(
      "sluice {}{}{}{}\n"
      "compiler: {}\n"
      "libraries: glibc {}, OpenSSL {}, SQLite {}, nghttp2 {}, c-ares {}, simdjson {}, zlib {}, zstd {}, brotli "
      "{}.{}.{}, "
      "libdeflate {}",
      version, commit.empty() ? "" : " (", commit, commit.empty() ? "" : ")", compiler, gnu_get_libc_version(),
      OpenSSL_version(OPENSSL_VERSION_STRING), sqlite3_libversion(), nghttp2_version(0)->version_str,
      ares_version(nullptr), SIMDJSON_STRINGIFY(SIMDJSON_VERSION), zlibVersion(), ZSTD_versionString(), brotli >> 24,
      brotli >> 12 & 0xfff, brotli & 0xfff, LIBDEFLATE_VERSION_STRING);
}

}  // namespace sluice::app
