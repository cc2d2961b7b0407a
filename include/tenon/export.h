// Symbol visibility: everything is hidden but what carries TENON_API.
#pragma once

#define TENON_API [[gnu::visibility("default")]]
