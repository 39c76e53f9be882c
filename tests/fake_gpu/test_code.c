/* SPDX-License-Identifier: MIT
 *
 * Proves that a device takes the code object of its architecture, whatever its settings of xnack and sramecc, that any other architecture is refused with a text that
 * names it and those of the build, and that so is a code object that the runtime does not take. */
#include "fake_test.h"
#include "runtime/code_objects.h"
#include "runtime/runtime.h"

static const struct fake_control *fake;

struct code_case {
    const char *arch; /* of the device */
    const char *call; /* that fails with this code, or NULL */
    int code;
    const char *text; /* instead of "no code object for" */
};

static bool is_built(const char *arch)
{
    size_t length = strcspn(arch, ":");
    for (const struct ccl_code_object *o = ccl_code_objects; o->arch != NULL; o++) {
        for (const char *word = o->arch; *word != '\0'; word += strcspn(word, " "), word += *word == ' ') {
            if (strcspn(word, " ") == length && strncmp(word, arch, length) == 0) {
                return true;
            }
        }
    }
    return false;
}

static int open_device(const void *arg)
{
    const struct code_case *c = (const struct code_case *)arg;
    const struct ccl_runtime_ops *rt;
    struct cclStream *stream = NULL;
    char processor[32];
    bool built = is_built(c->arch), good = built && c->call == NULL, other = built && c->text != NULL;
    snprintf(processor, sizeof(processor), "%.*s", (int)strcspn(c->arch, ":"), c->arch);
    setenv("FAKE_GPU_ARCH", c->arch, 1);
    if (c->call != NULL) {
        fake->fail(c->call, 1, c->code);
    }
    cclResult_t rc = ccl_runtime_get(&rt);
    rc = rc == cclSuccess ? rt->stream_create(&stream) : rc;
    TEST_EQ(rc, good ? cclSuccess : cclInvalidUsage);
    if (!good) {
        printf("%s: %s\n", c->arch, ccl_error_last());
        TEST_CHECK(strstr(ccl_error_last(), processor) != NULL && strstr(ccl_error_last(), other ? c->text : "no code object for") != NULL);
        TEST_CHECK(other || strstr(ccl_error_last(), ccl_code_objects[0].arch) != NULL);
    }
    fflush(NULL);
    return test_result();
}

int main(void)
{
    static const struct code_case cases[] = {
        {.arch = "gfx90a:sramecc+:xnack-"},
        {.arch = "gfx90a:sramecc-:xnack+"},
        {.arch = "gfx942"},
        {.arch = "gfx942:sramecc+:xnack-"},
        {.arch = "gfx950:sramecc+:xnack+"},
        {.arch = "gfx1100"},
        {.arch = "gfx1250"},
        {.arch = "gfx906:sramecc+:xnack-"},
        {.arch = "gfx9"},
        {.arch = "gfx9420"},
        {.arch = "gfx942", .call = "hipModuleLoadData", .code = 209}, /* no binary for the GPU */
        {.arch = "gfx942", .call = "hipModuleLoadData", .code = 200, .text = "too old for the code object"}, /* invalid image */
    };
    int built = 0;
    if (getenv("LD_LIBRARY_PATH") == NULL || getenv("FAKE_GPU") == NULL) {
        TEST_SKIP_NOW("run by CTest, which sets LD_LIBRARY_PATH and FAKE_GPU");
    }
    setenv("CCL_BACKEND", "gpu", 1);
    setenv("CCL_DEBUG", "none", 0);
    fake = fake_open();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        built += cases[i].call == NULL && is_built(cases[i].arch);
        TEST_EQ(run_case(open_device, &cases[i]), 0);
    }
    TEST_CHECK(built > 0); /* else only refusals were seen */
    return test_result();
}
