// Which devices this process sees, which one the calling thread uses, and the contexts on them.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <string>

namespace hollow {

/// Devices that CUDA_VISIBLE_DEVICES leaves. They are numbered anew from 0; `physical` gives the board's number.
int visible_devices();
int physical(int visible);
bool is_visible(int visible);

/// The thread's current device, as a visible number. All of hollow's own code uses the board's numbers instead.
int current();
void set_current(int visible);
int current_physical();  // -1: there is no device

/// Makes sure that this process has a context on a device (the board's number). An error if its bytes do not fit.
cudaError_t require_context(int device);
bool has_context(int device);
/// The primary context of a visible device. Its device can be found again.
CUcontext context_of(int visible);
int device_of(CUcontext context);  // -1: no context

/// The board's numbers of devices do not change with CUDA_VISIBLE_DEVICES, and neither do these.
CUuuid uuid_of(int device);
std::string uuid_text(int device);
std::string pci_text(int device);

int attribute(int which, int device);
void describe(cudaDeviceProp* out, int device);

}  // namespace hollow
