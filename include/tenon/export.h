// Symbol visibility: libtenon exports the declarations that are marked TENON_API, and hides all others.
#pragma once

#define TENON_API [[gnu::visibility("default")]]
