/*
 * Records what a process does to the files below a folder, as one sequence: preloaded, it stands between the process and libc.
 * RECORD_FOLDER names the folder (absolute, without links), RECORD_LOG the file that operations are appended to. What the process
 * writes to its standard output is in the same sequence, so that it is known what had been reported before each operation.
 * Memory maps are not seen: SQLite maps its -shm file only, which counts for nothing after a power loss.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { OPENED = 1, WRITTEN, TRUNCATED, SYNCED, RENAMED, REMOVED, FOLDER_MADE, TOLD };
enum { IS_CREATED = 1, IS_EMPTIED = 2 };

struct operation {
  uint32_t kind;
  int32_t descriptor;
  int64_t offset;
  uint32_t flags;
  uint32_t length;
};

enum { MOST_DESCRIPTORS = 4096 };
/* The file that a descriptor was opened for. Not every close can be seen, and the number may stand for a socket by now. */
static struct stat watched[MOST_DESCRIPTORS];
static const char *folder;
static size_t folder_length;
static int log_descriptor = -1;
/* Held over an operation and its record, so that their order is the same. */
static pthread_mutex_t order = PTHREAD_MUTEX_INITIALIZER;

#define REAL(name) ((__typeof__(&name))real(#name))
static void *real(const char *name) {
  return dlsym(RTLD_NEXT, name);
}

