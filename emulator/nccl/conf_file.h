// NCCL's configuration files: what they say goes into the environment, where it is not set there.
#pragma once

namespace emu_nccl {

// $NCCL_CONF_FILE, or else ~/.nccl.conf; then /etc/nccl.conf. Once in a process, in front of the
// first variable of NCCL's that is read.
void read_conf_files();

}  // namespace emu_nccl
