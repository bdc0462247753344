#pragma once

// QUIRE_EXPORT marks the symbols that the shared library offers; everything else is hidden.
#if defined(QUIRE_STATIC)
#define QUIRE_EXPORT
#elif defined(_WIN32)
#if defined(QUIRE_BUILDING)
#define QUIRE_EXPORT __declspec(dllexport)
#else
#define QUIRE_EXPORT __declspec(dllimport)
#endif
#else
#define QUIRE_EXPORT [[gnu::visibility("default")]]
#endif