__attribute__((constructor)) static void start(void) {
  folder = getenv("RECORD_FOLDER");
  const char *log = getenv("RECORD_LOG");
  if (folder == NULL || log == NULL) return;
  folder_length = strlen(folder);
  log_descriptor = REAL(open)(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  /* Other programs that this process starts are not recorded. */
  unsetenv("LD_PRELOAD");
}

static int is_below(const char *path) {
  return log_descriptor >= 0 && strncmp(path, folder, folder_length) == 0 &&
         (path[folder_length] == '/' || path[folder_length] == '\0');
}

static int is_recorded(int descriptor) {
  struct stat now;
  return descriptor >= 0 && descriptor < MOST_DESCRIPTORS && watched[descriptor].st_ino != 0 && fstat(descriptor, &now) == 0 &&
         now.st_ino == watched[descriptor].st_ino && now.st_dev == watched[descriptor].st_dev;
}

static void record(uint32_t kind, int descriptor, int64_t offset, uint32_t flags, const struct iovec *data, int count, size_t length) {
  struct operation head = {kind, descriptor, offset, flags, (uint32_t)length};
  struct iovec all[66] = {{&head, sizeof head}};
  int used = 1;
  for (int index = 0; index < count && length > 0 && used < 66; index++) {
    size_t part = data[index].iov_len < length ? data[index].iov_len : length;
    all[used++] = (struct iovec){data[index].iov_base, part};
    length -= part;
  }
  /* A record that is not whole would make all that follow unreadable. */
  if (length > 0 || REAL(writev)(log_descriptor, all, used) != (ssize_t)(sizeof head + head.length)) abort();
}

static void record_path(uint32_t kind, int descriptor, uint32_t flags, const char *path, const char *other) {
  struct iovec names[3] = {{(void *)path, strlen(path)}, {(void *)"\n", 1}, {(void *)other, strlen(other)}};
  record(kind, descriptor, 0, flags, names, 3, names[0].iov_len + 1 + names[2].iov_len);
}

static void watch(int descriptor, const char *path, int flags, int was_there) {
  if (descriptor >= MOST_DESCRIPTORS || fstat(descriptor, &watched[descriptor]) != 0) abort();
  record_path(OPENED, descriptor, (was_there ? 0 : IS_CREATED) | (flags & O_TRUNC ? IS_EMPTIED : 0), path, "");
}

/* The error of the operation, not of what records it, is what its caller sees. */
#define IN_ORDER(is_of_interest, call, after)    \
  do {                                           \
    if (!(is_of_interest)) return call;          \
    pthread_mutex_lock(&order);                  \
    __typeof__(call) result = call;              \
    int error = errno;                           \
    if (result >= 0) { after; }                  \
    errno = error;                               \
    pthread_mutex_unlock(&order);                \
    return result;                               \
  } while (0)

#define OPEN(name)                                                                                  \
  int name(const char *path, int flags, ...) {                                                      \
    va_list rest;                                                                                   \
    va_start(rest, flags);                                                                          \
    mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;                                       \
    va_end(rest);                                                                                   \
    int was_there = !(flags & O_CREAT) || access(path, F_OK) == 0;                                  \
    IN_ORDER(is_below(path), REAL(name)(path, flags, mode), watch(result, path, flags, was_there)); \
  }
OPEN(open)
OPEN(open64)

static int64_t place_of(int descriptor) {
  return fcntl(descriptor, F_GETFL) & O_APPEND ? lseek(descriptor, 0, SEEK_END) : lseek(descriptor, 0, SEEK_CUR);
}

ssize_t write(int descriptor, const void *data, size_t length) {
  struct iovec one = {(void *)data, length};
  int64_t place = is_recorded(descriptor) ? place_of(descriptor) : 0;
  uint32_t kind = is_recorded(descriptor) ? WRITTEN : TOLD;
  IN_ORDER(is_recorded(descriptor) || (descriptor == 1 && log_descriptor >= 0), REAL(write)(descriptor, data, length),
           record(kind, descriptor, place, 0, &one, 1, result));
}

ssize_t writev(int descriptor, const struct iovec *data, int count) {
  int64_t place = is_recorded(descriptor) ? place_of(descriptor) : 0;
  IN_ORDER(is_recorded(descriptor), REAL(writev)(descriptor, data, count),
           record(WRITTEN, descriptor, place, 0, data, count, result));
}

#define PWRITE(name)                                                                            \
  ssize_t name(int descriptor, const void *data, size_t length, off_t place) {                  \
    struct iovec one = {(void *)data, length};                                                  \
    IN_ORDER(is_recorded(descriptor), REAL(name)(descriptor, data, length, place),              \
             record(WRITTEN, descriptor, place, 0, &one, 1, result));                           \
  }
PWRITE(pwrite)
PWRITE(pwrite64)

#define PWRITEV(name)                                                                           \
  ssize_t name(int descriptor, const struct iovec *data, int count, off_t place) {              \
    IN_ORDER(is_recorded(descriptor), REAL(name)(descriptor, data, count, place),               \
             record(WRITTEN, descriptor, place, 0, data, count, result));                       \
  }
PWRITEV(pwritev)
PWRITEV(pwritev64)

#define FTRUNCATE(name)                                                                         \
  int name(int descriptor, off_t length) {                                                      \
    IN_ORDER(is_recorded(descriptor), REAL(name)(descriptor, length),                           \
             record(TRUNCATED, descriptor, length, 0, NULL, 0, 0));                             \
  }
FTRUNCATE(ftruncate)
FTRUNCATE(ftruncate64)

#define SYNC(name)                                                                              \
  int name(int descriptor) {                                                                    \
    IN_ORDER(is_recorded(descriptor), REAL(name)(descriptor),                                   \
             record(SYNCED, descriptor, 0, 0, NULL, 0, 0));                                     \
  }
SYNC(fsync)
SYNC(fdatasync)

int rename(const char *from, const char *to) {
  IN_ORDER(is_below(from), REAL(rename)(from, to), record_path(RENAMED, -1, 0, from, to));
}

#define PATH(name, kind)                                                                        \
  int name(const char *path) {                                                                  \
    IN_ORDER(is_below(path), REAL(name)(path), record_path(kind, -1, 0, path, ""));             \
  }
PATH(unlink, REMOVED)
PATH(rmdir, REMOVED)
PATH(remove, REMOVED)

int mkdir(const char *path, mode_t mode) {
  IN_ORDER(is_below(path), REAL(mkdir)(path, mode), record_path(FOLDER_MADE, -1, 0, path, ""));
}
