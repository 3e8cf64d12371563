// What compiled C++ refers to although it is never used, so that nothing of libstdc++ is linked in:
// no allocator, no unwinder, no second copy of anything in somebody else's process.

// The slot of a pure virtual function: never called.
extern "C" [[noreturn]] void __cxa_pure_virtual() { __builtin_trap(); }
