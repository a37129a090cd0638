-- Floating-point arithmetic on table fields: planets in orbit, in a simple leapfrog simulation.
-- Masses are in solar masses, lengths in astronomical units, and times in years.
local steps = tonumber(arg[1]) or 220000

local G = 4 * math.pi * math.pi
local bodies = {
  { m = 1.0, x = 0, y = 0, z = 0, u = 0, v = 0, w = 0 },
}
for i, orbit in ipairs {
  { 9.5e-4, 5.2, 0.023 }, { 2.9e-4, 9.5, 0.043 }, { 4.4e-5, 19.2, 0.013 }, { 5.1e-5, 30.1, 0.031 },
} do
  local m, r, tilt = orbit[1], orbit[2], orbit[3]
  local speed = math.sqrt(G / r)
  local angle = i * 1.3
  bodies[#bodies + 1] = {
    m = m,
    x = r * math.cos(angle), y = r * math.sin(angle), z = r * tilt,
    u = -speed * math.sin(angle), v = speed * math.cos(angle), w = speed * tilt,
  }
end

local function advance(list, dt)
  local n = #list
  for i = 1, n do
    local a = list[i]
    local ax, ay, az, am = a.x, a.y, a.z, a.m
    local au, av, aw = a.u, a.v, a.w
    for j = i + 1, n do
      local b = list[j]
      local dx, dy, dz = ax - b.x, ay - b.y, az - b.z
      local square = dx * dx + dy * dy + dz * dz
      local pull = G * dt / (square * square ^ 0.5)
      local toward_b, toward_a = b.m * pull, am * pull
      au, av, aw = au - dx * toward_b, av - dy * toward_b, aw - dz * toward_b
      b.u, b.v, b.w = b.u + dx * toward_a, b.v + dy * toward_a, b.w + dz * toward_a
    end
    a.u, a.v, a.w = au, av, aw
    a.x, a.y, a.z = ax + dt * au, ay + dt * av, az + dt * aw
  end
end

for _ = 1, steps do
  advance(bodies, 0.001)
end
local sum = 0
for _, b in ipairs(bodies) do
  sum = sum + b.m * (b.u * b.u + b.v * b.v + b.w * b.w)
end
print(string.format("%.9f", sum))
