/* Records the NCCL calls of job steps: a SPANK plugin of Slurm's, for clusters whose users ask for
   it by an option, or on which it is on for everybody. An example to be built against the cluster's
   own Slurm, whose releases each want plugins of their own:

     cc -shared -fPIC -o /usr/lib/slurm/spank_rollcall.so spank_rollcall.c
     plugstack.conf:  optional spank_rollcall.so [library=FILE] [default=on]

     srun --rollcall ./job            into rollcall-runs/JOB.STEP, where the job was submitted
     srun --rollcall=DIR ./job        into DIR
     srun --rollcall=off ./job        not at all, where the default is on

   It needs Slurm's header alone, and no more rights than the job: it acts on the environment of
   each task, as the user, before the program starts. */
#include <errno.h>
#include <slurm/slurm.h>
#include <slurm/spank.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

SPANK_PLUGIN(rollcall, 1);

enum { kTextBytes = 4096, kOptionalArgument = 2 };

static char library[kTextBytes] = "/usr/lib/rollcall/librollcall.so";
static char directory[kTextBytes] = ""; /* what --rollcall names */
static int is_on = 0;

static int take_option(int value, const char* argument, int remote) {
  (void)value, (void)remote;
  is_on = argument == NULL || strcmp(argument, "off") != 0;
  if (is_on && argument != NULL) {
    if (strlen(argument) >= sizeof(directory)) return -1;
    snprintf(directory, sizeof(directory), "%s", argument);
  }
  return 0;
}

static struct spank_option option = {
    "rollcall",        "[DIR]", "record NCCL calls (off: do not), into DIR",
    kOptionalArgument, 0,       take_option};

int slurm_spank_init(spank_t spank, int count, char* arguments[]) {
  for (int i = 0; i < count; ++i) {
    if (strcmp(arguments[i], "default=on") == 0) {
      is_on = 1;
    } else if (strncmp(arguments[i], "library=", 8) == 0 &&
               strlen(arguments[i] + 8) < sizeof(library)) {
      snprintf(library, sizeof(library), "%s", arguments[i] + 8);
    } else {
      slurm_error("spank_rollcall: %s in plugstack.conf is neither library=FILE nor default=on",
                  arguments[i]);
    }
  }
  return spank_option_register(spank, &option) == ESPANK_SUCCESS ? 0 : -1;
}

/* "" where the task has no such variable, or a longer one. */
static const char* variable(spank_t spank, const char* name, char* text) {
  if (spank_getenv(spank, name, text, kTextBytes) != ESPANK_SUCCESS) text[0] = '\0';
  return text;
}

static void set(spank_t spank, const char* name, const char* value) {
  if (spank_setenv(spank, name, value, 1) != ESPANK_SUCCESS) {
    slurm_error("spank_rollcall: %s could not be set", name);
  }
}

/* Behind what is preloaded already. False: it is there, or does not fit. */
static int append_library(spank_t spank) {
  char before[kTextBytes];
  char value[2 * kTextBytes];
  const spank_err_t found = spank_getenv(spank, "LD_PRELOAD", before, sizeof(before));
  if (found == ESPANK_NOSPACE) return 0;
  if (found != ESPANK_SUCCESS) before[0] = '\0';
  if (strstr(before, "librollcall.so") != NULL) return 0;
  snprintf(value, sizeof(value), "%s%s%s", before, before[0] == '\0' ? "" : ":", library);
  set(spank, "LD_PRELOAD", value);
  return 1;
}

/* In each task, with the user's rights. Whatever fails, the job starts. */
int slurm_spank_task_init(spank_t spank, int count, char* arguments[]) {
  uint32_t job = 0;
  uint32_t step = 0;
  char text[kTextBytes];
  char name[64];
  char place[2 * kTextBytes];
  (void)count, (void)arguments;
  if (!is_on) return 0;
  if (spank_get_item(spank, S_JOB_ID, &job) != ESPANK_SUCCESS ||
      spank_get_item(spank, S_JOB_STEPID, &step) != ESPANK_SUCCESS) {
    return 0;
  }
  /* The batch script itself and its like have numbers from the end; their steps are recorded. */
  if (step >= SLURM_MAX_NORMAL_STEP_ID) return 0;
  if (access(library, R_OK) != 0) {
    slurm_error("spank_rollcall: %s: %s; the job is not recorded", library, strerror(errno));
    return 0;
  }
  if (!append_library(spank)) return 0;
  /* A job that was requeued keeps its number. */
  const int restarts = atoi(variable(spank, "SLURM_RESTART_COUNT", text));
  snprintf(name, sizeof(name), restarts > 0 ? "%u.%u.restart-%d" : "%u.%u", job, step, restarts);
  if (*variable(spank, "ROLLCALL_RUN_ID", text) == '\0') {
    snprintf(place, sizeof(place), "slurm-%s", name);
    set(spank, "ROLLCALL_RUN_ID", place);
  }
  if (directory[0] != '\0') {
    set(spank, "ROLLCALL_DIR", directory);
  } else if (*variable(spank, "ROLLCALL_DIR", text) == '\0') {
    const char* base = variable(spank, "SLURM_SUBMIT_DIR", text);
    snprintf(place, sizeof(place), "%s/rollcall-runs/%s", *base == '\0' ? "." : base, name);
    set(spank, "ROLLCALL_DIR", place);
  }
  return 0;
}
