/* Included in front of every source of an injected library: binds functions that glibc moved or
   re-versioned after 2.28 to the version they had before, so that the library loads on systems
   older than the one it was built on. New code that needs a newer glibc is found by
   scripts/check_exports.py. */
#pragma once

#if defined(__linux__) && defined(__GNUC__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#if defined(__x86_64__)
#define ROLLCALL_BIND(function, x86_64_version) \
  __asm__(".symver " #function "," #function "@GLIBC_" x86_64_version)
#elif defined(__aarch64__)
/* The first glibc for this processor. */
#define ROLLCALL_BIND(function, x86_64_version) \
  __asm__(".symver " #function "," #function "@GLIBC_2.17")
#endif
#if defined(ROLLCALL_BIND)
ROLLCALL_BIND(dladdr, "2.2.5");
ROLLCALL_BIND(dlclose, "2.2.5");
ROLLCALL_BIND(dlerror, "2.2.5");
ROLLCALL_BIND(dlopen, "2.2.5");
#if defined(ROLLCALL_CALLS_DLSYM) /* the shim has a dlsym of its own */
ROLLCALL_BIND(dlsym, "2.2.5");
#endif
ROLLCALL_BIND(pthread_attr_setstacksize, "2.2.5");
ROLLCALL_BIND(pthread_create, "2.2.5");
ROLLCALL_BIND(pthread_join, "2.2.5");
ROLLCALL_BIND(pthread_mutex_timedlock, "2.2.5");
ROLLCALL_BIND(pthread_mutex_trylock, "2.2.5");
ROLLCALL_BIND(pthread_once, "2.2.5");
ROLLCALL_BIND(pthread_setname_np, "2.12");
ROLLCALL_BIND(pthread_sigmask, "2.2.5");
ROLLCALL_BIND(sem_post, "2.2.5");
ROLLCALL_BIND(sem_timedwait, "2.2.5");
#undef ROLLCALL_BIND
#endif
#endif
