#include <stdio.h>
#include "queue.h"

#define CAPACITY 16
#define MIN(a, b) ((a) < (b) ? (a) : (b))

/* What waits. */
typedef struct {
    int id;
    char *name, tags[4];
} job_t;

struct queue {
    struct queue *next;
    job_t jobs[CAPACITY];
    void (*done)(struct queue *, int);
    union { int number; char text[8]; } extra;
};

typedef enum { LOW, HIGH = 5 } priority;
typedef int (*compare_fn)(const job_t *, const job_t *);
enum color { RED, GREEN } paint;

extern int verbose;
static const char *const names[] = {"a", "b"};
int limit = CAPACITY, *cursor;

/** Adds a job.
 *  Returns how many there are. */
int push(struct queue *queue, const job_t *job);

static int compare(const job_t *left, const job_t *right)
{
    return left->id - right->id;
}

int push(struct queue *queue, const job_t *job)
{
    int count = 0;
    struct queue *here = queue;
    for (int i = 0; i < MIN(limit, CAPACITY); i++) {
        here->jobs[i].id = job->id;
        count += compare(job, &here->jobs[i]);
    }
    here->done(here, count);
    limit = count;
    return printf("%d", (int) sizeof(priority));
}

char *label(void) { return (char *) names[RED]; }
