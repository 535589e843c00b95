/* A libnvidia-ml.so.1 for machines without GPUs, as far as Tenure asks NVML anything.
 *
 * Settings, all environment variables:
 *   FAKE_NVML_COUNT   number of GPUs (2)
 *   FAKE_NVML_LOST    index of a GPU that has fallen off the bus (none)
 *   FAKE_NVML_INIT    what nvmlInit returns, for instance 9 for a driver that is not loaded (0)
 *   FAKE_NVML_LOG     a file that gets a line for each init and shutdown (none)
 */
#include <stdio.h>
#include <stdlib.h>

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, GPU_IS_LOST = 15 };

typedef struct {
    unsigned long long total, free, used;
} memory_t;

typedef struct {
    unsigned int gpu, memory;
} utilization_t;

static int initialized = 0;
static int devices[64];

static int setting(const char *name, int otherwise) {
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}

static void note(const char *what) {
    const char *path = getenv("FAKE_NVML_LOG");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (file) {
        fprintf(file, "%s\n", what);
        fclose(file);
    }
}

static int check(const int *device) {
    return !initialized ? UNINITIALIZED : device == NULL ? INVALID_ARGUMENT : SUCCESS;
}

int nvmlInitWithFlags(unsigned int flags) {
    (void)flags;
    int result = setting("FAKE_NVML_INIT", SUCCESS);
    if (result == SUCCESS) {
        initialized++;
        note("init");
    }
    return result;
}

int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

int nvmlShutdown(void) {
    if (!initialized) return UNINITIALIZED;
    initialized--;
    note("shutdown");
    return SUCCESS;
}

const char *nvmlErrorString(int result) {
    switch (result) {
        case SUCCESS: return "The operation was successful";
        case UNINITIALIZED: return "NVML was not first initialized with nvmlInit()";
        case GPU_IS_LOST: return "GPU is lost";
        default: return "Unknown error";
    }
}

int nvmlDeviceGetCount_v2(unsigned int *count) {
    if (!initialized) return UNINITIALIZED;
    *count = (unsigned int)setting("FAKE_NVML_COUNT", 2);
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, int **device) {
    if (!initialized) return UNINITIALIZED;
    if (index >= (unsigned int)setting("FAKE_NVML_COUNT", 2) || index >= 64) return INVALID_ARGUMENT;
    if ((int)index == setting("FAKE_NVML_LOST", -1)) return GPU_IS_LOST;
    devices[index] = (int)index;
    *device = &devices[index];
    return SUCCESS;
}

int nvmlDeviceGetName(const int *device, char *name, unsigned int length) {
    int result = check(device);
    if (result == SUCCESS) snprintf(name, length, "Fake GPU %d", *device);
    return result;
}

int nvmlDeviceGetUUID(const int *device, char *uuid, unsigned int length) {
    int result = check(device);
    if (result == SUCCESS) snprintf(uuid, length, "GPU-00000000-0000-0000-0000-%012d", *device);
    return result;
}

int nvmlDeviceGetMemoryInfo(const int *device, memory_t *memory) {
    int result = check(device);
    if (result == SUCCESS) {
        memory->total = 80ULL << 30;
        memory->used = 1ULL << 30;
        memory->free = memory->total - memory->used;
    }
    return result;
}

int nvmlDeviceGetUtilizationRates(const int *device, utilization_t *utilization) {
    int result = check(device);
    if (result == SUCCESS) {
        utilization->gpu = 10u * (unsigned int)(*device + 1);
        utilization->memory = 5u;
    }
    return result;
}
