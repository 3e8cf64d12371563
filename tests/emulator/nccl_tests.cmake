# The stand-in for libnccl, through the CUDA runtime's stand-in as a program would use it.
rollcall_unit_test(emulator_nccl
  SOURCES nccl_collectives.cpp nccl_hangs.cpp nccl_lifecycle.cpp nccl_transfers.cpp nccl_world.cpp
  LIBRARIES rollcall_emu_nccl rollcall_emu_cudart13 rollcall_emu_cuda Threads::Threads)
target_include_directories(emulator_nccl PRIVATE ${ROLLCALL_EMULATOR_INCLUDE})
