#pragma once

// All kinds of component.
#include "app/components/compression/compression.h"
#include "app/components/database/database.h"
#include "app/components/feed/feed.h"
#include "app/components/folder/folder.h"
#include "app/components/frames/frames.h"
#include "app/components/key_source/key_source.h"
#include "app/components/login/login.h"
#include "app/components/passwords/passwords.h"
#include "app/components/policies.h"
#include "app/components/policy/policy.h"
#include "app/components/resident/resident.h"
#include "app/components/room/room.h"
#include "app/components/service/service.h"
#include "app/components/store/store.h"
#include "app/components/upstream/upstream.h"
#include "app/components/websocket/websocket.h"
