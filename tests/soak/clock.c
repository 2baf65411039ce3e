/* A time of day that others can set: what the system tells, plus the number in the file SOAK_CLOCK.

   Preloaded (LD_PRELOAD) into the processes of one job, so that nobody else's clock jumps. Debian's
   libfaketime breaks sleeping by the monotonic clock, which Python and Java do all the time. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define SINCE_1970 1000000000 /* what is less counts from the start of the machine */

static int64_t none = 0;
static volatile int64_t *seconds = &none;
static __typeof__(&clock_gettime) real_clock_gettime;

__attribute__((constructor)) static void open_clock(void)
{
    real_clock_gettime = REAL(clock_gettime);
    const char *path = getenv("SOAK_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *found = mmap(NULL, sizeof *seconds, PROT_READ, MAP_SHARED, file, 0);
    if (found != MAP_FAILED)
        seconds = found;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    if (!real_clock_gettime) /* another library is being loaded */
        real_clock_gettime = REAL(clock_gettime);
    int code = real_clock_gettime(clock, now);
    if (code == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += *seconds;
    return code;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    (void)zone;
    struct timespec found;
    int code = clock_gettime(CLOCK_REALTIME, &found);
    now->tv_sec = found.tv_sec;
    now->tv_usec = found.tv_nsec / 1000;
    return code;
}

time_t time(time_t *now)
{
    struct timespec found;
    clock_gettime(CLOCK_REALTIME, &found);
    if (now)
        *now = found.tv_sec;
    return found.tv_sec;
}

/* Deadlines were computed with our time; the system goes by its own. */
static struct timespec true_time(const struct timespec *deadline)
{
    struct timespec found = *deadline;
    if (found.tv_sec > SINCE_1970)
        found.tv_sec -= *seconds;
    return found;
}

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict deadline)
{
    struct timespec until = true_time(deadline);
    return REAL(pthread_cond_timedwait)(condition, mutex, &until);
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict deadline)
{
    struct timespec until = true_time(deadline);
    return REAL(sem_timedwait)(semaphore, &until);
}
