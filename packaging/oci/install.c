/* The one program of the image that can run in it: an image from scratch has no shell, no `cp` and
   no C library.

     /install FOLDER      copies /opt/rollcall to FOLDER, where the job's container finds it

   Linked statically. Exit status 1, with one line, when anything could not be copied. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { kPathBytes = 4096, kPartBytes = 65536 };

static int fail(const char* what, const char* path) {
  fprintf(stderr, "install: cannot %s %s: %s\n", what, path, strerror(errno));
  return 1;
}

/* Under another name first: a container that starts meanwhile finds a whole library or none. */
static int copy_file(const char* from, const char* to, mode_t mode) {
  static char part[kPartBytes];
  char fresh[kPathBytes + 8];
  ssize_t bytes = 0;
  snprintf(fresh, sizeof(fresh), "%s.new", to);
  const int in = open(from, O_RDONLY | O_CLOEXEC);
  if (in < 0) return fail("read", from);
  const int out = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
  if (out < 0) return fail("write", fresh);
  while ((bytes = read(in, part, sizeof(part))) > 0) {
    for (ssize_t done = 0; done < bytes;) {
      const ssize_t written = write(out, part + done, (size_t)(bytes - done));
      if (written < 0) return fail("write", fresh);
      done += written;
    }
  }
  if (bytes < 0) return fail("read", from);
  close(in);
  if (fchmod(out, mode) != 0 || close(out) != 0) return fail("write", fresh);
  return rename(fresh, to) == 0 ? 0 : fail("rename", fresh);
}

static int copy_folder(const char* from, const char* to) {
  if (mkdir(to, 0755) != 0 && errno != EEXIST) return fail("make", to);
  DIR* folder = opendir(from);
  if (folder == NULL) return fail("read", from);
  int failed = 0;
  for (struct dirent* entry = NULL; !failed && (entry = readdir(folder)) != NULL;) {
    char source[kPathBytes];
    char target[kPathBytes];
    struct stat status;
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    const int source_bytes = snprintf(source, sizeof(source), "%s/%s", from, entry->d_name);
    const int target_bytes = snprintf(target, sizeof(target), "%s/%s", to, entry->d_name);
    errno = ENAMETOOLONG;
    if (source_bytes >= kPathBytes || target_bytes >= kPathBytes || stat(source, &status) != 0) {
      failed = fail("read", source);
    } else if (S_ISDIR(status.st_mode)) {
      failed = copy_folder(source, target);
    } else {
      failed = copy_file(source, target, status.st_mode & 0777);
    }
  }
  closedir(folder);
  return failed;
}

int main(int count, char* arguments[]) {
  if (count != 2) {
    fprintf(stderr, "install: give the folder to copy /opt/rollcall to, a mounted volume\n");
    return 2;
  }
  const int failed = copy_folder("/opt/rollcall", arguments[1]);
  if (!failed) printf("install: Rollcall is in %s\n", arguments[1]);
  return failed;
}
