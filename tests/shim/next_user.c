/* A library that asks for the next definition of a function after itself: only right when dlsym
   sees this library as the caller. Built several times, each with its own rank in link order. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

int next_rank(void);
int next_rank(void) {
  int (*next)(void) = (int (*)(void))dlsym(RTLD_NEXT, "next_rank");
  return RANK + 10 * (next != NULL ? next() : 0);
}
