// Draws one frame straight into the model's input: f32, channels first, normalised.
#version 450
layout(local_size_x = 64, local_size_y = 2) in;

struct Line {
  int x, y, width, height;
  uint atlas_offset;
  float ink0, ink1, ink2;
};

layout(std430, binding = 0) readonly buffer Lines { Line lines[]; };
layout(std430, binding = 1) readonly buffer Atlas { uint atlas[]; };
layout(std430, binding = 2) writeonly buffer Tensor { float tensor[]; };
layout(push_constant) uniform Frame {
  vec4 paper;
  vec4 mean;
  vec4 deviation;
  int width;
  int height;
  int line_count;
};

void main() {
  const int x = int(gl_GlobalInvocationID.x);
  const int y = int(gl_GlobalInvocationID.y);
  if (x >= width || y >= height) return;
  vec3 color = paper.xyz;
  for (int i = 0; i < line_count; ++i) {
    const int v = y - lines[i].y;
    if (v < 0 || v >= lines[i].height) continue;
    const int u = x - lines[i].x;
    if (u < 0 || u >= lines[i].width) continue;
    const uint texel = lines[i].atlas_offset + uint(v * lines[i].width + u);
    const float cover = float((atlas[texel >> 2] >> ((texel & 3u) * 8u)) & 255u) / 255.0;
    color += (vec3(lines[i].ink0, lines[i].ink1, lines[i].ink2) - color) * cover;
  }
  const vec3 value = (color / 255.0 - mean.xyz) / deviation.xyz;
  const int pixel = y * width + x;
  const int plane = width * height;
  tensor[pixel] = value.x;
  tensor[plane + pixel] = value.y;
  tensor[2 * plane + pixel] = value.z;
}
