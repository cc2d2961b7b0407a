// cudnn_frontend as this plugin uses it: every symbol of cuDNN and of CUDA is looked up when it is first called.
#pragma once

#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#define NV_CUDNN_FRONTEND_DISABLE_LOGGING
#include <cudnn_frontend.h>
