#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/time.h"
#include "sql/database.h"
#include "sql/postgres/server_error.h"
#include "sql/postgres/settings.h"

namespace sluice::sql::postgres {

// A statement as a session sends it. All that it refers to lasts as long as its exchange.
struct Request {
  const Statement& statement;
  std::string_view parameters;  // encoded as in Bind
  const Settings& settings;
  Instant deadline = never;
  bool has_transaction = false;  // BEGIN READ ONLY and COMMIT surround it
  bool may_share_sync = false;   // with others (Options::batch)
};

// The user of a session: it has sent a request, or leases the session. When the answer to its request has ended, the
// session calls one of answer(), refused(), unusable(), again() and lost(). An exchange that leaves earlier tells the
// session so (Connection::forget(), release()).
class Exchange {
 public:
  // Why a request has to be sent again.
  enum class Again : std::uint8_t {
    stale_plan,       // the server has given up its plan
    unknown_columns,  // types of its columns are being looked up
    too_large,        // for a session that requests share
    skipped,          // an earlier request with the same Sync has failed
    cancelled,        // a cancel for another request has hit it
  };

  // During a lease: bytes have arrived, all has been sent, or the session has ended.
  virtual void readable() = 0;

  // The answer of a shared request: its rows, whose views last until the function returns, and how many rows a write
  // has changed. An exchange that does not need the rows longer calls Connection::taken(); otherwise keep() is called
  // next.
  virtual void answer(const Block& rows, std::uint64_t changes) = 0;
  virtual void keep() = 0;
  virtual void refused(const ServerError& error) = 0;
  // The result has no columns, or does not fit them.
  virtual void unusable() = 0;
  virtual void again(Again why, const ServerError* error) = 0;
  // The session, opened at `opened`, has ended before the answer has.
  virtual void lost(const Error& why, Instant opened) = 0;

 protected:
  ~Exchange() = default;
};

}  // namespace sluice::sql::postgres
