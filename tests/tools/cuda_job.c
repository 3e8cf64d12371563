// Looks like a program with the CUDA runtime linked statically: the name of a function that every
// use of the runtime contains, and no libcudart among the libraries it needs.
const char* volatile rollcall_test_mention = "cudaLaunchKernel";
int main(void) { return rollcall_test_mention == 0; }
