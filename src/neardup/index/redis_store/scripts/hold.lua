#!lua flags=allow-oom
-- Say that a kept document is about to be removed, and return the members of its buckets.
-- KEYS: meta; then slices. ARGV: identity, number of slices, the document, entries as for find.
-- From now on no document that was appended before leaves a full bucket: leaders are counted anew.
-- Returns the number of slices, the fields of the documents that are about to be removed; then place
-- of entry and members of each bucket that has some. Only the number of slices if that is another.
local meta = redis.call('HMGET', KEYS[1], 'identity', 'slices')
if meta[1] ~= ARGV[1] then return -1 end
if meta[2] ~= ARGV[2] then return {tonumber(meta[2])} end
redis.call('HSET', KEYS[1], 'leaving:' .. ARGV[3], 1)
redis.call('HINCRBY', KEYS[1], 'removals', 1)
local leaving = {}
for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
  if string.sub(field, 1, 8) == 'leaving:' then leaving[#leaving + 1] = field end
end
local reply, entries = {tonumber(meta[2]), leaving}, ARGV[4]
for at = 1, #entries, 10 do
  local place, key = struct.unpack('>I2c8', entries, at)
  local members = redis.call('HGET', KEYS[place + 2], key)
  if members then
    reply[#reply + 1] = (at - 1) / 10
    reply[#reply + 1] = members
  end
end
return reply
