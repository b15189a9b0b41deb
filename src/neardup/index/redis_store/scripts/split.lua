#!lua flags=allow-oom
-- Add a slice, and move into it the buckets of another one that belong there.
-- KEYS: meta, the slice to split, the new slice. ARGV: identity, number of slices, and the power of
-- two that addresses in both slices are taken modulo. Returns the number of slices.
local meta = redis.call('HMGET', KEYS[1], 'identity', 'slices')
if meta[1] ~= ARGV[1] then return -1 end
local slices, modulus = tonumber(ARGV[2]), tonumber(ARGV[3])
if meta[2] ~= ARGV[2] then return tonumber(meta[2]) end
-- The addresses of all buckets of a slice are equal but for one bit, of one byte of their keys.
local place, bit = 8, modulus / 2
while bit > 128 do place, bit = place - 1, bit / 256 end
local listed, moved, left = redis.call('HGETALL', KEYS[2]), {}, {}
for at = 1, #listed, 2 do
  local key = listed[at]
  if string.byte(key, place) % (2 * bit) >= bit then
    moved[#moved + 1], moved[#moved + 2] = key, listed[at + 1]
    left[#left + 1] = key
  end
end
-- Lua passes a few thousand arguments at most.
for at = 1, #left, 1000 do
  redis.call('HSET', KEYS[3], unpack(moved, 2 * at - 1, math.min(2 * at + 1998, #moved)))
  redis.call('HDEL', KEYS[2], unpack(left, at, math.min(at + 999, #left)))
end
redis.call('HSET', KEYS[1], 'slices', slices + 1)
return slices + 1
