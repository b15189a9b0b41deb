#!lua flags=allow-oom
-- Add slices, and move into each the buckets of another one that belong there.
-- KEYS: meta; then for each new slice: the slice to split, the new one. ARGV: identity, number of
-- slices. Returns the number of slices; nothing is done if that is another one.
local MOST_PACKED = 512 -- hash-max-listpack-entries
local meta = redis.call('HMGET', KEYS[1], 'identity', 'slices')
if meta[1] ~= ARGV[1] then return -1 end
if meta[2] ~= ARGV[2] then return tonumber(meta[2]) end
local slices, modulus = tonumber(ARGV[2]), 1

local function delete(slice, keys)
  -- Lua passes a few thousand arguments at most.
  for at = 1, #keys, 1000 do
    redis.call('HDEL', slice, unpack(keys, at, math.min(at + 999, #keys)))
  end
end

local function rewrite(slice, keys, members)
  redis.call('DEL', slice)
  for at = 1, #keys, 500 do
    local fields = {}
    for place = at, math.min(at + 499, #keys) do
      fields[#fields + 1], fields[#fields + 2] = keys[place], members[keys[place]]
    end
    redis.call('HSET', slice, unpack(fields))
  end
end

for at = 2, #KEYS, 2 do
  -- The addresses of all buckets of a slice are equal but for one bit, of one byte of their keys:
  -- they are taken modulo the power of two above the number of slices.
  while modulus <= slices do modulus = 2 * modulus end
  local place, bit = 8, modulus / 2
  while bit > 128 do place, bit = place - 1, bit / 256 end
  local from, to, staying, moved = KEYS[at], KEYS[at + 1], {}, {}
  local all = redis.call('HKEYS', from)
  for _, key in ipairs(all) do
    local keys = string.byte(key, place) % (2 * bit) < bit and staying or moved
    keys[#keys + 1] = key
  end
  if #all > MOST_PACKED then
    -- Redis does not pack a hash again that had more, nor a copy of it.
    local members, listed = {}, redis.call('HGETALL', from)
    for place = 1, #listed, 2 do members[listed[place]] = listed[place + 1] end
    rewrite(from, staying, members)
    rewrite(to, moved, members)
  elseif #moved > 0 then
    -- No member passes through Lua: the slice is copied, and either loses what the other one keeps.
    redis.call('COPY', from, to, 'REPLACE')
    delete(to, staying)
    delete(from, moved)
  end
  slices = slices + 1
end
redis.call('HSET', KEYS[1], 'slices', slices)
return slices
