// A job that nothing can be preloaded into: it is linked statically.
int main(void) { return 5; }
