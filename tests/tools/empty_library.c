// Stands in for the recorder where only its being preloaded matters.
int rollcall_test_library_is_loaded = 1;
