// CUDA's own file of this name checks that the host compiler is one that nvcc knows; nvcc is not used here.
#pragma once
