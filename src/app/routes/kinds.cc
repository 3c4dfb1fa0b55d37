#include "app/routes/kind.h"

namespace sluice::app {

// Each is defined in its own file in this folder.
extern const Kind endpoint_kind, resident_kind, files_kind, websocket_kind, proxy_kind;
extern const Kind batch_kind;    // its calls need the routes above
extern const Kind openapi_kind;  // describes the routes above

std::span<const Kind* const> kinds() {
  static constexpr const Kind* all[] = {&endpoint_kind, &resident_kind, &files_kind,  &websocket_kind,
                                        &proxy_kind,    &batch_kind,    &openapi_kind};
  return all;
}

}  // namespace sluice::app
