// Host time of driver calls, us a call, in loops of 200.
#include <cuda.h>
#include <cuda_runtime.h>
#include <cstdio>
#include <dlfcn.h>
#include <ctime>
#include <algorithm>
#include <vector>
struct A { char b[112]; };
extern "C" __global__ void k(const __grid_constant__ A a) {}
static double now() { timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e6 + t.tv_nsec / 1e3; }
template <class F> static void time(const char *name, CUstream s, F f) {
    std::vector<double> v;
    for (int q = 0; q < 9; q++) { double t = now(); for (int i = 0; i < 200; i++) f(); v.push_back((now() - t) / 200); cuStreamSynchronize(s); }
    std::sort(v.begin(), v.end()); printf(" %s %.3f", name, v[4]); }
int main() {
    cudaSetDevice(0); cudaFree(0); CUfunction f; cudaGetFuncBySymbol(&f, (const void *)k); CUstream s; cuStreamCreate(&s, CU_STREAM_NON_BLOCKING);
    CUevent e; cuEventCreate(&e, CU_EVENT_DISABLE_TIMING); A a = {}; void *p[] = {&a}; CUcontext c; cuuint64_t id; CUstreamCaptureStatus st; cudaEvent_t ee = e;
    auto info = (int (*)(CUstream, int *, unsigned long long *, void *, void *, void *))dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuStreamGetCaptureInfo_v2"); int sti; unsigned long long idi;
    auto launch = [&] { cuLaunchKernel(f, 1, 1, 1, 96, 1, 1, 0, s, p, 0); };
    CUlaunchConfig cfg = {}; cfg.gridDimX = cfg.gridDimY = cfg.gridDimZ = 1; cfg.blockDimX = 96; cfg.blockDimY = cfg.blockDimZ = 1; cfg.hStream = s;
    CUlaunchAttribute at[1] = {}; at[0].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT; at[0].value.programmaticEvent.event = e; at[0].value.programmaticEvent.triggerAtBlockStart = 0;
    printf("driver calls, us:");
    time("launch", s, launch);
    time("launch+record", s, [&] { launch(); cuEventRecord(e, s); });
    time("launch", s, launch);
    time("launch+record", s, [&] { launch(); cuEventRecord(e, s); });
    time("launchEx", s, [&] { cuLaunchKernelEx(&cfg, f, p, 0); });
    cfg.attrs = at; cfg.numAttrs = 1;
    time("launchEx+event", s, [&] { cuLaunchKernelEx(&cfg, f, p, 0); });
    printf(" (rc %d)", (int)cuLaunchKernelEx(&cfg, f, p, 0)); cuStreamSynchronize(s);
    time("record", s, [&] { cuEventRecord(e, s); });
    time("captureinfo", s, [&] { info(s, &sti, &idi, 0, 0, 0); });
    time("captureinfo full", s, [&] { CUgraph g; const CUgraphNode *d; size_t n; info(s, &sti, &idi, &g, &d, &n); });
    time("iscapturing", s, [&] { cuStreamIsCapturing(s, &st); });
    time("streamid", s, [&] { unsigned long long x; cuStreamGetId(s, &x); });
    time("ctxget", s, [&] { cuCtxGetCurrent(&c); });
    int dv; time("ctxdevice", s, [&] { cuCtxGetDevice(&dv); });
    printf("\n"); (void)ee; return 0; }
